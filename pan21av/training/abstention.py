"""O2D2: which pairs a member gets wrong or cannot decide, learnt on authors that its scores did not learn from."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..metrics import pan_metrics
from ..network.network import Network
from ..network.scores import O2D2
from ..vote import NON_RESPONSE, vote
from .calibration import Calibration, LabelledPairs
from .optimiser import Optimiser, linear
from .settings import AbstentionSettings
from .stage1 import Log
from .streams import Stream, numpy_stream, torch_stream


def labels(p_ual: Tensor, same: Tensor, eps: Tensor) -> Tensor:
    """Posteriors and truth (1, P), candidates (E) -> (E, P): 1 if the decision is wrong or within eps of a half."""
    wrong = (p_ual > NON_RESPONSE) != same.bool()
    return (wrong | ((p_ual - NON_RESPONSE).abs() <= eps[:, None])).float()


def fit_o2d2(
    network: Network, calibration: Calibration, validation: LabelledPairs, settings: AbstentionSettings, log: Log
) -> float:
    """One detector per candidate eps, trained side by side as if they were members; the best epoch and eps by
    `overall` on validation pairs go into the network. Returns that eps."""
    device = validation.same.device
    eps = torch.linspace(settings.eps_min, settings.eps_max, settings.eps_steps, device=device)
    count = len(eps)
    torch_stream(calibration.seed, Stream.O2D2_WEIGHTS)
    detectors = O2D2(count, network.config.lev_dim).to(device)
    detectors.dropout = settings.dropout
    optimiser = Optimiser(detectors.parameters())
    truth = validation.same[0].bool().cpu().numpy()
    with torch.no_grad():
        scores = network.score(validation.pair)
    p_ual = scores.ual.cpu().numpy().astype(np.float64)
    best, chosen, weights = -1.0, 0, copy.deepcopy(detectors.state_dict())
    for epoch in range(settings.epochs):
        torch_stream(calibration.seed, Stream.O2D2_EPOCH, epoch)
        rng = numpy_stream(calibration.seed, Stream.O2D2_EPOCH, epoch)
        rate = linear(settings.lr, settings.lr_end, epoch / settings.epochs)
        detectors.train()
        losses = []
        for pair, same in calibration.epoch(calibration.for_o2d2, rng, settings.batch):
            with torch.no_grad():
                p, confusion = network.ual(pair, network.bfs(pair))
                label = labels(p, same, eps)
            logit = detectors.logit(pair.expand(count), confusion.expand(count, -1, -1, -1))
            loss = F.binary_cross_entropy_with_logits(logit, label, reduction="none").mean(1).sum()
            optimiser.step(loss, rate)
            losses.append(float(loss.detach()) / count)
        detectors.eval()
        with torch.no_grad():
            undecidable = detectors(validation.pair.expand(count), scores.confusion.expand(count, -1, -1, -1))
        overall = [pan_metrics(truth, vote(p_ual, p[None]).answers)["overall"] for p in undecidable.cpu().numpy()]
        winner = int(np.argmax(overall))
        if overall[winner] > best:
            best, chosen, weights = overall[winner], winner, copy.deepcopy(detectors.state_dict())
        record = {"loss": float(np.mean(losses)), "overall": overall[winner], "eps": float(eps[winner])}
        log({"stage": "o2d2", "epoch": epoch + 1, **record})
    network.o2d2.load_state_dict({name: tensor[chosen : chosen + 1] for name, tensor in weights.items()})
    return float(eps[chosen])
