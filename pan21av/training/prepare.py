"""From texts to memory-mapped token ids, vocabulary, splits and fixed pairs: once for all members."""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from tqdm import tqdm

from ..data.fitness import Limits, Shares
from ..data.tokeniser import Tokens, find_tokeniser
from ..data.vocabulary import Vocabulary
from ..errors import InputError
from ..files import replace_folder
from ..runtime.parallel import usable_cores
from .corpus import read_corpus
from .drawings import draw, draw_fixed
from .limits import MAX_DOCUMENTS, learn_limits
from .ngram_pool import DOCUMENTS_PER_SOURCE, build_pool, common_layout
from .prepared import MANIFEST, SPLITS, TRAIN, VALIDATE, Prepared
from .sampling import Catalogue, split_documents
from .settings import Settings
from .streams import Stream, numpy_stream
from .tokenising import JOURNAL, LAYOUT, TOKENS, tokenise
from .word_vectors import read_vectors

log = logging.getLogger("pan21av")

FORMAT = 7
MIN_AUTHORS = 4  # with two documents or more, in each part of the split
MIN_PAIRS = 4  # of validation, and of development
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
    """Prepare a corpus in `folder`, or reuse what is there if it came from the same files and settings.

    What a killed run had tokenised in the folder beside it, ".part", is not tokenised again.
    """
    options = settings.data
    find_tokeniser(options.tokeniser)  # the fault of a missing package comes before hours of work
    fingerprint = _fingerprint([*data, truth, vectors], settings, seed)
    manifest = folder / MANIFEST
    if manifest.exists() and orjson.loads(manifest.read_bytes()).get("fingerprint") == fingerprint:
        log.info("reusing the prepared corpus in %s", folder)
        (folder / JOURNAL).unlink(missing_ok=True)  # of a run that was killed at its very end
        return Prepared.load(folder, settings.model)
    building = folder.with_name(folder.name + ".part")
    corpus = read_corpus(data, truth, unique_texts=options.unique_texts)
    found = tokenise(
        iter(tqdm(corpus, "tokenising", unit=" documents", disable=not sys.stderr.isatty())),
        building,
        corpus=fingerprint,
        tokeniser=options.tokeniser,
        layout=settings.model.layout_dim > 0,
        min_tokens=options.min_tokens,
        workers=workers or usable_cores(),
    )
    catalogue, offsets, layout_offsets = found.catalogue, np.array(found.offsets), np.array(found.layout_offsets)
    types, sources = list(found.types), list(found.sources)
    del found  # the numbers of millions of types are needed no more
    split = split_documents(catalogue, options.split == "topics", options.train_share, numpy_stream(seed, Stream.SPLIT))
    training, calibration, validation = (np.flatnonzero(split == number) for number in SPLITS.values())
    rng = numpy_stream(seed, Stream.FIXED_PAIRS)
    fixed = draw_fixed(
        options.drawing, catalogue, calibration, validation, rng, options.max_pairs, options.validation_draws
    )
    _check_enough(catalogue, split, fixed, settings)
    vocabulary = _write_types(types, catalogue, offsets, layout_offsets, building, training, settings, seed)
    if vectors is not None:
        table, known = read_vectors(vectors, vocabulary, settings.model.word_dim, options.vector_spread)
        np.save(building / "vectors.npy", table)
        log.info("word vectors for %s of %s words", f"{known:,}", f"{len(vocabulary.words):,}")
    arrays: dict[str, Any] = {"offsets": offsets, "layout_offsets": layout_offsets, "split": split}
    arrays |= {**fixed, **vars(catalogue)}
    np.savez(building / "documents.npz", **arrays)
    summary = {
        "fingerprint": fingerprint,
        "drawing": options.drawing,
        "sources": sources,
        "tokens": int(offsets[-1]),
        "types": len(types),
        "limits": _limits(types, offsets, building, vocabulary, training, seed).to_dict(),
        "table": _table(options.drawing, catalogue, split, fixed, seed),
    }
    (building / MANIFEST).write_bytes(orjson.dumps(summary, option=orjson.OPT_INDENT_2))
    replace_folder(building, folder)
    (folder / JOURNAL).unlink()  # only now: until then it is what a killed run goes on from
    return Prepared.load(folder, settings.model)


def _fingerprint(files: Sequence[Path | None], settings: Settings, seed: int) -> str:
    """Of all that preparation depends on."""
    digest = hashlib.sha256(f"{FORMAT} {seed}".encode())
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
        depends["layout"] = model.layout_dim > 0
    digest.update(orjson.dumps(depends))
    return digest.hexdigest()


def _sha256(file: Path) -> bytes:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while piece := stream.read(HASHED_PER_READ):
            digest.update(piece)
    return digest.digest()


