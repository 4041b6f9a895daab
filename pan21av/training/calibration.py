"""What stage two learns from: documents by authors that stage one never saw, of sources that it knows and of others,
whole and in crops, with and without a population; and pairs of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..data.pan import PAIR_KINDS
from ..network.embedding import Embedding, EmbeddingPair
from ..network.network import Network, Population
from .crops import Crops
from .prepared import CALIBRATE, TRAIN, Prepared, Span
from .sampling import FOR_SCORES, Drawing, draw_pairs, per_source
from .settings import Settings
from .sources import n_known
from .stage1 import project_spans
from .streams import COHORT_SEED, Stream, numpy_stream

FEWEST, MOST = 10, 300  # texts of a population
FOLDS = 2  # of the authors, where scores are fitted: see heads.py
POPULATIONS = 2  # conditions with one, beside that without


class LabelledPairs(NamedTuple):
    pair: EmbeddingPair
    same: Tensor  # (1, P)
    known: Tensor  # (P) bool: of a source that the member is made of

    def only(self, which: Tensor) -> LabelledPairs:
        """Those of `which` (P) bool."""
        rows = which.nonzero()[:, 0]
        return LabelledPairs(self.pair[rows], self.same[:, rows], self.known[rows])

    @staticmethod
    def join(several: Sequence[LabelledPairs]) -> LabelledPairs:
        pairs, same, known = zip(*several, strict=True)
        return LabelledPairs(EmbeddingPair.join(pairs), torch.cat(same, 1), torch.cat(known))


@dataclass(frozen=True)
class Views:
    """Embeddings of documents: view 0 reads the whole text, the others crops of random length.

    In condition 0 nothing is known of where they come from; in the others there is a population.
    """

    embedding: Embedding  # rows: conditions x views x documents
    documents: np.ndarray  # (D), sorted
    n_views: int
    n_conditions: int = 1

    def rows(self, documents: np.ndarray, views: np.ndarray | int = 0, conditions: np.ndarray | int = 0) -> Tensor:
        """Where the embeddings of `documents` (P) are, each at its view and in its condition."""
        at = np.searchsorted(self.documents, documents)
        return torch.from_numpy((np.asarray(conditions) * self.n_views + views) * len(self.documents) + at)


class Projected(NamedTuple):
    """What the parts of a member's LEVs are before they are made comparable: rows views x documents."""

    parts: Tensor  # (1, rows, L)
    tokens: Tensor  # (rows)
    documents: np.ndarray  # (D), sorted
    n_views: int


@torch.no_grad()
def project_views(
    network: Network, prepared: Prepared, documents: np.ndarray, settings: Settings, rng: np.random.Generator,
    kept: Path | None = None,
) -> Projected:  # fmt: skip
    documents = np.unique(documents)
    crops = Crops(prepared, rng)
    spans = [crops.whole(int(d)) for d in documents]
    for _ in range(1, settings.calibration.views):
        spans += [crops.of_any_length(int(d), settings.calibration.min_tokens) for d in documents]
    parts, tokens = project_spans(network, prepared, spans, kept)
    return Projected(parts, tokens, documents, settings.calibration.views)


class Populations:
    """Texts of each source, by training authors, as a user might have them of the kind that is asked about."""

    def __init__(self, network: Network, prepared: Prepared, rng: np.random.Generator) -> None:
        self.projected: dict[int, Tensor] = {}  # (1, texts, counted_dim) of each source
        if network.ngrams is None:
            return
        crops, source = Crops(prepared, rng), prepared.catalogue.source
        documents = np.flatnonzero(prepared.full_split == TRAIN)  # of the sources that the member never read, too
        for number in range(len(prepared.sources)):
            mine = rng.permutation(documents[source[documents] == number])[: 2 * MOST]
            if len(mine) >= FEWEST:
                spans = [crops.whole(int(d)) for d in mine]
                self.projected[number] = ngram_projections(network, prepared, spans)

    def draw(self, source: int, texts: int, rng: np.random.Generator) -> Population | None:
        """Of `texts` texts, or of as many as there are; None where there are next to none."""
        projected = self.projected.get(source)
        if projected is None:
            return None
        chosen = torch.from_numpy(rng.permutation(projected.shape[1])[:texts])
        return Population(projected[:, chosen])


