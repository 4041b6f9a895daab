"""Reading training texts: PAN's pairs + truth, or documents with their authors, as JSON lines."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..jsonlines import read_objects


@dataclass(frozen=True)
class Document:
    author: str
    topic: str
    work: str  # "" if unknown; two documents of one work are never a same-author pair
    source: str
    text: str


def _string(value: dict[str, Any], name: str, where: str, default: str | None = None) -> str:
    entry = value.get(name, default)
    if not isinstance(entry, str):
        raise InputError(f"{where}: {name!r} must be a string")
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
            raise InputError(f"{truth}:{number}: 'authors' must be two strings")
        authors[_string(value, "id", f"{truth}:{number}")] = entry
    seen: set[bytes] = set()
    for number, value in read_objects(pairs):
        where = f"{pairs}:{number}"
        trial = _string(value, "id", where)
        if trial not in authors:
            raise InputError(f"{where}: id {trial!r} is not in {truth}")
        texts, topics = value.get("pair"), value.get("fandoms", value.get("discourse_type", ["", ""]))
        for name, entry in (("pair", texts), ("fandoms", topics)):
            if not (isinstance(entry, list) and len(entry) == 2 and all(isinstance(t, str) for t in entry)):
                raise InputError(f"{where}: {name!r} must be two strings")
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
        raise InputError(f"{data} holds neither one documents.jsonl nor one pairs.jsonl with its truth.jsonl")
    if not data.exists():
        raise InputError(f"{data} does not exist")
    return read_pan(data, truth) if truth else read_documents(data)
