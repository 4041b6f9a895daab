"""A population: texts of the kind that is asked about, by other people, unlabelled.

What is usual among them is taken off every embedding (`Network.embedding`), so that what all writers of court
transcripts share no longer counts for or against one author. Each text's own layout and n-gram parts are kept, so that
a text that is asked about can be left out of the population that judges it. Texts are known by hashes of their words:
which of many are drawn, and in which order they are added up, depends on nothing else.
"""

from __future__ import annotations

import hashlib
import heapq
import io
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .data.batch import Batch
from .data.fitness import Shares
from .data.tokeniser import Tokens, encode_all
from .errors import InputError
from .files import reading, write_whole
from .network.checkpoint import Ensemble, manifest_hash
from .network.embedding import Embedding
from .network.network import Network, Population

FEWEST, MOST = 10, 500  # texts
TEXTS_AT_A_TIME = 32


def text_key(text: str) -> bytes:
    """The same for texts that differ in white space alone."""
    return hashlib.blake2b(" ".join(text.split()).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def draw(texts: Iterable[str], limit: int = MOST) -> list[str]:
    """At most `limit` distinct texts, those of the smallest keys, in the order of their keys; blank ones are none."""
    kept: dict[bytes, str] = {}
    largest: list[int] = []  # a heap of the keys kept, as negative numbers
    for text in texts:
        key = text_key(text)
        if key in kept or not text.strip():
            continue
        number = -int.from_bytes(key, "big")
        if len(kept) == limit:
            if number <= largest[0]:
                continue
            del kept[(-heapq.heappop(largest)).to_bytes(len(key), "big")]
        heapq.heappush(largest, number)
        kept[key] = text
    return [kept[key] for key in sorted(kept)]


def left_out_words(counts: Mapping[str, int]) -> str:
    """Texts that nothing can be said of, in brackets, by the kinds of `Limits.fault`."""
    words = {"language": "in another language", "no words": "hardly made of words"}
    counted = ", ".join(f"{count} {words.get(kind, kind)}" for kind, count in counts.items())
    return f" (left out: {counted})" if counted else ""


@dataclass(frozen=True, eq=False)
class PopulationTexts:
    """K texts as the members of one ensemble see them."""

    keys: tuple[bytes, ...]  # sorted
    projected: Tensor  # (M, K, counted_dim): layout and n-gram parts before they are made comparable
    ensemble: str  # hash of its manifest
    left_out: dict[str, int] = field(default_factory=dict)  # texts that nothing can be said of: {kind: count}

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def sha256(self) -> str:
        """Of the texts, in any order."""
        return hashlib.sha256(b"".join(self.keys)).hexdigest()

    @property
    def words(self) -> str:
        """In one line."""
        return f"a population of {len(self)} texts{left_out_words(self.left_out)}"

    def to_dict(self) -> dict[str, Any]:
        """What a run records of it."""
        return {"texts": len(self), "sha256": self.sha256, "left_out": self.left_out}

    @cached_property
    def _rows(self) -> dict[bytes, int]:
        return {key: row for row, key in enumerate(self.keys)}

    def among(self, texts: Iterable[str]) -> frozenset[bytes]:
        """The keys of those texts that are in it."""
        return frozenset(key for key in map(text_key, texts) if key in self._rows)

    def without(self, keys: frozenset[bytes] = frozenset(), members: slice = slice(None)) -> Population | None:
        """The others, as some of the members see them; None if there are none."""
        rows = [row for key, row in self._rows.items() if key not in keys]
        return Population(self.projected[members][:, rows]) if rows else None

    def to(self, device: torch.device) -> PopulationTexts:
        return PopulationTexts(self.keys, self.projected.to(device), self.ensemble, self.left_out)

    # ---- kept in a file --------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        write_whole(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        buffer = io.BytesIO()
        keys = np.frombuffer(b"".join(self.keys), dtype=np.uint8).reshape(len(self), -1)
        np.savez_compressed(
            buffer, keys=keys, projected=self.projected.cpu().numpy(), ensemble=np.array(self.ensemble),
            kinds=np.array(list(self.left_out), dtype="U40"), counts=np.array(list(self.left_out.values()), dtype=int),
        )  # fmt: skip
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> PopulationTexts:
        """ValueError if they are no population."""
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as file:
                keys, projected = (np.asarray(file[name]) for name in ("keys", "projected"))
                left_out = {str(kind): int(n) for kind, n in zip(file["kinds"], file["counts"], strict=True)}
                ensemble = str(file["ensemble"])
        except (OSError, KeyError, EOFError, zipfile.BadZipFile, ValueError) as error:
            raise ValueError(str(error)) from None
        if projected.ndim != 3 or keys.ndim != 2 or keys.dtype != np.uint8 or projected.shape[1] != len(keys):
            raise ValueError("its arrays do not fit together")
        if projected.dtype != np.float32 or not np.isfinite(projected).all() or not len(keys):
            raise ValueError("its numbers are none")
        return cls(tuple(row.tobytes() for row in keys), torch.from_numpy(projected), ensemble, left_out)


def load_population(path: Path, ensemble: Ensemble) -> PopulationTexts:
    """One that was kept by `save`; InputError if it is none, or not of this ensemble."""
    with reading(path):
        data = path.read_bytes()
    try:
        found = PopulationTexts.from_bytes(data)
    except ValueError as error:
        raise InputError(f"{path} holds no population ({error}); `pan21av population` makes one") from None
    if found.ensemble != manifest_hash(ensemble.path):
        raise InputError(
            f"{path} was made with another ensemble than {ensemble.name}: make it again from its texts, with "
            "`pan21av population`"
        )
    return found


@torch.no_grad()
def project_population(ensemble: Ensemble, texts: Iterable[str]) -> PopulationTexts:
    """Up to MOST of the texts; InputError if fewer than FEWEST are of any use."""
    network, limits = ensemble.network, ensemble.limits
    if network.ngrams is None:
        raise InputError(f"the ensemble {ensemble.name} reads no n-grams, so a population would change nothing")
    drawn = draw(texts)
    keys: list[bytes] = []
    fit: list[Tokens] = []
    left_out: Counter[str] = Counter()
    for text in drawn:
        (tokens,) = encode_all([text], **ensemble.reading)
        fault = limits.fault(Shares.of(tokens, ensemble.vocabulary)) if limits else None
        if fault is not None:
            left_out[fault[0]] += 1
            continue
        keys.append(text_key(text))
        fit.append(tokens)
    if len(fit) < FEWEST:
        raise InputError(
            f"a population needs {FEWEST} to {MOST} texts of the kind that is asked about, and here are only "
            f"{len(fit)} that can be used{left_out_words(left_out)}"
        )
    parts = [
        network.project_counted(*_counted(ensemble, fit[at : at + TEXTS_AT_A_TIME]))
        for at in range(0, len(fit), TEXTS_AT_A_TIME)
    ]
    projected = torch.cat(parts, 1)[..., : network.config.counted_dim].float()
    return PopulationTexts(tuple(keys), projected, manifest_hash(ensemble.path), dict(left_out))


def _counted(ensemble: Ensemble, documents: list[Tokens]) -> tuple[Tensor, Tensor]:
    """n-gram frequencies (D, pool) and lengths (D)."""
    counter, device = ensemble.vocabulary.counter, ensemble.network.device
    counted = np.concatenate(
        [counter.count(counter.analyse(tokens.types), [tokens.ids], [tokens.layout]) for tokens in documents]
    )
    lengths = torch.tensor([len(tokens.ids) for tokens in documents], dtype=torch.float64)
    return torch.from_numpy(counted).to(device).double(), lengths.to(device)


def embed_among(
    network: Network, batch: Batch, population: PopulationTexts, left_out: Mapping[frozenset[bytes], list[int]],
    members: slice,
) -> Embedding:  # fmt: skip
    """A batch whose documents are judged without some of the population: {keys: rows}. The network has some of the
    members that the population is of. One group after the other: each has a copy of the rest."""
    projected, parts = network.project(batch), []
    for keys, rows in left_out.items():
        parts.append(network.embedding(projected[:, rows], batch.tokens[rows], population.without(keys, members)))
    order = np.argsort([row for rows in left_out.values() for row in rows])
    return Embedding.join(parts, "documents")[torch.from_numpy(order).to(batch.tokens.device)]
