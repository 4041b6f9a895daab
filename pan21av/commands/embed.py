"""`pan21av embed`: documents to style vectors, for search, clustering and whatever else one does with them."""

from __future__ import annotations

import logging
import os
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..data.jsonlines import read_objects
from ..errors import InputError
from ..files import part_of, writing
from ..runtime.progress import Progress
from .population import load_verifier

log = logging.getLogger("pan21av")

DOCUMENTS_AT_A_TIME = 64
EXPECTED = 'expected {"id": "...", "text": "..."}'


class Labelled(NamedTuple):
    id: str
    text: str


def read_documents(path: Path) -> Iterator[Labelled]:
    """Every line of a file; InputError names the line that is no document."""
    for number, value in read_objects(path, EXPECTED):
        name, text = value.get("id"), value.get("text")
        if not isinstance(name, str) or not isinstance(text, str) or not text.strip():
            raise InputError(f"{path}:{number}: {EXPECTED}")
        yield Labelled(name, text)


def embed(
    input: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    population: str | os.PathLike[str] | None = None,
    models: str | os.PathLike[str] | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> int:
    """The documents of `input` (JSON lines, plain or compressed) as vectors in the file `output`, .npz: `ids` (D),
    `vectors` (D, N) float16 of length one, as `Verifier.vectors` has them, and `tokens` (D), how many were read.

    However many documents there are, few are in memory at a time. Returns how many there were.
    """
    source, path = Path(input), Path(output)
    if path.suffix != ".npz":
        raise InputError(f"vectors go into a .npz file, not into {path}")
    if not source.is_file():
        raise InputError(f"{source} is no file; {EXPECTED} on each line")
    ids = [document.id for document in read_documents(source)]  # all of it is checked before any of it is embedded
    if not ids:
        raise InputError(f"{source} holds no documents; {EXPECTED}")
    if len(set(ids)) < len(ids):
        raise InputError(f"{source} has {len(ids) - len(set(ids))} documents with an id that came before")
    verifier = load_verifier(models, device, threads, population)
    width = verifier.network.n_members * verifier.config.lev_dim
    tokens: list[int] = []
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with writing(path), zipfile.ZipFile(part_of(path), "w") as archive:
            with archive.open("vectors.npy", "w", force_zip64=True) as stream, Progress(len(ids), "documents") as bar:
                header = {"descr": "<f2", "fortran_order": False, "shape": (len(ids), width)}
                np.lib.format.write_array_header_1_0(stream, header)
                documents = read_documents(source)
                while some := list(islice(documents, DOCUMENTS_AT_A_TIME)):
                    embedding = verifier.embed([document.text for document in some])
                    stream.write(verifier.vectors(embedding).astype("<f2").tobytes())
                    tokens += embedding.tokens.int().tolist()
                    bar.advance(len(some))
            _write(archive, "ids", np.array(ids))
            _write(archive, "tokens", np.array(tokens, dtype=np.int32))
        with writing(path):
            part_of(path).replace(path)
    finally:
        with suppress(OSError):  # a read-only file system refuses this even where there is no file
            part_of(path).unlink(missing_ok=True)
    log.info("%d documents, %d numbers each -> %s", len(ids), width, path)
    return len(ids)


def _write(archive: zipfile.ZipFile, name: str, array: np.ndarray[Any, Any]) -> None:
    with archive.open(f"{name}.npy", "w") as stream:
        np.lib.format.write_array(stream, array, allow_pickle=False)
