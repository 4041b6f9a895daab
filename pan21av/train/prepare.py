"""From texts to memory-mapped token ids, vocabulary, splits and fixed pairs: once for all members."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from ..documents import Batch, make_batch
from ..errors import InputError
from ..jsonlines import numbered_lines, opened
from ..parallel import ordered_map, usable_cores, worker_pool
from ..style import frequencies
from ..text import RECIPE, tokenise_all
from ..vocabulary import FIRST, UNKNOWN, Vocabulary
from .corpus import Document, read_corpus
from .pairs import CALIBRATION, TRAINING, Catalogue, draw_pairs, fixed_pairs, split_documents
from .settings import TrainSettings

TRAIN, CALIBRATE, VALIDATE = 0, 1, 2
SPLITS = {"training": TRAIN, "calibration": CALIBRATE, "validation": VALIDATE}
FORMAT = 1
TEXTS_A_TASK = 16


@dataclass(frozen=True)
class Prepared:
    """A prepared corpus; the large arrays are mapped from disk."""

    folder: Path
    tokens: np.ndarray  # flat token types, int32
    offsets: np.ndarray  # (documents + 1)
    type_words: np.ndarray  # (types) word ids
    type_chars: np.ndarray  # (types, letters) character ids
    catalogue: Catalogue
    split: np.ndarray  # (documents)
    vocabulary: Vocabulary
    vectors: np.ndarray | None  # (words, dim) to start from; NaN rows start at random
    usage: np.ndarray | None  # (documents, features): see style.py
    development: np.ndarray  # (pairs, 2)
    validation: np.ndarray
    sources: list[str]
    fingerprint: str
    table: dict[str, Any]

    @classmethod
    def load(cls, folder: Path) -> Prepared:
        manifest = orjson.loads((folder / "manifest.json").read_bytes())
        arrays = np.load(folder / "documents.npz")
        vectors, usage = folder / "vectors.npy", folder / "usage.npy"
        return cls(
            folder,
            np.memmap(folder / "tokens.i32", dtype=np.int32, mode="r"),
            arrays["offsets"],
            np.load(folder / "type_words.npy", mmap_mode="r"),
            np.load(folder / "type_chars.npy", mmap_mode="r"),
            Catalogue(*(arrays[name] for name in ("author", "topic", "work", "source"))),
            arrays["split"],
            Vocabulary.from_json((folder / "vocab.json").read_bytes()),
            np.load(vectors) if vectors.exists() else None,
            np.load(usage, mmap_mode="r") if usage.exists() else None,
            arrays["development"],
            arrays["validation"],
            manifest["sources"],
            manifest["fingerprint"],
            manifest["table"],
        )

    def documents(self, split: int) -> np.ndarray:
        return np.flatnonzero(self.split == split)

    def length(self, document: int) -> int:
        return int(self.offsets[document + 1] - self.offsets[document])

    def batch(self, spans: list[tuple[int, int, int]], settings: TrainSettings) -> Batch:
        """Documents given as (document, first token, tokens); types renumbered for this batch."""
        parts = []
        for document, first, count in spans:
            start = int(self.offsets[document]) + first
            parts.append(self.tokens[start : min(start + count, int(self.offsets[document + 1]))])
        flat = np.concatenate(parts)
        types, ids = np.unique(flat, return_inverse=True)
        documents = np.split(ids.astype(np.int32), np.cumsum([len(p) for p in parts])[:-1])
        return make_batch(
            self.type_words[types].astype(np.int64), self.type_chars[types].astype(np.int32), documents, settings.model
        )


def prepare(
    data: Path,
    folder: Path,
    settings: TrainSettings,
    *,
    truth: Path | None = None,
    vectors: Path | None = None,
    seed: int = 1,
    workers: int | None = None,
    log: Callable[[str], None] = lambda line: None,
    progress: Callable[[Iterator[Document]], Iterator[Document]] = lambda items: items,
) -> Prepared:
    """Prepare a corpus in `folder`, or reuse what is there if it came from the same files and settings."""
    fingerprint = _fingerprint(data, truth, vectors, settings, seed)
    manifest = folder / "manifest.json"
    if manifest.exists() and orjson.loads(manifest.read_bytes()).get("fingerprint") == fingerprint:
        log(f"reusing the prepared corpus in {folder}")
        return Prepared.load(folder)
    building = folder.with_name(folder.name + ".part")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    names, catalogue, offsets, types, counts = _tokenise_all(
        progress(read_corpus(data, truth)), building, settings.min_tokens, workers or usable_cores()
    )
    rng = np.random.default_rng([seed, 1])
    split = split_documents(catalogue, settings.split == "topics", settings.train_share, rng)
    vocabulary = _vocabulary(types, counts, settings)
    words, chars = vocabulary.ids(types, settings.model.letters)
    np.save(building / "type_words.npy", words.astype(np.int32))
    np.save(building / "type_chars.npy", chars.astype(np.uint16))
    if settings.model.style_dim:
        _write_usage(building, words, chars, offsets, settings)
    held_out = np.flatnonzero(split > TRAIN)
    validation = fixed_pairs(catalogue, np.flatnonzero(split == VALIDATE), rng, settings.max_pairs)
    development = fixed_pairs(catalogue, held_out, rng, settings.max_pairs)
    if not len(validation) or not len(development):
        raise InputError(
            f"{data}: no validation pairs can be drawn; it takes more authors with two or more documents"
            + ("" if settings.split == "authors" else ", or --split authors if topics are few")
        )
    np.savez(
        building / "documents.npz", offsets=offsets, split=split, development=development, validation=validation,
        author=catalogue.author, topic=catalogue.topic, work=catalogue.work, source=catalogue.source,
    )  # fmt: skip
    (building / "vocab.json").write_bytes(vocabulary.to_json())
    if vectors is not None:
        table, found = _read_vectors(vectors, vocabulary, settings.model.word_dim)
        np.save(building / "vectors.npy", table)
        log(f"word vectors for {found:,} of {len(vocabulary.words):,} words")
    summary = {
        "fingerprint": fingerprint,
        "sources": names,
        "tokens": int(offsets[-1]),
        "types": len(types),
        "table": _table(catalogue, split, {"development": development, "validation": validation}, seed),
    }
    (building / "manifest.json").write_bytes(orjson.dumps(summary, option=orjson.OPT_INDENT_2))
    shutil.rmtree(folder, ignore_errors=True)
    building.rename(folder)
    return Prepared.load(folder)


def _fingerprint(data: Path, truth: Path | None, vectors: Path | None, settings: TrainSettings, seed: int) -> str:
    digest = hashlib.sha256(f"{FORMAT} {RECIPE} {seed}".encode())
    for path in (data, truth, vectors):
        for file in sorted(path.iterdir()) if path and path.is_dir() else [path]:
            if file is None:
                digest.update(b"none")
            elif not file.exists():
                raise InputError(f"{file} does not exist")
            elif file.is_file():
                with file.open("rb") as stream:
                    digest.update(hashlib.file_digest(stream, "sha256").digest() if hasattr(hashlib, "file_digest")
                                  else hashlib.sha256(stream.read()).digest())  # fmt: skip
    names = ["words", "chars", "lowercase", "min_tokens", "split", "train_share", "max_pairs", "letters", "word_dim"]
    values = settings.to_dict()
    if values["style_dim"]:
        names += ["style_words", "style_chars", "max_windows"]
    digest.update(orjson.dumps({name: values[name] for name in names}))
    return digest.hexdigest()


class _Numbers(dict[str, int]):
    def __missing__(self, key: str) -> int:
        self[key] = len(self)
        return self[key]


def _tokenise_all(
    documents: Iterator[Document], folder: Path, min_tokens: int, workers: int
) -> tuple[list[str], Catalogue, np.ndarray, list[str], np.ndarray]:
    """Token types of every long enough document to tokens.i32.

    Returns the sources' names, the catalogue, offsets, types in order of appearance, their counts.
    """
    types, authors, topics, works, sources = (_Numbers() for _ in range(5))
    labels: list[tuple[int, int, int, int]] = []
    offsets, counts = [0], np.zeros(1 << 16, dtype=np.int64)
    waiting: list[list[Document]] = []  # read, but not yet back from the workers

    def tasks() -> Iterator[list[str]]:
        chunk: list[Document] = []
        for document in documents:
            chunk.append(document)
            if len(chunk) == TEXTS_A_TASK:
                waiting.append(chunk)
                yield [d.text for d in chunk]
                chunk = []
        if chunk:
            waiting.append(chunk)
            yield [d.text for d in chunk]

    with worker_pool(workers) as pool, (folder / "tokens.i32").open("wb") as out:
        for tokenised in ordered_map(tokenise_all, tasks(), pool, ahead=4 * workers):
            for document, tokens in zip(waiting.pop(0), tokenised, strict=True):
                if len(tokens.ids) < min_tokens:
                    continue
                ids = np.array([types[token] for token in tokens.types], dtype=np.int32)[tokens.ids]
                if len(types) > len(counts):
                    counts = np.concatenate([counts, np.zeros(len(types), dtype=np.int64)])
                np.add.at(counts, ids, 1)
                ids.tofile(out)
                offsets.append(offsets[-1] + len(ids))
                work = works[f"{document.author}\0{document.work}"] if document.work else -1
                labels.append((authors[document.author], topics[document.topic], work, sources[document.source]))
    if not labels:
        raise InputError(f"no document has {min_tokens} tokens or more")
    columns = np.array(labels, dtype=np.int64).T
    return list(sources), Catalogue(*columns), np.array(offsets), list(types), counts[: len(types)]


def _write_usage(
    folder: Path, words: np.ndarray, chars: np.ndarray, offsets: np.ndarray, settings: TrainSettings
) -> None:
    tokens = np.memmap(folder / "tokens.i32", dtype=np.int32, mode="r")
    shape = (len(offsets) - 1, settings.model.style_features)
    usage = np.lib.format.open_memmap(folder / "usage.npy", mode="w+", dtype=np.float32, shape=shape)
    for document in range(shape[0]):
        positions = tokens[offsets[document] : offsets[document + 1]][: settings.model.max_tokens]
        types, ids = np.unique(positions, return_inverse=True)
        usage[document] = frequencies(words[types], chars[types], [ids], settings.model)[0]
    usage.flush()


def _vocabulary(types: list[str], counts: np.ndarray, settings: TrainSettings) -> Vocabulary:
    pairs = ((token, int(count)) for token, count in zip(types, counts, strict=True))
    return Vocabulary.build(pairs, words=settings.words, chars=settings.chars, lowercase=settings.lowercase)


def _read_vectors(path: Path, vocabulary: Vocabulary, dim: int) -> tuple[np.ndarray, int]:
    """GloVe, word2vec or fastText text vectors, (rows, dim), scaled to unit variance; NaN where unknown."""
    table = np.full((vocabulary.word_rows, dim), np.nan, dtype=np.float32)
    with opened(path) as stream:
        for number, line in numbered_lines(stream):
            fields = (line or b"").decode("utf-8", "replace").split(" ")
            if number == 1 and len(fields) == 2:  # "count dim", the header of word2vec and fastText
                continue
            row = vocabulary.word_id(fields[0])
            if row == UNKNOWN or not np.isnan(table[row, 0]):
                continue
            try:
                values = np.array(fields[1:], dtype=np.float32)
            except ValueError:
                raise InputError(f"{path}:{number}: not a word and numbers") from None
            if len(values) != dim:
                raise InputError(f"{path}:{number}: {len(values)} numbers, but word_dim is {dim}")
            table[row] = values
    known = ~np.isnan(table[:, 0])
    if not known.any():
        raise InputError(f"{path}: holds none of the corpus's words")
    table[known] *= 0.3 / table[known].std()
    return table, int(known[FIRST:].sum())


def _table(catalogue: Catalogue, split: np.ndarray, fixed: dict[str, np.ndarray], seed: int) -> dict[str, Any]:
    """Documents, authors, topics and pairs per kind of each split (one epoch's draw where drawn anew)."""
    rows: dict[str, Any] = {}
    drawings = {"training": TRAINING, "calibration": CALIBRATION}
    for name, number in SPLITS.items():
        documents = np.flatnonzero(split == number)
        pairs = (
            fixed[name]
            if name in fixed
            else draw_pairs(catalogue, documents, drawings[name], np.random.default_rng([seed, 2, number]))
        )
        rows[name] = _row(catalogue, documents, pairs)
    rows["development"] = _row(catalogue, np.flatnonzero(split > TRAIN), fixed["development"])
    rows["left out"] = _row(catalogue, np.flatnonzero(split < 0), np.zeros((0, 2), dtype=np.int64))
    return rows


def _row(catalogue: Catalogue, documents: np.ndarray, pairs: np.ndarray) -> dict[str, int]:
    return {
        "documents": len(documents),
        "authors": len(np.unique(catalogue.author[documents])),
        "topics": len(np.unique(catalogue.topic[documents])),
        **catalogue.kinds(pairs),
    }


def format_table(table: dict[str, dict[str, int]]) -> str:
    columns = list(next(iter(table.values())))
    lines = [" ".join(["split".ljust(12), *(c.rjust(10) for c in columns)])]
    for name, row in table.items():
        lines.append(" ".join([name.ljust(12), *(f"{row[c]:,}".rjust(10) for c in columns)]))
    return "\n".join(lines)
