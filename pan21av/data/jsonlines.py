"""JSON lines from plain, .gz and .xz files; errors name file and line."""

from __future__ import annotations

import gzip
import json
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from ..errors import EnvironmentFault, InputError

MAX_LINE_BYTES = 256 << 20  # no pair of texts is longer; it also bounds what a compressed bomb can do
BOM = b"\xef\xbb\xbf"
_MAGIC: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ\x00": lzma.open}
_OTHER_ENCODINGS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"PK\x03\x04": "a zip archive", b"BZh": "bzip2"}


class BadLine(ValueError):
    """What is wrong with one line, without its place."""


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file as bytes, decompressed if it begins like gzip or xz; other encodings are refused."""
    try:
        with path.open("rb") as raw:
            head = raw.read(8)
            raw.seek(0)
            for magic, name in _OTHER_ENCODINGS.items():
                if head.startswith(magic):
                    raise InputError(f"{path} is {name}; expected lines in UTF-8, plain, .gz or .xz")
            for magic, opener in _MAGIC.items():
                if head.startswith(magic):
                    with opener(raw, "rb") as stream:
                        yield stream
                    return
            yield raw
    except (lzma.LZMAError, zlib.error, gzip.BadGzipFile, EOFError) as error:
        raise InputError(f"{path}: cannot be decompressed: {error}") from None
    except OSError as error:
        raise EnvironmentFault(f"{path}: {error.strerror or error}") from None


def numbered_lines(stream: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """(line number, stripped line) of the lines that are not blank; None for a line beyond MAX_LINE_BYTES."""
    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            while line and not line.endswith(b"\n"):
                line = stream.readline(1 << 20)
            yield number, None
            continue
        line = (line.removeprefix(BOM) if number == 1 else line).strip()
        if line:
            yield number, line


def parse_object(line: bytes | None) -> dict[str, Any]:
    """The JSON object of a line; BadLine says what it is instead."""
    if line is None:
        raise BadLine(f"longer than {MAX_LINE_BYTES >> 20} MiB")
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        value = _parse_surrogates(line)
    if not isinstance(value, dict):
        raise BadLine("not a JSON object")
    return value


def _parse_surrogates(line: bytes) -> Any:
    """orjson refuses lone surrogates ("\\ud800"), which the standard library reads. It also reads
    NaN, which is no JSON, but no field of ours holds a number."""
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise BadLine("not UTF-8") from None
    except (ValueError, RecursionError):
        raise BadLine("not JSON") from None


def read_objects(path: Path, expected: str = "") -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) of every line of a file; InputError names the line that is none, and what is expected."""
    with opened(path) as stream:
        for number, line in numbered_lines(stream):
            try:
                yield number, parse_object(line)
            except BadLine as error:
                raise InputError(f"{path}:{number}: {error}{expected and f'; {expected}'}") from None
