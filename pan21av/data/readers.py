"""One text from one file, as people have them: plain in several encodings, .html, .md, .docx, .epub, .pdf.

What a file is, its first bytes tell, and its name only where they cannot. The libraries are in the extra `files`,
except for UTF-8, UTF-16, .html and .epub, which the standard library reads.
"""

from __future__ import annotations

import codecs
import io
import logging
import posixpath
import re
import zipfile
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

from ..errors import InputError
from .repair import page_text

MAX_BYTES = 64 << 20  # of a file; a long novel has 2
MAX_UNPACKED = 256 << 20  # of all that a .docx or .epub holds, pictures too
MAX_CONTROLS = 0.01  # share of control characters in a text

# What the first bytes say. The longer of two marks that begin alike comes first.
_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_UNREADABLE = {b"\xd0\xcf\x11\xe0": "an old Word document", b"{\\rtf": "rich text"}
_ZIP, _PDF = b"PK\x03\x04", b"%PDF"
_PAGES, _MARKDOWN = (".html", ".htm", ".xhtml"), (".md", ".markdown")
# In what texts in English are written, besides UTF-8. The detector is asked for no other: a single curly apostrophe
# fits many encodings, and of those it takes Mac Roman for likelier as often as not.
_ENCODINGS = ["cp1252", "latin_1"]
_DECLARED = re.compile(rb"<(?:meta|\?xml)\b[^<>]{0,200}?(?:charset|encoding)\s{0,5}=\s{0,5}[\"']?([\w-]{1,40})", re.I)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x7f]")
_FRONT_MATTER = re.compile(r"\A---\n(?:(?!---\n)[^\n]{0,1000}\n){0,200}---\n")
_DIVIDED = re.compile(r"([a-z])-\n([a-z])")


def read_text_file(path: Path) -> str:
    """The text of a file, without its mark-up. InputError says what the file is instead, and what to do."""
    data = _bytes_of(path)
    for start, name in _UNREADABLE.items():
        if data.startswith(start):
            raise InputError(f"{path} is {name}: save it as .docx, .pdf or plain text first")
    if data.startswith(_ZIP):
        text = _archive(data, path)
    elif data.startswith(_PDF):
        text = _parsed(_pdf, data, path, "a PDF")
        if not text.strip():
            raise InputError(f"{path} holds no text; if it was scanned, let a program for text recognition (OCR) at it")
    else:
        text = decode(data, path)
        if path.suffix.lower() in _PAGES:
            text = page_text(text)
        elif path.suffix.lower() in _MARKDOWN:
            text = _markdown(text, path)
    return _not_empty(text, path)


def read_plain_file(path: Path) -> str:
    """The characters of a file as they are."""
    return _not_empty(decode(_bytes_of(path), path), path)


def _not_empty(text: str, path: Path) -> str:
    if not text.strip():
        raise InputError(f"{path} holds no text")
    return text


def _bytes_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise InputError(f"{path} is larger than {MAX_BYTES >> 20} MiB: no text of one author is; cut it")
    return data


def decode(data: bytes, path: Path) -> str:
    """Characters from bytes: by a byte order mark, as UTF-8, as the file declares, or as they look like."""
    try:
        text = _decoded(data, path)
    except (UnicodeError, LookupError):
        raise InputError(f"{path} is not text in an encoding that we know: save it as UTF-8") from None
    if len(_CONTROL.findall(text)) > MAX_CONTROLS * len(text):
        raise InputError(f"{path} is no text: it holds bytes that no text has")
    return text


