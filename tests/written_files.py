"""Texts as files of all kinds, made by hand or by the libraries of the extra `files`."""

from __future__ import annotations

import io
import textwrap
import zipfile
from html import escape
from pathlib import Path

PAGE_LINES = 48  # of a page of a PDF
KINDS = ("utf-8.txt", "utf-16.txt", "cp1252.txt", "html", "docx", "epub", "md", "pdf")


def write_text_as(kind: str, path: Path, text: str) -> Path:
    """A text of paragraphs as a file of one of KINDS; `path` has no suffix yet."""
    encoding, _, suffix = kind.rpartition(".")
    path = path.with_name(f"{path.name}.{suffix}")
    paragraphs = text.split("\n\n")
    if encoding:
        path.write_text(text, encoding)
    elif kind == "html":
        body = "".join(f"<p>{escape(paragraph)}</p>\n" for paragraph in paragraphs)
        path.write_text(f"<!doctype html><title>Not this</title><style>p {{ margin: 0 }}</style><body>{body}", "utf-8")
    elif kind == "docx":
        import docx

        document = docx.Document()
        for paragraph in paragraphs:
            document.add_paragraph(paragraph)
        document.save(str(path))
    elif kind == "epub":
        page = "".join(f"<p>{escape(paragraph)}</p>" for paragraph in paragraphs)
        write_epub(path, {"one.xhtml": f"<html><body>{page}</body></html>".encode()}, ["one.xhtml"])
    elif kind == "md":
        path.write_text(f"---\ntitle: Not this\n---\n{text}\n\n```\nnot_this = 1\n```\n", "utf-8")
    elif kind == "pdf":
        lines = [line for paragraph in paragraphs for line in textwrap.wrap(paragraph, 80, break_on_hyphens=False)]
        path.write_bytes(pdf(*(lines[at : at + PAGE_LINES] for at in range(0, len(lines), PAGE_LINES))))
    else:
        raise ValueError(kind)
    return path


def write_epub(path, pages, spine, container=True):
    """An EPUB with `pages` {file name: bytes}, read in the order of `spine`."""
    items = "".join(
        f'<item id="i{n}" href="text/{name.replace(" ", "%20")}" media-type="application/xhtml+xml" '
        f'properties="{"nav" if name == "contents.xhtml" else ""}"/>'
        for n, name in enumerate(pages)
    )
    order = "".join(f'<itemref idref="i{list(pages).index(name)}"/>' for name in spine)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("mimetype", "application/epub+zip")
        if container:
            book.writestr(
                "META-INF/container.xml",
                '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
                '<rootfile full-path="OEBPS/book.opf"/></rootfiles></container>',
            )
        book.writestr(
            "OEBPS/book.opf",
            f'<package xmlns="http://www.idpf.org/2007/opf"><manifest>{items}</manifest><spine>{order}</spine></package>',
        )
        for name, page in pages.items():
            book.writestr(f"OEBPS/text/{name}", page)
    return path


def pdf(*pages):
    """A PDF written by hand: each page shows its lines, or nothing."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b""]
    kids = []
    for lines in pages:
        shown = b" T* ".join(b"(" + _pdf_string(line) + b") Tj" for line in lines)
        content = b"BT /F1 12 Tf 14 TL 72 720 Td " + shown + b" ET" if lines else b""
        kids.append(len(objects) + 1)
        font = b"<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
        contents = f"{len(objects) + 2} 0 R".encode()
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %b /Resources %b >>" % (contents, font)
        )
        objects.append(b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content))
    kids_list = b" ".join(b"%d 0 R" % kid for kid in kids)
    objects[1] = b"<< /Type /Pages /Count %d /Kids [%b] >>" % (len(kids), kids_list)
    out, places = io.BytesIO(b"%PDF-1.4\n"), []
    out.seek(0, 2)
    for number, content in enumerate(objects, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj\n%b\nendobj\n" % (number, content))
    table = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    out.write(b"".join(b"%010d 00000 n \n" % place for place in places))
    out.write(b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, table))
    return out.getvalue()


def _pdf_string(line: str) -> bytes:
    for sign in "\\()":
        line = line.replace(sign, f"\\{sign}")
    return line.encode("latin-1")
