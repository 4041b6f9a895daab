"""From texts to memory-mapped token ids, vocabulary, splits and fixed pairs: once for all members."""

from __future__ import annotations

import hashlib
import logging
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from tqdm import tqdm

from ..data.fitness import Limits, Shares
from ..data.tokeniser import DEFAULT, Tokens, encode_all
from ..data.vocabulary import Vocabulary
from ..errors import InputError
from ..files import replace_folder
from ..runtime.parallel import ordered_map, usable_cores, worker_pool
from .corpus import Document, read_corpus
from .limits import MAX_DOCUMENTS, learn_limits
from .ngram_pool import DOCUMENTS_PER_SOURCE, build_pool
from .prepared import MANIFEST, SPLITS, TRAIN, VALIDATE, Prepared
from .sampling import FOR_CALIBRATION, FOR_TRAINING, Catalogue, draw_pairs, fixed_pairs, split_documents
from .settings import Settings
from .streams import Stream, numpy_stream
from .word_vectors import read_vectors

log = logging.getLogger("pan21av")

FORMAT = 4
TEXTS_PER_TASK = 16
MIN_AUTHORS = 4  # with two documents or more, in each part of the split
MIN_PAIRS = 4  # of validation, and of development
TASKS_AHEAD_PER_WORKER = 4
HASHED_PER_READ = 1 << 20


def prepare(
    data: Sequence[Path],
    folder: Path,
    settings: Settings,
    *,
    truth: Path | None = None,
    vectors: Path | None = None,
    seed: int = 1,
    workers: int | None = None,
) -> Prepared:
    """Prepare a corpus in `folder`, or reuse what is there if it came from the same files and settings."""
    fingerprint = _fingerprint([*data, truth, vectors], settings, seed)
    manifest = folder / MANIFEST
    if manifest.exists() and orjson.loads(manifest.read_bytes()).get("fingerprint") == fingerprint:
        log.info("reusing the prepared corpus in %s", folder)
        return Prepared.load(folder, settings.model)
    building = folder.with_name(folder.name + ".part")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    documents = tqdm(read_corpus(data, truth), "tokenising", unit=" documents", disable=not sys.stderr.isatty())
    found = _tokenise(iter(documents), building, settings.data.min_tokens, workers or usable_cores())
    catalogue = found.catalogue
    split = split_documents(
        catalogue, settings.data.split == "topics", settings.data.train_share, numpy_stream(seed, Stream.SPLIT)
    )
    rng = numpy_stream(seed, Stream.FIXED_PAIRS)
    fixed = {
        "validation": fixed_pairs(catalogue, np.flatnonzero(split == VALIDATE), rng, settings.data.max_pairs),
        "development": fixed_pairs(catalogue, np.flatnonzero(split > TRAIN), rng, settings.data.max_pairs),
    }
    _check_enough(catalogue, split, fixed, settings)
    training = np.flatnonzero(split == TRAIN)
    vocabulary = _write_types(found, building, training, settings, seed)
    if vectors is not None:
        table, known = read_vectors(vectors, vocabulary, settings.model.word_dim)
        np.save(building / "vectors.npy", table)
        log.info("word vectors for %s of %s words", f"{known:,}", f"{len(vocabulary.words):,}")
    arrays = {"offsets": found.offsets, "split": split, **fixed, **vars(catalogue)}
    np.savez(building / "documents.npz", **arrays)
    summary = {
        "fingerprint": fingerprint,
        "sources": found.sources,
        "tokens": int(found.offsets[-1]),
        "types": len(found.types),
        "limits": _limits(found, building, vocabulary, training, seed).to_dict(),
        "table": _table(catalogue, split, fixed, seed),
    }
    (building / MANIFEST).write_bytes(orjson.dumps(summary, option=orjson.OPT_INDENT_2))
    replace_folder(building, folder)
    return Prepared.load(folder, settings.model)


def _fingerprint(files: Sequence[Path | None], settings: Settings, seed: int) -> str:
    """Of all that preparation depends on."""
    digest = hashlib.sha256(f"{FORMAT} {DEFAULT} {seed}".encode())
    for path in files:
        for file in sorted(path.iterdir()) if path and path.is_dir() else [path]:
            if file is None:
                digest.update(b"none")
            elif not file.exists():
                raise InputError(f"{file} does not exist")
            elif file.is_file():
                digest.update(_sha256(file))
    model = settings.model
    depends: dict[str, Any] = {"data": asdict(settings.data), "model": [model.chars_per_token, model.word_dim]}
    del depends["data"]["development_pairs"], depends["data"]["source_share"]
    if model.ngram_dim:
        names = [name for name in asdict(settings.ngrams) if name.startswith("pool") or name == "anchors"]
        depends["ngrams"] = {name: getattr(settings.ngrams, name) for name in names}
    digest.update(orjson.dumps(depends))
    return digest.hexdigest()


def _sha256(file: Path) -> bytes:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while piece := stream.read(HASHED_PER_READ):
            digest.update(piece)
    return digest.digest()


class _Numbers(dict[str, int]):
    def __missing__(self, key: str) -> int:
        self[key] = len(self)
        return self[key]


@dataclass(frozen=True)
class _Found:
    """What tokenising leaves beside tokens.i32."""

    sources: list[str]
    catalogue: Catalogue
    offsets: np.ndarray  # (documents + 1)
    types: list[str]  # in order of appearance


