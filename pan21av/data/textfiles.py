"""One text from one file."""

from __future__ import annotations

from pathlib import Path

from ..errors import InputError


def read_text(path: Path) -> str:
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: {error.reason} at byte {error.start}") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if not text.strip():
        raise InputError(f"{path} holds no text")
    return text