@torch.no_grad()
def ngram_projections(network: Network, prepared: Prepared, spans: list[Span]) -> Tensor:
    """(1, spans, counted_dim), without the encoder, which costs most."""
    counted, tokens = (torch.from_numpy(each).to(network.device).double() for each in prepared.count_ngrams(spans))
    return network.project_counted(counted, tokens)[..., : network.config.counted_dim].float()


@torch.no_grad()
def measured(
    network: Network, projected: Projected, prepared: Prepared, populations: list[dict[int, Population] | None],
    cohort: np.ndarray | None,
) -> Views:  # fmt: skip
    """Embeddings in a condition for each of `populations`: a population for each source, or None.

    `cohort` are the documents of the cohort; nobody is in his own.
    """
    catalogue, views = prepared.catalogue, projected.n_views
    documents = np.tile(projected.documents, views)
    device = projected.parts.device
    conditions = []
    for of_source in populations:
        groups = catalogue.source[documents] if of_source is not None else np.zeros(len(documents), dtype=np.int64)
        order = np.argsort(groups, kind="stable")
        parts = []
        for number in np.unique(groups):
            rows = order[groups[order] == number]
            usable = None
            if cohort is not None:
                others = catalogue.author[documents[rows]][:, None] != catalogue.author[cohort]
                usable = torch.from_numpy(others).to(device)
            population = None if of_source is None else of_source.get(int(number))
            index = torch.from_numpy(rows).to(device)
            parts.append(network.embedding(projected.parts[:, index], projected.tokens[index], population, usable))
        back = torch.from_numpy(np.argsort(order))
        conditions.append(Embedding.join(parts, "documents")[back])
    return Views(Embedding.join(conditions, "documents"), projected.documents, views, len(populations))


def balanced_pairs(prepared: Prepared) -> np.ndarray:
    """Calibration pairs (P, 2) for tables 2 and 3 of the paper, the same for all members: the four kinds, as far as the
    corpus has them, cut to the smallest."""
    if prepared.calibration is not None:
        return prepared.calibration
    rng = numpy_stream(COHORT_SEED, Stream.FIXED_PAIRS)
    pairs = draw_pairs(prepared.catalogue, prepared.documents(CALIBRATE), Drawing(0.9, 0.9, 0.7), rng)
    kinds = prepared.catalogue.kinds(pairs)
    _, counts = np.unique(kinds, return_counts=True)
    fewest = int(counts.min()) if len(counts) else 0
    kept = [np.flatnonzero(kinds == kind)[:fewest] for kind in PAIR_KINDS]
    return pairs[np.sort(np.concatenate(kept))]


def cohort_documents(prepared: Prepared, limit: int) -> np.ndarray:
    """One document of each calibration author of the sources that are known, up to a limit; sources share it evenly
    as far as they can."""
    documents = numpy_stream(COHORT_SEED, Stream.COHORT).permutation(prepared.documents(CALIBRATE))
    documents = documents[prepared.known[prepared.catalogue.source[documents]]]
    _, first = np.unique(prepared.catalogue.author[documents], return_index=True)
    documents = documents[np.sort(first)]
    source = prepared.catalogue.source[documents]
    by_source = np.argsort(source, kind="stable")
    rank = np.empty(len(source), dtype=np.int64)  # within its source
    rank[by_source] = np.arange(len(source)) - np.searchsorted(source[by_source], source[by_source])
    return np.sort(documents[np.argsort(rank, kind="stable")][:limit])


def fewest_in_cohort(prepared: Prepared, source_share: float) -> int:
    """Authors that the cohort of any member has at least, whatever sources it knows. Who writes for several sources
    counts in one of them."""
    documents = prepared.documents(CALIBRATE)
    _, first = np.unique(prepared.catalogue.author[documents], return_index=True)
    authors = np.bincount(prepared.catalogue.source[documents[first]], minlength=len(prepared.sources))
    return int(np.sort(authors)[: n_known(len(prepared.sources), source_share)].sum())