def _tokenise(documents: Iterator[Document], folder: Path, min_tokens: int, workers: int) -> _Found:
    """Token types of every long enough document to tokens.i32."""
    types, authors, topics, works, sources = (_Numbers() for _ in range(5))
    labels: list[tuple[int, int, int, int]] = []
    offsets = [0]
    jobs = ((chunk, [document.text for document in chunk]) for chunk in _chunks(documents))
    with worker_pool(workers) as pool, (folder / "tokens.i32").open("wb") as out:
        for chunk, encoded in ordered_map(
            partial(encode_all, mend=True), jobs, pool, ahead=TASKS_AHEAD_PER_WORKER * workers
        ):
            for document, tokens in zip(chunk, encoded, strict=True):
                if len(tokens.ids) < min_tokens:
                    continue
                ids = np.array([types[token] for token in tokens.types], dtype=np.int32)[tokens.ids]
                ids.tofile(out)
                offsets.append(offsets[-1] + len(ids))
                work = works[f"{document.author}\0{document.work}"] if document.work else -1
                labels.append((authors[document.author], topics[document.topic], work, sources[document.source]))
    if not labels:
        raise InputError(f"no document has {min_tokens} tokens or more")
    columns = np.array(labels, dtype=np.int64).T
    return _Found(list(sources), Catalogue(*columns), np.array(offsets), list(types))


def _chunks(documents: Iterator[Document]) -> Iterator[list[Document]]:
    chunk: list[Document] = []
    for document in documents:
        chunk.append(document)
        if len(chunk) == TEXTS_PER_TASK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _write_types(found: _Found, folder: Path, training: np.ndarray, settings: Settings, seed: int) -> Vocabulary:
    """The vocabulary of the training documents, and what every token type is in it."""
    tokens = np.memmap(folder / "tokens.i32", dtype=np.int32, mode="r")

    def of(document: int) -> np.ndarray:
        return np.asarray(tokens[found.offsets[document] : found.offsets[document + 1]])

    counts = np.zeros(len(found.types), dtype=np.int64)
    for document in training:
        np.add.at(counts, of(document), 1)
    pairs = ((token, int(count)) for token, count in zip(found.types, counts, strict=True) if count)
    vocabulary = Vocabulary.build(
        pairs, words=settings.data.words, chars=settings.data.chars, lowercase=settings.data.lowercase
    )
    if settings.model.ngram_dim:
        rng, source = numpy_stream(seed, Stream.NGRAM_POOL), found.catalogue.source[training]
        mine = [training[source == number] for number in np.unique(source)]
        sample = [rng.permutation(documents)[:DOCUMENTS_PER_SOURCE] for documents in mine]
        pool = build_pool(found.types, [[of(d) for d in documents] for documents in sample], settings.ngrams)
        vocabulary = replace(vocabulary, ngrams=pool)
    (folder / "vocab.json").write_bytes(vocabulary.to_json())
    words, chars = vocabulary.ids(found.types, settings.model.chars_per_token)
    np.save(folder / "type_words.npy", words.astype(np.int32))
    np.save(folder / "type_chars.npy", chars.astype(np.uint16))
    (folder / "types.txt").write_bytes("\n".join(found.types).encode("utf-8", "surrogatepass"))
    return vocabulary


def _check_enough(catalogue: Catalogue, split: np.ndarray, fixed: dict[str, np.ndarray], settings: Settings) -> None:
    """InputError if some step of training would have nothing to learn from, or to choose by."""
    several = {}
    for name, number in SPLITS.items():
        _, counts = np.unique(catalogue.author[split == number], return_counts=True)
        several[name] = int((counts > 1).sum())
    short = {name: count for name, count in several.items() if count < MIN_AUTHORS}
    short |= {f"{name} pairs": len(pairs) for name, pairs in fixed.items() if len(pairs) < MIN_PAIRS}
    if short:
        _, documents = np.unique(catalogue.author, return_counts=True)
        found = ", ".join(f"{count} for {name}" for name, count in short.items())
        hint = "" if settings.data.split == "authors" else "; where topics are few, --split authors loses less"
        raise InputError(
            f"too few authors with two or more documents of {settings.data.min_tokens} tokens: "
            f"{int((documents > 1).sum())} of {len(documents)} in all, which leaves {found}; each part needs "
            f"{MIN_AUTHORS} such authors and {MIN_PAIRS} pairs{hint}"
        )


def _limits(found: _Found, folder: Path, vocabulary: Vocabulary, documents: np.ndarray, seed: int) -> Limits:
    """What a sample of the training documents keeps to."""
    tokens = np.memmap(folder / "tokens.i32", dtype=np.int32, mode="r")
    sample = numpy_stream(seed, Stream.LIMITS).permutation(documents)[:MAX_DOCUMENTS]

    def read(document: int) -> Tokens:
        numbers, ids = np.unique(tokens[found.offsets[document] : found.offsets[document + 1]], return_inverse=True)
        return Tokens([found.types[number] for number in numbers], ids)

    return learn_limits(Shares.of(read(int(document)), vocabulary) for document in sample)


def _table(catalogue: Catalogue, split: np.ndarray, fixed: dict[str, np.ndarray], seed: int) -> dict[str, Any]:
    """Documents, authors, topics and pairs per kind of each split (one epoch's draw where drawn anew)."""
    rows: dict[str, Any] = {}
    drawings = {"training": FOR_TRAINING, "calibration": FOR_CALIBRATION}
    for name, number in SPLITS.items():
        documents = np.flatnonzero(split == number)
        pairs = (
            fixed[name]
            if name in fixed
            else draw_pairs(catalogue, documents, drawings[name], numpy_stream(seed, Stream.TABLE, number))
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
        **catalogue.count_kinds(pairs),
    }


def format_table(table: dict[str, dict[str, int]]) -> str:
    columns = list(next(iter(table.values())))
    lines = [" ".join(["split".ljust(12), *(c.rjust(10) for c in columns)])]
    for name, row in table.items():
        lines.append(" ".join([name.ljust(12), *(f"{row[c]:,}".rjust(10) for c in columns)]))
    return "\n".join(lines)
