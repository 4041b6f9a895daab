"""Files as people have them, made here: by the library, by hand, in several encodings."""

import io
import struct
import sys
import zipfile

import pytest
from written_files import pdf, write_epub

from pan21av.data import readers
from pan21av.data.readers import read_plain_file, read_text_file
from pan21av.errors import InputError

TEXT = "“I don’t know,” she said – the café was closed; naïve of us, perhaps.\r\nWe waited.\r\n"


def words(text):
    return text.split()


def written(folder, name, data):
    (folder / name).write_bytes(data)
    return folder / name


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])
def test_encodings(tmp_path, encoding):
    """With or without a byte order mark; its lines end as they did."""
    assert read_text_file(written(tmp_path, "a.txt", TEXT.encode(encoding))) == TEXT


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
def test_utf_16_with_its_mark(tmp_path, mark):
    encoding = "utf-16-le" if mark == b"\xff\xfe" else "utf-16-be"
    assert read_text_file(written(tmp_path, "a.txt", mark + TEXT.encode(encoding))) == TEXT


@pytest.mark.parametrize(
    "text",
    [
        "café",
        "It’s only one sign in a very long text. " + "The rest of it is plain and goes on for a while. " * 200,
        "It’s. " + "plain words here " * 500,
        "“Curly” ‘quotes’ — and dashes – and an ellipsis…",
        "Über die Brücke went Señor Núñez, crème brûlée in hand, £5 and 20° — déjà vu.",
    ],
)
def test_windows_1252(tmp_path, text):
    assert read_text_file(written(tmp_path, "a.txt", text.encode("cp1252"))) == text


PAGE = """<!DOCTYPE html><html><head><title>Not this</title><meta charset="{}"><style>p {{ color: red }}</style></head>
<body><!-- nor <b>this</b> --><main><h1>The h<b>ea</b>ding</h1><p class="x">It was a café &amp; a bar.<br>Late.</p>
<script>if (a < b) hide();</script><table><tr><td>one</td><td>two</td></tr></table></main></body></html>"""


@pytest.mark.parametrize("encoding", ["utf-8", "iso-8859-1", "windows-1252", "utf-16"])
def test_a_web_page(tmp_path, encoding):
    path = written(tmp_path, "a.HTML", PAGE.format(encoding).encode(encoding))
    assert read_text_file(path).split() == words("The heading It was a café & a bar. Late. one two")


