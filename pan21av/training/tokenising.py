"""Texts to token types on disk, resumably: a run that was killed goes on where its journal ends."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..data.tokeniser import Tokens, encode_all, find_tokeniser
from ..errors import InputError
from ..runtime.parallel import ordered_map, worker_pool
from .corpus import Document
from .sampling import Catalogue

log = logging.getLogger("pan21av")

TOKENS, LAYOUT, JOURNAL = "tokens.i32", "layout.u8", "journal.jsonl"
TEXTS_PER_TASK = 16
TASKS_AHEAD_PER_WORKER = 4
TASKS_PER_ENTRY = 64  # 1,024 documents: what a kill can lose


class _Numbers(dict[str, int]):
    """Names in the order of their appearance."""

    def __missing__(self, key: str) -> int:
        self[key] = len(self)
        return self[key]

    def since(self, count: int) -> list[str]:
        """All but the first `count`."""
        return list(islice(reversed(self), len(self) - count))[::-1]


NAMES = ("types", "authors", "topics", "works", "sources")


@dataclass
class Tokenised:
    """What tokenising leaves beside the tokens: whose documents they are and where each of them begins."""

    types: _Numbers = field(default_factory=_Numbers)
    authors: _Numbers = field(default_factory=_Numbers)
    topics: _Numbers = field(default_factory=_Numbers)
    works: _Numbers = field(default_factory=_Numbers)
    sources: _Numbers = field(default_factory=_Numbers)
    labels: list[tuple[int, int, int, int]] = field(default_factory=list)  # author, topic, work, source
    offsets: list[int] = field(default_factory=lambda: [0])  # (documents + 1)
    layout_offsets: list[int] = field(default_factory=lambda: [0])  # the same of symbols of layout
    read: int = 0  # documents of the corpus, the short ones included

    def add(self, document: Document, tokens: Tokens) -> np.ndarray:
        """The token types (n) of a document, which is the next."""
        ids = np.array([self.types[token] for token in tokens.types], dtype=np.int32)[tokens.ids]
        self.offsets.append(self.offsets[-1] + len(ids))
        self.layout_offsets.append(self.layout_offsets[-1] + len(tokens.layout))
        work = self.works[f"{document.author}\0{document.work}"] if document.work else -1
        names = self.authors[document.author], self.topics[document.topic], work, self.sources[document.source]
        self.labels.append(names)
        return ids

    @property
    def catalogue(self) -> Catalogue:
        return Catalogue(*np.array(self.labels, dtype=np.int64).T)


class _Journal:
    """One line of JSON for every so many documents: what `Tokenised` got by them. The first names the corpus.

    Tokens are on disk before the line that counts them, so what comes after the last whole line is cut off.
    """

    def __init__(self, folder: Path, corpus: str) -> None:
        self.path, self.corpus = folder / JOURNAL, corpus
        self.found = Tokenised()
        self._written = dict.fromkeys([*NAMES, "labels"], 0)

    def open(self) -> None:
        """Read what an earlier run of the same corpus wrote; begin anew, in an empty folder, if there is none."""
        good = self._read() if self.path.exists() else 0
        if not good:
            shutil.rmtree(self.path.parent, ignore_errors=True)
            self.path.parent.mkdir(parents=True)
        self._stream = self.path.open("r+b" if good else "wb")
        self._stream.seek(good)
        self._stream.truncate()
        if not good:
            self._append({"corpus": self.corpus})

    def _read(self) -> int:
        """How many bytes of the file hold."""
        good = 0
        with self.path.open("rb") as stream:
            for line in stream:
                try:
                    entry = json.loads(line) if line.endswith(b"\n") else None
                except ValueError:
                    entry = None
                if entry is None or (not good and entry.get("corpus") != self.corpus):
                    break
                if good:
                    self._take(entry)
                good += len(line)
        return good

    def _take(self, entry: dict[str, Any]) -> None:
        found = self.found
        for name in NAMES:
            numbers: _Numbers = getattr(found, name)
            numbers.update(zip(entry[name], range(len(numbers), len(numbers) + len(entry[name])), strict=True))
        found.labels += [tuple(label) for label in entry["labels"]]
        for offsets, lengths in ((found.offsets, "lengths"), (found.layout_offsets, "symbols")):
            for length in entry[lengths]:
                offsets.append(offsets[-1] + length)
        found.read = entry["read"]
        self._count()

    def _count(self) -> None:
        self._written = {name: len(getattr(self.found, name)) for name in self._written}

    def write(self) -> None:
        """What came since the last entry."""
        found, first = self.found, self._written["labels"]
        entry: dict[str, Any] = {name: getattr(found, name).since(self._written[name]) for name in NAMES}
        entry |= {"labels": found.labels[first:], "lengths": np.diff(found.offsets[first:]).tolist()}
        self._append({"read": found.read, **entry, "symbols": np.diff(found.layout_offsets[first:]).tolist()})
        self._count()

    def _append(self, entry: dict[str, Any]) -> None:
        self._stream.write(json.dumps(entry).encode() + b"\n")  # not orjson: a text may hold lone surrogates
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        self._stream.close()


def tokenise(
    documents: Iterator[Document], folder: Path, *, corpus: str, tokeniser: str, layout: bool, min_tokens: int,
    workers: int,
) -> Tokenised:  # fmt: skip
    """Token types of every long enough document to tokens.i32, and symbols of its layout, if that is read, to
    layout.u8. `corpus` names all that this depends on."""
    journal = _Journal(folder, corpus)
    journal.open()
    found = journal.found
    if found.read:
        log.info("going on after %s documents that are tokenised already", f"{found.read:,}")
    encode = partial(encode_all, tokeniser=tokeniser, mend=find_tokeniser(tokeniser).mends, layout=layout)
    rest = islice(documents, found.read, None)
    jobs = ((chunk, [document.text for document in chunk]) for chunk in _chunks(rest))
    with (
        closing(journal), worker_pool(workers) as pool, (folder / TOKENS).open("ab") as out,
        (folder / LAYOUT).open("ab") as typed,
    ):  # fmt: skip
        out.truncate(4 * found.offsets[-1])
        typed.truncate(found.layout_offsets[-1])
        encoded = ordered_map(encode, jobs, pool, ahead=TASKS_AHEAD_PER_WORKER * workers)
        for number, (chunk, tokens) in enumerate(encoded, 1):
            for document, of_document in zip(chunk, tokens, strict=True):
                if len(of_document.ids) >= min_tokens:
                    out.write(found.add(document, of_document).data)
                    typed.write(of_document.layout.data)
            found.read += len(chunk)
            if number % TASKS_PER_ENTRY == 0:
                _keep([out, typed], journal)
        _keep([out, typed], journal)
    if not found.labels:
        raise InputError(f"no document has {min_tokens} tokens or more")
    return found


def _keep(files: Sequence[BinaryIO], journal: _Journal) -> None:
    for file in files:
        file.flush()
        os.fsync(file.fileno())
    journal.write()


def _chunks(documents: Iterator[Document]) -> Iterator[list[Document]]:
    while chunk := list(islice(documents, TEXTS_PER_TASK)):
        yield chunk
