"""Reading training texts: PAN's pairs + truth, or documents with their authors, as JSON lines."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..data.jsonlines import read_objects
from ..data.pan import find_file, find_pairs, is_called, read_truth, topics_of, truth_of
from ..errors import InputError


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


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


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
    authors = {trial: entry.authors for trial, entry in read_truth(truth)}
    seen: set[bytes] = set()
    for number, value in read_objects(pairs):
        where = f"{pairs}:{number}"
        trial = _string(value, "id", where)
        if trial not in authors:
            raise InputError(f"{where}: id {trial!r} is not in {truth}")
        names = authors[trial]
        if names is None:
            raise InputError(f"{truth}: 'authors' of {trial!r} must be two strings")
        named = "fandoms" in value or "discourse_type" in value
        texts, topics = value.get("pair"), topics_of(value) if named else ("", "")
        if topics is None:
            raise InputError(f"{where}: 'fandoms' must be two strings")
        if not (isinstance(texts, list) and len(texts) == 2 and all(isinstance(text, str) for text in texts)):
            raise InputError(f"{where}: 'pair' must be two strings")
        for author, topic, text in zip(names, topics, texts, strict=True):
            key = _digest(f"{author}\0{text}")
            if key not in seen:
                seen.add(key)
                yield Document(author, topic, "", "", text)


def read_corpus(data: Sequence[Path], truth: Path | None = None, *, unique_texts: bool = False) -> Iterator[Document]:
    """Of all files: PAN pairs if a truth is given (or lies in the same folder, or is called like them), else documents.

    `unique_texts`: of documents with equal texts the first stands for all, whoever is named as their author.
    """
    seen: set[bytes] = set()
    for path in data:
        for document in _read_one(path, truth):
            if unique_texts:
                key = _digest(document.text)
                if key in seen:
                    continue
                seen.add(key)
            yield document


def _read_one(path: Path, truth: Path | None) -> Iterator[Document]:
    if path.is_dir():
        if any(is_called(p, "truth.jsonl") for p in path.iterdir()):
            return read_pan(find_pairs(path), find_file(path, "truth.jsonl"))
        if any(is_called(p, "documents.jsonl") for p in path.iterdir()):
            return read_documents(find_file(path, "documents.jsonl"))
        raise InputError(f"{path} holds neither one documents.jsonl nor one pairs.jsonl with its truth.jsonl")
    if not path.exists():
        raise InputError(f"{path} does not exist")
    if truth is None and (beside := truth_of(path)).exists():
        return read_pan(path, beside)
    return read_pan(path, find_file(truth, "truth.jsonl")) if truth else read_documents(path)
