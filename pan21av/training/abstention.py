"""O2D2: which pairs a member gets wrong or cannot decide, learnt on authors that its scores did not learn from."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..metrics import pan_metrics
from ..network.evidence import parabola, scantness
from ..network.network import Network
from ..network.scores import O2D2, OPEN_UNTIL, least_terms
from ..vote import NON_RESPONSE, vote
from .calibration import Calibration, LabelledPairs
from .heads import Fold, Judged, in_turns, judge
from .optimiser import Optimiser, linear
from .settings import AbstentionSettings
from .stage1 import Log
from .steps import Checkpoint, Due
from .streams import Stream, numpy_stream, torch_stream

SAMPLE_DRAWS = 6  # of pairs that show what is usual
FEWEST_LONG = 200  # pairs of texts long enough to abstain on, that a threshold is set by
PARABOLA, ENDS = [0, 1, 2], [0, 3]  # of least_terms: what is fitted to texts of all lengths, or to short ones alone
CLOSING = 10.0  # what so much less text that its log falls by one adds to the threshold, beyond OPEN_UNTIL


def labels(p_ual: Tensor, same: Tensor, eps: Tensor) -> Tensor:
    """Posteriors and truth (1, P), candidates (E, 1) or (E, P) -> (E, P): 1 if the decision is wrong or within eps of
    a half."""
    wrong = (p_ual > NON_RESPONSE) != same.bool()
    return (wrong | ((p_ual - NON_RESPONSE).abs() <= eps)).float()


class Usual:
    """How far from a half posteriors usually are at a length, over that of texts of usual length: else most short
    pairs would count as undecidable."""

    LEAST = 0.05

    def __init__(self, p_ual: Tensor, scant: Tensor) -> None:
        """Of pairs (P) of any length; scant is 0 for texts of usual length."""
        distance = (p_ual - NON_RESPONSE).abs()
        terms, values = parabola(scant).double(), distance[:, None].double()
        # By singular values: where all pairs are of one length, two of the three terms say nothing.
        self.weights = torch.linalg.lstsq(terms, values, driver="gelsd").solution[:, 0].float()

    def __call__(self, scant: Tensor) -> Tensor:
        whole = parabola(torch.zeros_like(scant)) @ self.weights
        return ((parabola(scant) @ self.weights) / whole).clamp(self.LEAST, 1.0)


@torch.no_grad()
def _settle(detectors: O2D2, judged: Judged, settings: AbstentionSettings) -> None:
    """How strange kinds count, and how undecidable a pair of a length must be, so that of pairs of familiar sources
    the share of the settings is left open, and next to none of the shortest. A corpus of short texts has no others:
    there the share holds for them."""
    assert detectors.strange is not None
    assert detectors.least is not None
    detectors.strange.fill_(settings.strange)
    known = judged.only(judged.pairs.known)
    logit, scant = _logit(detectors, known), scantness(known.pairs.pair)
    long = int((scant <= OPEN_UNTIL).sum()) >= FEWEST_LONG
    which, terms = (PARABOLA, parabola(scant)) if long else (ENDS, least_terms(scant)[:, ENDS])
    for least, values in zip(detectors.least, logit, strict=True):
        least[-1] = CLOSING
        least[which] = _quantile(terms, values, 1 - settings.share)


@torch.no_grad()
def _unsettle(detectors: O2D2) -> None:
    """What is learnt is which pairs are undecidable; how many are left open is another question."""
    for parameter in (detectors.strange, detectors.least):
        if parameter is not None:
            parameter.zero_()


def _logit(detectors: O2D2, judged: Judged) -> Tensor:
    """What each of several detectors says of one member's pairs -> (E, P)"""
    count = len(next(detectors.parameters()))
    return detectors.logit(
        judged.pairs.pair.expand(count),
        judged.confusion.expand(count, -1, -1, -1),
        judged.p_ual.expand(count, -1),
        None if judged.familiar is None else judged.familiar.expand(count, -1),
    )


def _quantile(terms: Tensor, values: Tensor, level: float) -> Tensor:
    """Weights of `terms` (P, T) that leave the share `level` of `values` (P) below them, whatever the terms are:
    quantile regression, by least squares that are weighed anew.

    In double precision: the last bits, which depend on where in memory the numbers lie, are then rounded away.
    """
    terms, values = terms.double(), values.double()
    weights = torch.linalg.lstsq(terms, values[:, None]).solution[:, 0]
    for _ in range(50):
        rest = values - terms @ weights
        pull = torch.where(rest > 0, level, 1 - level) / rest.abs().clamp_min(1e-3)
        root = pull.sqrt()[:, None]
        weights = torch.linalg.lstsq(terms * root, values[:, None] * root).solution[:, 0]
    return weights.float()


