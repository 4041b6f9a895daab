"""DML, BFS and UAL on authors that the encoder never saw; it never changes, so embeddings are computed once.

Scores are surer of authors that they learnt from than they should be. Whatever builds on them must see what they say of
others: UAL what BFS says, O2D2 and the ensemble's scale what UAL says. So the authors are dealt into folds, and beside
the scores that are shipped, which learn from all, each fold has scores of its own that learn from the other folds.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..network.network import Network
from ..network.scores import BFS, UAL
from .calibration import Calibration, LabelledPairs
from .fit_dml import fit_dml
from .fit_plda import Sample, fit_plda
from .fit_ual import fit_ual
from .losses import Heads, ual_loss
from .optimiser import Optimiser, linear
from .settings import HeadSettings
from .stage1 import Log
from .streams import Stream, numpy_stream, torch_stream

FITTED_DRAWS = 12  # of pairs that scores are fitted to, and compared on
COMPARED = 4_000  # pairs of a fold that BFS is chosen by
LR_FALL = 10  # times


class Judged(NamedTuple):
    """Pairs, and what scores say of them that learnt from none of their authors."""

    pairs: LabelledPairs
    p_ual: Tensor  # (1, P)
    confusion: Tensor  # (1, P, 2, 2)
    familiar: Tensor | None  # (1, P)

    @staticmethod
    def join(several: Sequence[Judged]) -> Judged:
        familiar = [judged.familiar for judged in several if judged.familiar is not None]
        return Judged(
            LabelledPairs.join([judged.pairs for judged in several]),
            torch.cat([judged.p_ual for judged in several], 1),
            torch.cat([judged.confusion for judged in several], 1),
            torch.cat(familiar, 1) if familiar else None,
        )

    def only(self, which: Tensor) -> Judged:
        """Those of `which` (P) bool."""
        familiar = None if self.familiar is None else self.familiar[:, which]
        return Judged(self.pairs.only(which), self.p_ual[:, which], self.confusion[:, which], familiar)


@dataclass(frozen=True)
class Fold:
    """Calibration documents, and scores to judge them by."""

    documents: np.ndarray
    bfs: BFS
    ual: UAL


@torch.no_grad()
def judge(heads: Heads, pairs: LabelledPairs) -> Judged:
    p_ual, confusion = heads.ual(pairs.pair, heads.bfs(pairs.pair))
    return Judged(pairs, p_ual, confusion, heads.ual.familiar(pairs.pair))


def unfitted(network: Network, calibration: Calibration) -> list[Fold]:
    """Where the scores are stage one's own, they know no calibration author."""
    return [Fold(documents, network.bfs, network.ual) for documents in calibration.folds]


def fit_heads(
    network: Network, calibration: Calibration, settings: HeadSettings, log: Log,
    figures: Callable[[], dict[str, float]],
) -> list[Fold]:  # fmt: skip
    """DML, BFS and UAL: fitted outright as far as they can be, then UAL by its own loss.

    How many epochs is chosen by what the folds' scores say of their folds. `figures` are what is logged after every
    epoch; nothing is chosen by them.
    """
    drawn = [calibration.draw_many(documents, FITTED_DRAWS, Stream.HEAD_PAIRS) for documents in calibration.folds]
    fit_dml(network.dml, LabelledPairs.join(drawn))
    every_bfs = _fit_bfs(network.bfs, calibration, drawn)
    with torch.no_grad():
        p_bfs = [bfs(pairs.pair) for bfs, pairs in zip(every_bfs, drawn, strict=True)]
    # The shipped UAL last, and before it that of each fold, which does not learn from it.
    every_ual = [copy.deepcopy(network.ual) for _ in drawn] + [network.ual]
    for n, ual in enumerate(every_ual):
        others = [at for at in range(len(drawn)) if at != n]
        fit_ual(ual, LabelledPairs.join([drawn[at] for at in others]), torch.cat([p_bfs[at] for at in others], 1))
    folds = [Fold(*each) for each in zip(calibration.folds, every_bfs, every_ual[:-1], strict=True)]
    _train_ual(every_ual, folds, drawn, calibration, settings, log, figures)
    return folds