def _write_types(
    types: list[str], catalogue: Catalogue, offsets: np.ndarray, layout_offsets: np.ndarray, folder: Path,
    training: np.ndarray, settings: Settings, seed: int,
) -> Vocabulary:  # fmt: skip
    """The vocabulary of the training documents, and what every token type is in it."""
    counts = _count_types(folder, offsets, training, len(types))
    pairs = ((token, count) for token, count in zip(types, counts.tolist(), strict=True) if count)
    vocabulary = Vocabulary.build(
        pairs, words=settings.data.words, chars=settings.data.chars, lowercase=settings.data.lowercase
    )
    if settings.model.ngram_dim:
        rng, source = numpy_stream(seed, Stream.NGRAM_POOL), catalogue.source[training]
        mine = [training[source == number] for number in np.unique(source)]
        sample = [rng.permutation(documents)[:DOCUMENTS_PER_SOURCE] for documents in mine]
        read = partial(_tokens_of, np.memmap(folder / TOKENS, dtype=np.int32, mode="r"), offsets)
        pool = build_pool(types, [[read(d) for d in documents] for documents in sample], settings.ngrams)
        if settings.model.layout_dim:
            typed = partial(_tokens_of, np.memmap(folder / LAYOUT, dtype=np.uint8, mode="r"), layout_offsets)
            layouts = [[typed(d) for d in documents] for documents in sample]
            pool = replace(pool, layout=common_layout(layouts, settings.ngrams.pool_layout))
        vocabulary = replace(vocabulary, ngrams=pool)
    (folder / "vocab.json").write_bytes(vocabulary.to_json())
    words, chars = vocabulary.ids(types, settings.model.chars_per_token)
    np.save(folder / "type_words.npy", words.astype(np.int32))
    np.save(folder / "type_chars.npy", chars.astype(np.uint16))
    (folder / "types.txt").write_bytes("\n".join(types).encode("utf-8", "surrogatepass"))
    return vocabulary


def _count_types(folder: Path, offsets: np.ndarray, documents: np.ndarray, n_types: int) -> np.ndarray:
    """How often each type (types) is in the documents; read as a stream, for a mapped file would count as memory."""
    counts, wanted = np.zeros(n_types, dtype=np.int64), np.zeros(len(offsets) - 1, dtype=bool)
    wanted[documents] = True
    with (folder / TOKENS).open("rb") as stream:
        for length, counted in zip(np.diff(offsets).tolist(), wanted.tolist(), strict=True):
            tokens = np.frombuffer(stream.read(4 * length), dtype=np.int32)
            if counted:
                np.add.at(counts, tokens, 1)
    return counts


def _tokens_of(tokens: np.ndarray, offsets: np.ndarray, document: int) -> np.ndarray:
    return np.asarray(tokens[offsets[document] : offsets[document + 1]])


def _check_enough(catalogue: Catalogue, split: np.ndarray, fixed: dict[str, np.ndarray], settings: Settings) -> None:
    """InputError if some step of training would have nothing to learn from, or to choose by."""
    several = {}
    for name, number in SPLITS.items():
        _, counts = np.unique(catalogue.author[split == number], return_counts=True)
        several[name] = int((counts > 1).sum())
    short = {name: count for name, count in several.items() if count < MIN_AUTHORS}
    for name in ("validation", "development"):
        same = catalogue.same_author(fixed[name])
        pairs = 2 * int(min(same.sum(), (~same).sum()))  # of both answers
        if pairs < MIN_PAIRS:
            short[f"{name} pairs"] = pairs
    if short:
        _, documents = np.unique(catalogue.author, return_counts=True)
        found = ", ".join(f"{count} for {name}" for name, count in short.items())
        hint = "" if settings.data.split == "authors" else "; where topics are few, --split authors loses less"
        if settings.data.drawing == "published":
            hint += "; a small corpus has more pairs with data.drawing=balanced"
        raise InputError(
            f"too few authors with two or more documents of {settings.data.min_tokens} tokens: "
            f"{int((documents > 1).sum())} of {len(documents)} in all, which leaves {found}; each part needs "
            f"{MIN_AUTHORS} such authors and {MIN_PAIRS} pairs{hint}"
        )


def _limits(
    types: list[str], offsets: np.ndarray, folder: Path, vocabulary: Vocabulary, documents: np.ndarray, seed: int
) -> Limits:
    """What a sample of the training documents keeps to."""
    tokens = np.memmap(folder / TOKENS, dtype=np.int32, mode="r")
    sample = numpy_stream(seed, Stream.LIMITS).permutation(documents)[:MAX_DOCUMENTS]

    def read(document: int) -> Tokens:
        numbers, ids = np.unique(_tokens_of(tokens, offsets, document), return_inverse=True)
        return Tokens([types[number] for number in numbers], ids)

    return learn_limits(Shares.of(read(int(document)), vocabulary) for document in sample)


def _table(
    drawing: str, catalogue: Catalogue, split: np.ndarray, fixed: dict[str, np.ndarray], seed: int
) -> dict[str, Any]:
    """Documents, authors, topics and pairs per kind of each split (one epoch's draw where drawn anew)."""
    rows: dict[str, Any] = {}
    for name, number in SPLITS.items():
        documents, rng = np.flatnonzero(split == number), numpy_stream(seed, Stream.TABLE, number)
        pairs = fixed[name] if number == VALIDATE else draw(drawing, name, catalogue, documents, rng)
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
