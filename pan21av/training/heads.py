"""The scores begin anew on authors that the encoder never saw: their posteriors must hold for those."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional as F

from ..network.network import Network
from .calibration import Calibration, LabelledPairs
from .fit_dml import fit_dml
from .fit_plda import fit_plda
from .fit_ual import fit_ual
from .losses import head_losses
from .optimiser import Optimiser, linear
from .settings import HeadSettings
from .stage1 import Log
from .streams import Stream, numpy_stream, torch_stream

FITTED_DRAWS, HELD_OUT_DRAWS = 12, 6  # of pairs that scores are fitted to, and compared on
LR_FALL = 10  # times


def fit_heads(
    network: Network, calibration: Calibration, settings: HeadSettings, log: Log,
    figures: Callable[[], dict[str, float]],
) -> None:  # fmt: skip
    """DML, BFS and UAL: fitted outright as far as they can be, then all weights gently by their own losses.

    `figures` are what is logged after every epoch; nothing is chosen by them.
    """
    held_out = calibration.draw_many(calibration.for_o2d2, HELD_OUT_DRAWS, Stream.HELD_OUT_PAIRS)
    _fit_starts(network, calibration, held_out)

    @torch.no_grad()
    def held_out_loss() -> float:
        return float(F.binary_cross_entropy(network.score(held_out.pair).ual, held_out.same))

    best, chosen = held_out_loss(), copy.deepcopy(network.state_dict())
    learning = [p for name, p in network.ual.named_parameters() if p.requires_grad and not name.startswith("kind")]
    optimiser = Optimiser([*network.bfs.parameters(), *learning])
    network.bfs.dropout = network.ual.dropout = settings.dropout
    for epoch in range(settings.epochs):
        torch_stream(calibration.seed, Stream.HEAD_EPOCH, epoch)
        rng = numpy_stream(calibration.seed, Stream.HEAD_EPOCH, epoch)
        rate = linear(settings.lr, settings.lr / LR_FALL, epoch / settings.epochs)
        network.train()
        losses = []
        for pair, same, _ in calibration.epoch(calibration.for_scores, rng, settings.batch):
            bfs, ual, _ = head_losses(network, pair, same, settings.ual_beta)
            optimiser.step(bfs + ual, rate)
            losses.append(float((bfs + ual).detach()))
        network.eval()
        now = held_out_loss()
        if now < best:
            best, chosen = now, copy.deepcopy(network.state_dict())
        record = {"loss": float(np.mean(losses)), "held_out_loss": now, **figures()}
        log({"stage": "heads", "epoch": epoch + 1, **record})
    network.load_state_dict(chosen)
    if network.ual.sharpen is not None:
        with torch.no_grad():
            network.ual.sharpen.fill_(settings.sharpen)


def _fit_starts(network: Network, calibration: Calibration, held_out: LabelledPairs) -> None:
    views, catalogue, mine = calibration.views, calibration.prepared.catalogue, calibration.for_scores
    numbers = np.tile(mine, views.n_views)
    rows = views.rows(numbers, np.repeat(np.arange(views.n_views), len(mine)))
    levs = views.embedding.vectors[0, rows]
    pairs = calibration.draw_many(mine, FITTED_DRAWS, Stream.HEAD_PAIRS)
    fit_plda(network.bfs, levs, catalogue.author[numbers], catalogue.source[numbers], held_out)
    fit_dml(network.dml, pairs)
    if network.ual.told is not None:
        fit_ual(network.ual, network.bfs, pairs, held_out)