def test_a_page_takes_time_in_proportion(tmp_path):
    """Marks that are never closed: each is read at once, or this test never ends."""
    for piece in ("<!--", "<a ", "</", "<script>", "<p ", "&", "<title>"):
        read_text_file(written(tmp_path, "a.html", b"text " + piece.encode() * (300_000 // len(piece))))


def test_markdown(tmp_path):
    text = (
        "---\ntitle: Not this\n---\n# A heading\n\nSome *words* and a [link](http://example.org/not_this), it's "
        "`inline`.\n\n```python\nnot_this = 1\n```\n\n- one item\n\n| a | b |\n|---|---|\n| left | right |\n"
    )
    expected = "A heading Some words and a link, it's inline. one item a b left right"
    assert read_text_file(written(tmp_path, "a.md", text.encode())).split() == expected.split()
    assert read_plain_file(tmp_path / "a.md") == text


def test_a_word_document(tmp_path):
    docx = pytest.importorskip("docx")
    document = docx.Document()
    document.add_heading("The heading")
    paragraph = document.add_paragraph("It was “late”")
    paragraph.add_run(" and dark.").bold = True
    cells = document.add_table(1, 2).rows[0].cells
    cells[0].text, cells[1].text = "left", "right"
    # Changes that are tracked: one inserted, one taken out, one moved away.
    word = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    for tag, inner in (("ins", "t"), ("del", "delText"), ("moveFrom", "t")):
        xml = f'<w:{tag} xmlns:w="{word}"><w:r><w:{inner}>{tag}</w:{inner}></w:r></w:{tag}>'
        paragraph._p.append(docx.oxml.parse_xml(xml))
    document.save(tmp_path / "a.docx")
    assert read_text_file(tmp_path / "a.docx") == "The heading\n\nIt was “late” and dark.ins\n\nleft\n\nright\n\n"
    # By its first bytes, not by its name.
    assert "late" in read_text_file((tmp_path / "a.docx").rename(tmp_path / "b.txt"))


def test_an_e_book(tmp_path):
    """Pages in the order of the spine, each in its own encoding, without the table of contents."""
    latin = '<?xml version="1.0" encoding="iso-8859-1"?><html><body><p>The café.</p></body></html>'
    pages = {
        "contents.xhtml": b"<html><body>Contents</body></html>",
        "z first.xhtml": latin.encode("latin-1"),
        "a.xhtml": b"<html><head><title/></head><body><p>Second.</p></body></html>",
        "unused.xhtml": b"<html><body>Unused.</body></html>",
    }
    path = write_epub(tmp_path / "a.epub", pages, ["contents.xhtml", "z first.xhtml", "a.xhtml"])
    assert read_text_file(path).split() == ["The", "café.", "Second."]


def test_a_pdf(tmp_path):
    """Words divided at the end of a line are put together."""
    path = written(tmp_path, "a.pdf", pdf(["It was a remark-", "able day."], ["The next page."]))
    assert read_text_file(path).split() == words("It was a remarkable day. The next page.")


def test_a_scanned_pdf(tmp_path):
    with pytest.raises(InputError, match=r"a.pdf holds no text; if it was scanned, .*\(OCR\)"):
        read_text_file(written(tmp_path, "a.pdf", pdf([], [])))


def test_a_pdf_with_a_password(tmp_path):
    pypdf = pytest.importorskip("pypdf")
    writer = pypdf.PdfWriter(io.BytesIO(pdf(["Secret."])))
    writer.encrypt("word", algorithm="RC4-128")
    writer.write(tmp_path / "a.pdf")
    with pytest.raises(InputError, match=r"a.pdf asks for a password: save it without one"):
        read_text_file(tmp_path / "a.pdf")


def zipped(**files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name.replace("__", "/"), data)
    return out.getvalue()


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">IIB", 640, 480, 8) + bytes(range(256)) * 4


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.doc", b"\xd0\xcf\x11\xe0rest", "a.doc is an old Word document: save it as .docx, .pdf or plain text"),
        ("a.rtf", b"{\\rtf1 text}", "a.rtf is rich text: save it as .docx"),
        ("a.zip", zipped(text="words"), "a.zip is a zip archive, but no .docx or .epub"),
        ("a.docx", b"PK\x03\x04rest", "a.docx is a damaged .docx, .epub or zip archive: File is not a zip file"),
        ("a.docx", zipped(word__document="words"), "a.docx cannot be read as a .docx: "),
        ("a.epub", zipped(**{"META-INF__container.xml": "<a"}), "a.epub cannot be read as an .epub: unclosed token"),
        ("a.epub", zipped(**{"META-INF__container.xml": "<a/>"}), "an .epub: it does not say where its contents are"),
        ("a.pdf", b"%PDF-1.7 and no more", "a.pdf cannot be read as a PDF: "),
        ("a.txt", PNG, "a.txt is not text in an encoding that we know: save it as UTF-8"),
        ("a.txt", b"\xff\xfe" + "text".encode("utf-16-le") + b"\0", "a.txt is not text in an encoding that we know"),
        ("a.txt", b"\0\1\2\3" * 100, "a.txt is no text: it holds bytes that no text has"),
        ("a.txt", bytes(range(128, 256)) * 9, "a.txt is not text in an encoding that we know: save it as UTF-8"),
        ("a.txt", b"", "a.txt holds no text"),
        ("a.txt", b" \n\t", "a.txt holds no text"),
        ("a.html", b"<html><head><title>x</title></head><body></body></html>", "a.html holds no text"),
        ("a.md", b"```\ncode\n```\n", "a.md holds no text"),
    ],
)
def test_files_that_hold_no_text(tmp_path, name, data, message):
    with pytest.raises(InputError, match=message) as caught:
        read_text_file(written(tmp_path, name, data))
    assert "\n" not in str(caught.value)


def test_no_file(tmp_path):
    with pytest.raises(InputError, match=r"a.txt: No such file or directory$"):
        read_text_file(tmp_path / "a.txt")
    with pytest.raises(InputError, match=r"Is a directory$"):
        read_text_file(tmp_path)


def test_a_bomb(tmp_path, monkeypatch):
    """A few kilobytes that unpack to much more; and a file that is large itself."""
    monkeypatch.setattr(readers, "MAX_UNPACKED", 8 << 20)
    monkeypatch.setattr(readers, "MAX_BYTES", 1 << 20)
    bomb = written(tmp_path, "a.docx", zipped(word__document="0" * (9 << 20)))
    assert bomb.stat().st_size < 20_000
    with pytest.raises(InputError, match=r"a.docx unpacks to 9 MiB, more than the 8 that a text may"):
        read_text_file(bomb)
    with pytest.raises(InputError, match=r"b.txt is larger than 1 MiB: no text of one author is; cut it"):
        read_text_file(written(tmp_path, "b.txt", b"a" * ((1 << 20) + 1)))


@pytest.mark.parametrize(
    ("name", "data", "package"),
    [
        ("a.txt", b"caf\xe9 at night", "charset_normalizer"),
        ("a.pdf", pdf(["text"]), "pypdf"),
        ("a.docx", zipped(word__document="x"), "docx"),
        ("a.md", b"# text", "markdown_it"),
    ],
)
def test_without_the_extra(tmp_path, monkeypatch, name, data, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        InputError, match=rf"{name} needs the package {package} to be read: pip install 'pan21av\[files\]'"
    ):
        read_text_file(written(tmp_path, name, data))
