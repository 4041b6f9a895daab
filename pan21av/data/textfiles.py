"""One text from one file."""

from __future__ import annotations

from pathlib import Path

from ..errors import InputError

# What people have instead of plain text, by its first bytes.
_OTHER_FORMATS = {
    b"PK\x03\x04": "a document of a word processor, an e-book or a zip archive",
    b"%PDF": "a PDF",
    b"\xd0\xcf\x11\xe0": "an old Word document",
    b"{\\rtf": "rich text",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


def read_text(path: Path) -> str:
    """InputError says what the file is instead, and what to do."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    for start, name in _OTHER_FORMATS.items():
        if data.startswith(start):
            raise InputError(f"{path} is {name}: save it as plain text in UTF-8 first")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 ({error.reason} at byte {error.start}); if it is Latin-1, "
            f"`iconv -f LATIN1 -t UTF-8` turns it into that"
        ) from None
    if not text.strip():
        raise InputError(f"{path} holds no text")
    return text
