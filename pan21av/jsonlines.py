"""JSON lines from plain, .gz and .xz files; errors name file and line."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from .errors import EnvironmentFault, InputError

MAX_LINE = 64 << 20  # a longer line is no document; it also bounds what a compressed bomb can do


def open_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(line number, line) of a plain, .gz or .xz file, read piece by piece."""
    opener: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
    try:
        stream: BinaryIO
        with opener.get(path.suffix, open)(path, "rb") as stream:
            number = 0
            while line := stream.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    raise InputError(f"{path}:{number}: a line of more than {MAX_LINE >> 20} MiB")
                yield number, line
    except (lzma.LZMAError, gzip.BadGzipFile, EOFError) as error:
        raise InputError(f"{path}: cannot be decompressed: {error}") from None
    except OSError as error:
        raise EnvironmentFault(f"{path}: {error.strerror or error}") from None


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in open_lines(path):
        line = line.removeprefix(b"\xef\xbb\xbf").strip()
        if not line:
            continue
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise InputError(f"{path}:{number}: not JSON: {error}") from None
        if not isinstance(value, dict):
            raise InputError(f"{path}:{number}: expected a JSON object")
        yield number, value