def deal_folds(prepared: Prepared) -> list[np.ndarray]:
    """Calibration documents, all of an author's in one fold, the same for all members: so that all of them can judge a
    pair by scores that know neither author."""
    documents, catalogue = prepared.documents(CALIBRATE), prepared.catalogue
    authors, first = np.unique(catalogue.author[documents], return_index=True)
    mixed = numpy_stream(COHORT_SEED, Stream.FOLDS).permutation(len(authors))
    # Every source, as far as it has authors, in every fold.
    dealt = authors[mixed[np.argsort(catalogue.source[documents[first[mixed]]], kind="stable")]]
    return [documents[np.isin(catalogue.author[documents], dealt[n::FOLDS])] for n in range(FOLDS)]


class Calibration:
    """Calibration documents of one member, and pairs drawn from them."""

    def __init__(self, views: Views, prepared: Prepared, settings: Settings, seed: int, device: torch.device) -> None:
        self.views, self.prepared, self.settings, self.seed, self.device = views, prepared, settings, seed, device
        self.folds = deal_folds(prepared) if settings.heads.epochs else [views.documents]

    def draw(self, documents: np.ndarray, rng: np.random.Generator) -> LabelledPairs:
        """Pairs drawn anew, each document at a random view, half of the pairs with a population."""
        catalogue, settings = self.prepared.catalogue, self.settings
        if settings.heads.epochs:
            pairs = draw_pairs(catalogue, documents, FOR_SCORES, rng)
        else:
            pairs = self.prepared.draw("calibration", documents, rng)
        pairs = per_source(catalogue, pairs, settings.calibration.per_source)
        pairs = self._with_unfamiliar(pairs, rng)
        same = torch.tensor(catalogue.same_author(pairs), dtype=torch.float32, device=self.device)[None]
        views = self._random_views(len(pairs), rng)
        conditions = np.zeros(len(pairs), dtype=np.int64)
        if self.views.n_conditions > 1:
            known = rng.integers(1, self.views.n_conditions, size=len(pairs))
            conditions = np.where(rng.random(len(pairs)) < 0.5, 0, known)
        rows = [self.views.rows(pairs[:, side], views[side], conditions) for side in (0, 1)]
        return LabelledPairs(self.views.embedding.pair(*rows), same, self.known(pairs))

    def known(self, pairs: np.ndarray) -> Tensor:
        """(P) bool"""
        return torch.from_numpy(self.prepared.known[self.prepared.catalogue.source[pairs[:, 0]]]).to(self.device)

    def _with_unfamiliar(self, pairs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Pairs of sources that the member does not know as often as the settings say: some come again."""
        known, share = self.known(pairs).cpu().numpy(), self.settings.calibration.unfamiliar
        strange = pairs[~known]
        if not len(strange) or known.sum() == 0 or share >= 1:
            return pairs
        wanted = round(share / (1 - share) * known.sum())
        return rng.permutation(np.concatenate([pairs[known], np.resize(strange, (wanted, 2))]))

    def _random_views(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """(2, P): a third of the pairs whole, of the others each document at one of all views."""
        views = rng.integers(self.views.n_views, size=(2, count))
        return np.where(rng.random(count) < 1 / 3, 0, views)

    def draw_many(self, documents: np.ndarray, draws: int, stream: Stream) -> LabelledPairs:
        """Several draws together, to fit something to all of them."""
        return LabelledPairs.join([self.draw(documents, numpy_stream(self.seed, stream, n)) for n in range(draws)])

    def epoch(self, documents: np.ndarray, rng: np.random.Generator, batch: int) -> Iterator[LabelledPairs]:
        """The batches of an epoch: as many draws as the settings say."""
        for _ in range(self.settings.calibration.draws):
            pair, same, known = self.draw(documents, rng)
            for at in range(0, len(pair), batch):
                here = slice(at, at + batch)
                yield LabelledPairs(pair[here], same[:, here], known[here])
