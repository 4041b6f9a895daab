"""Reading training texts: PAN's pairs + truth, or documents with their authors, as JSON lines."""

from __future__ import annotations

import gzip
import hashlib
import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import orjson

MAX_LINE = 64 << 20  # a line longer than this is no document


class CorpusError(ValueError):
    """What is wrong with the training data, with file and line."""


@dataclass(frozen=True)
class Document:
    author: str
    topic: str
    work: str  # "" if unknown; two documents of one work are never a same-author pair
    source: str
    text: str


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
                    raise CorpusError(f"{path}:{number}: a line of more than {MAX_LINE >> 20} MiB")
                yield number, line
    except (lzma.LZMAError, gzip.BadGzipFile, EOFError) as error:
        raise CorpusError(f"{path}: cannot be decompressed: {error}") from None
    except OSError as error:
        raise CorpusError(f"{path}: {error.strerror or error}") from None


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in open_lines(path):
        if not line.strip():
            continue
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise CorpusError(f"{path}:{number}: not JSON: {error}") from None
        if not isinstance(value, dict):
            raise CorpusError(f"{path}:{number}: expected a JSON object")
        yield number, value


def _string(value: dict[str, Any], name: str, where: str, default: str | None = None) -> str:
    entry = value.get(name, default)
    if not isinstance(entry, str):
        raise CorpusError(f"{where}: {name!r} must be a string")
    return entry


def read_documents(path: Path) -> Iterator[Document]:
    for number, value in read_objects(path):
        where = f"{path}:{number}"
        yield Document(
            _string(value, "author", where),
            _string(value, "topic", where, ""),
            _string(value, "work", where, ""),
            _string(value, "source", where, ""),
            _string(value, "text", where),
        )


def read_pan(pairs: Path, truth: Path) -> Iterator[Document]:
    """PAN trials taken apart into documents; a text that occurs in several pairs comes once."""
    authors: dict[str, list[str]] = {}
    for number, value in read_objects(truth):
        entry = value.get("authors")
        if not (isinstance(entry, list) and len(entry) == 2 and all(isinstance(a, str) for a in entry)):
            raise CorpusError(f"{truth}:{number}: 'authors' must be two strings")
        authors[_string(value, "id", f"{truth}:{number}")] = entry
    seen: set[bytes] = set()
    for number, value in read_objects(pairs):
        where = f"{pairs}:{number}"
        trial = _string(value, "id", where)
        if trial not in authors:
            raise CorpusError(f"{where}: id {trial!r} is not in {truth}")
        texts, topics = value.get("pair"), value.get("fandoms", value.get("discourse_type", ["", ""]))
        for name, entry in (("pair", texts), ("fandoms", topics)):
            if not (isinstance(entry, list) and len(entry) == 2 and all(isinstance(t, str) for t in entry)):
                raise CorpusError(f"{where}: {name!r} must be two strings")
        assert isinstance(texts, list)
        for author, topic, text in zip(authors[trial], topics, texts, strict=True):
            key = hashlib.blake2b(f"{author}\0{text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
            if key not in seen:
                seen.add(key)
                yield Document(author, topic, "", "", text)


def read_corpus(data: Path, truth: Path | None = None) -> Iterator[Document]:
    """PAN pairs if a truth file is given (or lies beside pairs.jsonl in a folder), else documents."""
    if data.is_dir():
        found = [p for p in sorted(data.iterdir()) if p.name.startswith("pairs.jsonl")]
        truths = [p for p in sorted(data.iterdir()) if "truth.jsonl" in p.name]
        documents = [p for p in sorted(data.iterdir()) if p.name.startswith("documents.jsonl")]
        if len(found) == 1 and len(truths) == 1:
            return read_pan(found[0], truths[0])
        if len(documents) == 1:
            return read_documents(documents[0])
        raise CorpusError(f"{data} holds neither one documents.jsonl nor one pairs.jsonl with its truth.jsonl")
    if not data.exists():
        raise CorpusError(f"{data} does not exist")
    return read_pan(data, truth) if truth else read_documents(data)