@dataclass
class Search(Checkpoint):
    """One detector per candidate eps, trained side by side as if they were members: all that an epoch leaves to the
    next."""

    detectors: O2D2
    optimiser: Optimiser
    epoch: int = 0
    best: float = -1.0
    chosen: int = 0  # candidate
    weights: dict[str, Tensor] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)

    MODULES = ("detectors", "optimiser")
    VALUES = ("epoch", "best", "chosen", "weights", "history")

    @classmethod
    def begin(cls, network: Network, settings: AbstentionSettings, device: torch.device) -> Search:
        told, count = network.ual.told, settings.eps_steps
        size = 0 if network.o2d2.told is None else network.o2d2.told.mean.shape[-1]
        detectors = O2D2(count, network.config.lev_dim, size).to(device)
        if told is not None and detectors.told is not None:
            for name, tensor in told.named_parameters():
                getattr(detectors.told, name).data.copy_(tensor[:, -size:].expand(count, -1))
        detectors.dropout = settings.dropout
        learning = [p for p in detectors.parameters() if p.requires_grad]
        # Candidates do not know of each other: each one's gradient is clipped on its own.
        optimiser = Optimiser(learning, settings.clip, apart=dict.fromkeys(learning, (0,)))
        return cls(detectors, optimiser, weights=copy.deepcopy(detectors.state_dict()))


def fit_o2d2(
    network: Network, calibration: Calibration, folds: Sequence[Fold], validation: LabelledPairs,
    settings: AbstentionSettings, log: Log, checkpoint: Path | None = None,
) -> float:  # fmt: skip
    """Learn from the folds, each judged by its own scores. The best epoch and eps by `overall` on validation pairs go
    into the network. Returns that eps."""
    device = validation.same.device
    eps = torch.linspace(settings.eps_min, settings.eps_max, settings.eps_steps, device=device)
    torch_stream(calibration.seed, Stream.O2D2_WEIGHTS)
    search = Search.begin(network, settings, device)
    detectors, due = search.detectors, Due()
    usual, sample = None, None
    if network.ual.told is not None:
        drawn = [(fold, calibration.draw_many(fold.documents, SAMPLE_DRAWS, Stream.USUAL)) for fold in folds]
        sample = Judged.join([judge(fold, pairs) for fold, pairs in drawn])
        usual = Usual(sample.p_ual[0], scantness(sample.pairs.pair))
    truth = validation.same[0].bool().cpu().numpy()
    validated = judge(network, validation)
    p_ual = validated.p_ual.cpu().numpy().astype(np.float64)
    if checkpoint is not None and checkpoint.exists():
        search.load(checkpoint, device)
        for record in search.history:
            log(record)
    while search.epoch < settings.epochs:
        loss = _epoch(search, folds, calibration, settings, eps, usual)
        detectors.eval()
        if sample is not None and settings.share:
            _settle(detectors, sample, settings)
        with torch.no_grad():
            undecidable = torch.sigmoid(_logit(detectors, validated))
        overall = [pan_metrics(truth, vote(p_ual, p[None]).answers)["overall"] for p in undecidable.cpu().numpy()]
        winner = int(np.argmax(overall))
        if overall[winner] > search.best:
            search.best, search.chosen = overall[winner], winner
            search.weights = copy.deepcopy(detectors.state_dict())
        search.epoch += 1
        record = {"loss": loss, "overall": overall[winner], "eps": float(eps[winner])}
        search.history.append({"stage": "o2d2", "epoch": search.epoch, **record})
        if checkpoint is not None and due():
            search.save(checkpoint)
        log(search.history[-1])
    chosen = slice(search.chosen, search.chosen + 1)
    network.o2d2.load_state_dict({name: tensor[chosen] for name, tensor in search.weights.items()})
    return float(eps[search.chosen])


def _epoch(
    search: Search, folds: Sequence[Fold], calibration: Calibration, settings: AbstentionSettings, eps: Tensor,
    usual: Usual | None,
) -> float:  # fmt: skip
    """All candidates over the pairs of an epoch; returns their mean loss."""
    torch_stream(calibration.seed, Stream.O2D2_EPOCH, search.epoch)
    rng = numpy_stream(calibration.seed, Stream.O2D2_EPOCH, search.epoch)
    rate = linear(settings.lr, settings.lr_end, search.epoch / (settings.lr_fall_epochs or settings.epochs))
    search.detectors.train()
    _unsettle(search.detectors)
    losses = []
    for n, pairs in in_turns(folds, calibration, rng, settings.batch):
        judged = judge(folds[n], pairs)
        label = labels(
            judged.p_ual, pairs.same, eps[:, None] * (1.0 if usual is None else usual(scantness(pairs.pair)))
        )
        logit = _logit(search.detectors, judged)
        loss = F.binary_cross_entropy_with_logits(logit, label, reduction="none").mean(1).sum()
        search.optimiser.step(loss, rate)
        losses.append(float(loss.detach()) / len(eps))
    return float(np.mean(losses))