def _decoded(data: bytes, path: Path) -> str:
    for mark, name in _MARKS.items():
        if data.startswith(mark):
            return data.decode(name)
    # UTF-16 without its mark: every other byte of English is zero.
    zeros = [data[at::2].count(0) / max(1, len(data) // 2) for at in (0, 1)]
    if max(zeros) > 0.4 and min(zeros) < 0.05:
        return data.decode("utf-16-be" if zeros[0] > zeros[1] else "utf-16-le")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        if declared := _DECLARED.search(data[:2000]):
            name = codecs.lookup(declared[1].decode("ascii")).name
            return data.decode("cp1252" if name == "iso8859-1" else name, "replace")  # as browsers do
        if b"\0" in data:
            raise
    found = _library("charset_normalizer", path).from_bytes(data, cp_isolation=_ENCODINGS).best()
    if found is None:
        raise UnicodeError
    return str(found)


def _library(name: str, path: Path) -> Any:
    """A library of the extra `files`; its absence is told with the file that needs it."""
    try:
        return import_module(name)
    except ImportError:
        raise InputError(f"{path} needs the package {name} to be read: pip install 'pan21av[files]'") from None


def _parsed(parse: Callable[[bytes, Path], str], data: bytes, path: Path, name: str) -> str:
    """Whatever a parser stumbles over is the file's fault."""
    try:
        return parse(data, path)
    except (InputError, MemoryError):
        raise
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{path} cannot be read as {name}: {reason}") from None


def _archive(data: bytes, path: Path) -> str:
    """A .docx or an .epub, by what is in it."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names, size = set(archive.namelist()), sum(entry.file_size for entry in archive.infolist())
    except zipfile.BadZipFile as error:
        raise InputError(f"{path} is a damaged .docx, .epub or zip archive: {error}") from None
    if size > MAX_UNPACKED:
        raise InputError(f"{path} unpacks to {size >> 20:,} MiB, more than the {MAX_UNPACKED >> 20} that a text may")
    if "META-INF/container.xml" in names:
        return _parsed(_epub, data, path, "an .epub")
    if any(name.startswith("word/") for name in names):
        return _parsed(_docx, data, path, "a .docx")
    raise InputError(f"{path} is a zip archive, but no .docx or .epub: unpack it, or save it as one of them")


def _epub(data: bytes, path: Path) -> str:
    """The pages in the reading order that the book's OPF file gives, without its table of contents."""
    pages = []
    with zipfile.ZipFile(io.BytesIO(data)) as book:
        rootfile = ElementTree.fromstring(book.read("META-INF/container.xml")).find(".//{*}rootfile")
        if rootfile is None:
            raise ValueError("it does not say where its contents are listed")
        listing = rootfile.get("full-path", "")
        package = ElementTree.fromstring(book.read(listing))
        items = {item.get("id"): item for item in package.iterfind("{*}manifest/{*}item")}
        for entry in package.iterfind("{*}spine/{*}itemref"):
            item = items.get(entry.get("idref"))
            if item is None or entry.get("linear") == "no" or "nav" in item.get("properties", "").split():
                continue
            if "html" in item.get("media-type", "html"):
                name = posixpath.normpath(posixpath.join(posixpath.dirname(listing), unquote(item.get("href", ""))))
                pages.append(page_text(decode(book.read(name), path)))
    return "\n\n".join(pages)


def _docx(data: bytes, path: Path) -> str:
    document = _library("docx", path).Document(io.BytesIO(data))
    return "".join(_word_text(document.element.body))


_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_WORD_BREAKS = {f"{_WORD}tab": "\t", f"{_WORD}br": "\n", f"{_WORD}cr": "\n"}
# Moved or deleted with changes tracked; the second of two ways to draw a text box.
_WORD_SILENT = {
    f"{_WORD}moveFrom",
    f"{_WORD}del",
    "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback",
}


def _word_text(element: Any) -> Iterator[str]:
    """What is written in an element: inserted and linked text too, which python-docx's own `text` leaves out."""
    if element.tag in _WORD_SILENT:
        return
    if element.tag == f"{_WORD}t":
        yield element.text or ""
    yield _WORD_BREAKS.get(element.tag, "")
    for child in element:
        yield from _word_text(child)
    if element.tag == f"{_WORD}p":
        yield "\n\n"


def _pdf(data: bytes, path: Path) -> str:
    pypdf = _library("pypdf", path)
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it tells of every oddity that it can live with
    reader = pypdf.PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise InputError(f"{path} asks for a password: save it without one")
    pages, characters = [], 0
    for page in reader.pages:
        pages.append(page.extract_text())
        characters += len(pages[-1])
        if characters > MAX_BYTES:
            raise InputError(f"{path} holds more than {MAX_BYTES >> 20} million characters: cut it")
    return _DIVIDED.sub(r"\1\2", "\n\n".join(pages))  # words divided at the end of a line


def _markdown(text: str, path: Path) -> str:
    """Without code, the targets of links and the fields at its head."""
    markdown = _library("markdown_it", path).MarkdownIt().enable("table")
    tokens = markdown.parse(_FRONT_MATTER.sub("", text.replace("\r\n", "\n")))
    prose = [token for token in tokens if token.type not in ("fence", "code_block")]
    return page_text(markdown.renderer.render(prose, markdown.options, {}))