def _train_ual(
    every_ual: list[UAL], folds: list[Fold], drawn: list[LabelledPairs], calibration: Calibration,
    settings: HeadSettings, log: Log, figures: Callable[[], dict[str, float]],
) -> None:  # fmt: skip
    def held_out_loss() -> float:
        judged = Judged.join([judge(fold, pairs) for fold, pairs in zip(folds, drawn, strict=True)])
        return float(F.binary_cross_entropy(judged.p_ual, judged.pairs.same))

    def now() -> list[dict[str, Tensor]]:
        return [copy.deepcopy(ual.state_dict()) for ual in every_ual]

    best, chosen = held_out_loss(), now()
    optimisers = [
        Optimiser([p for name, p in ual.named_parameters() if p.requires_grad and not name.startswith("kind")])
        for ual in every_ual
    ]
    for epoch in range(settings.epochs):
        torch_stream(calibration.seed, Stream.HEAD_EPOCH, epoch)
        rng = numpy_stream(calibration.seed, Stream.HEAD_EPOCH, epoch)
        rate = linear(settings.lr, settings.lr / LR_FALL, epoch / settings.epochs)
        losses = []
        for ual in every_ual:
            ual.train()
            ual.dropout = settings.dropout
        for n, (pair, same, _) in in_turns(folds, calibration, rng, settings.batch):
            with torch.no_grad():
                p_bfs = folds[n].bfs(pair)
            for ual, optimiser in zip(every_ual, optimisers, strict=True):
                if ual is not folds[n].ual:
                    p_ual, confusion = ual(pair, p_bfs)
                    loss = ual_loss(confusion, p_ual, same, settings.ual_beta)
                    optimiser.step(loss, rate)
                    losses.append(float(loss.detach()))
        for ual in every_ual:
            ual.eval()
        loss_now = held_out_loss()
        if loss_now < best:
            best, chosen = loss_now, now()
        record = {"loss": float(np.mean(losses)), "held_out_loss": loss_now, **figures()}
        log({"stage": "heads", "epoch": epoch + 1, **record})
    for ual, state in zip(every_ual, chosen, strict=True):
        ual.load_state_dict(state)


def in_turns(
    folds: Sequence[Fold], calibration: Calibration, rng: np.random.Generator, batch: int
) -> Iterator[tuple[int, LabelledPairs]]:
    """Batches of an epoch, of one fold after the other, with the number of the fold, until one has no more."""
    epochs = [calibration.epoch(fold.documents, rng, batch) for fold in folds]
    while epochs:
        for n, pairs in enumerate(next(epoch, None) for epoch in epochs):
            if pairs is None:
                return
            yield n, pairs


def _fit_bfs(bfs: BFS, calibration: Calibration, drawn: list[LabelledPairs]) -> list[BFS]:
    """Of kinds of text that the member knows. If BFS learnt from others, too, it would serve UAL better on these than
    on kinds that nobody has seen, and UAL would learn to trust it too much there."""
    views, catalogue, prepared = calibration.views, calibration.prepared.catalogue, calibration.prepared

    def sample(documents: np.ndarray) -> Sample:
        known = documents[prepared.known[catalogue.source[documents]]]
        numbers = np.tile(known, views.n_views)
        rows = views.rows(numbers, np.repeat(np.arange(views.n_views), len(known)))
        return Sample(views.embedding.vectors[0, rows], catalogue.author[numbers], catalogue.source[numbers])

    everyone = np.concatenate(calibration.folds)
    folds = [
        (sample(np.setdiff1d(everyone, documents)), _first(pairs.only(pairs.known)))
        for documents, pairs in zip(calibration.folds, drawn, strict=True)
    ]
    return fit_plda(bfs, sample(np.sort(everyone)), folds)


def _first(pairs: LabelledPairs) -> LabelledPairs:
    return pairs.only(torch.arange(len(pairs.pair)) < COMPARED)
