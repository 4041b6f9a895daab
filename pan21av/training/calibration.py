"""What stage two learns from: documents by authors that stage one never saw, whole and in crops, and pairs of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..network.cohort import Cohort
from ..network.embedding import Embedding, EmbeddingPair
from ..network.network import Network
from .crops import Crops
from .prepared import CALIBRATE, Prepared
from .sampling import FOR_CALIBRATION, FOR_SCORES, draw_pairs
from .settings import Settings
from .stage1 import embed_spans
from .streams import COHORT_SEED, Stream, numpy_stream


class LabelledPairs(NamedTuple):
    pair: EmbeddingPair
    same: Tensor  # (1, P)


@dataclass(frozen=True)
class Views:
    """Embeddings of documents: view 0 reads the whole text, the others crops of random length.

    In condition 0 a text is of a familiar kind; in condition 1 the cohort's texts of its own source do not count.
    """

    embedding: Embedding  # rows: conditions x views x documents
    documents: np.ndarray  # (D), sorted
    n_views: int
    n_conditions: int = 1

    def rows(self, documents: np.ndarray, views: np.ndarray | int = 0, conditions: np.ndarray | int = 0) -> Tensor:
        """Where the embeddings of `documents` (P) are, each at its view and in its condition."""
        at = np.searchsorted(self.documents, documents)
        return torch.from_numpy((np.asarray(conditions) * self.n_views + views) * len(self.documents) + at)

    def measured(self, cohort: Cohort, usable: list[np.ndarray | None]) -> Views:
        """With distances to a cohort, in a condition for each of `usable`: who of the cohort (D, K) counts."""
        vectors, views = self.embedding.vectors, self.n_views
        conditions = []
        for mask in usable:
            counted = None if mask is None else torch.from_numpy(np.tile(mask, (views, 1))).to(vectors.device)
            conditions.append(replace(self.embedding, cohort_distance=cohort(vectors.double(), counted).float()))
        return Views(Embedding.join(conditions, "documents"), self.documents, views, len(usable))


@torch.no_grad()
def compute_views(
    network: Network, prepared: Prepared, documents: np.ndarray, settings: Settings, rng: np.random.Generator,
    device: torch.device,
) -> Views:  # fmt: skip
    """By a network that has no cohort yet."""
    documents = np.unique(documents)
    crops, shortest, longest = Crops(prepared, rng), settings.calibration.min_windows, settings.model.max_windows
    spans = [crops.whole(int(d)) for d in documents]
    for _ in range(1, settings.calibration.views):
        spans += [crops.random(int(d), shortest, longest) for d in documents]
    return Views(embed_spans(network, prepared, spans, device), documents, settings.calibration.views)


def cohort_documents(prepared: Prepared, limit: int) -> np.ndarray:
    """One document of each calibration author, up to a limit; sources share it evenly as far as they can."""
    documents = numpy_stream(COHORT_SEED, Stream.COHORT).permutation(prepared.documents(CALIBRATE))
    _, first = np.unique(prepared.catalogue.author[documents], return_index=True)
    documents = documents[np.sort(first)]
    source = prepared.catalogue.source[documents]
    by_source = np.argsort(source, kind="stable")
    rank = np.empty(len(source), dtype=np.int64)  # within its source
    rank[by_source] = np.arange(len(source)) - np.searchsorted(source[by_source], source[by_source])
    return np.sort(documents[np.argsort(rank, kind="stable")][:limit])


class Calibration:
    """Calibration documents of one member, and pairs drawn from them."""

    def __init__(self, views: Views, prepared: Prepared, settings: Settings, seed: int, device: torch.device) -> None:
        self.views, self.prepared, self.settings, self.seed, self.device = views, prepared, settings, seed, device
        # The scores learn from one half of the calibration authors; which pairs they get wrong can
        # only be learnt from the other. Every member halves them in its own way. Without new
        # scores (as in the paper) all authors serve O2D2.
        author = prepared.catalogue.author[views.documents]
        authors = numpy_stream(seed, Stream.HALVES).permutation(np.unique(author))
        mine = np.isin(author, authors[: len(authors) // 2 if settings.heads.epochs else 0])
        self.for_scores, self.for_o2d2 = views.documents[mine], views.documents[~mine]

    def draw(self, documents: np.ndarray, rng: np.random.Generator) -> LabelledPairs:
        """Pairs drawn anew, each document at a random view.

        A share of the pairs poses as of an unfamiliar kind: a verifier will meet such, too.
        """
        catalogue = self.prepared.catalogue
        pairs = draw_pairs(catalogue, documents, FOR_SCORES if self.settings.heads.epochs else FOR_CALIBRATION, rng)
        same = torch.tensor(catalogue.same_author(pairs), dtype=torch.float32, device=self.device)[None]
        views = [self._random_views(len(pairs), rng) for _ in range(2)]
        conditions = np.zeros(len(pairs), dtype=np.int64)
        if self.views.n_conditions > 1:
            conditions = (rng.random(len(pairs)) < self.settings.calibration.unfamiliar).astype(np.int64)
        rows = [self.views.rows(pairs[:, side], views[side], conditions) for side in (0, 1)]
        return LabelledPairs(self.views.embedding.pair(*rows), same)

    def _random_views(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Half of the documents whole, the others at one of the shorter views."""
        shorter = rng.integers(1, max(2, self.views.n_views), size=count)
        return np.where((rng.random(count) < 0.5) | (self.views.n_views == 1), 0, shorter)

    def draw_many(self, documents: np.ndarray, draws: int, stream: Stream) -> LabelledPairs:
        """Several draws together, to fit something to all of them."""
        drawn = [self.draw(documents, numpy_stream(self.seed, stream, n)) for n in range(draws)]
        pairs, same = zip(*drawn, strict=True)
        return LabelledPairs(EmbeddingPair.join(pairs), torch.cat(same, 1))

    def epoch(self, documents: np.ndarray, rng: np.random.Generator, batch: int) -> Iterator[LabelledPairs]:
        """The batches of an epoch: as many draws as the settings say."""
        for _ in range(self.settings.calibration.draws):
            pair, same = self.draw(documents, rng)
            for at in range(0, len(pair), batch):
                yield LabelledPairs(pair[at : at + batch], same[:, at : at + batch])
