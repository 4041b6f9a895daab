"""Stage one as in the paper: pairs, and the joint loss DML + BFS + UAL."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from ..network.embedding import EmbeddingPair
from ..network.network import Network
from ..vote import NON_RESPONSE
from .crops import Crops
from .losses import accuracy, dml_loss, head_losses, mean_records
from .optimiser import Optimiser, linear
from .prepared import TRAIN, Prepared
from .sampling import per_source
from .settings import PairSettings
from .steps import Steps
from .topic_probe import TopicProbe


def pair_epoch(
    network: Network, norm: nn.Module, probe: TopicProbe, optimiser: Optimiser, prepared: Prepared,
    settings: PairSettings, epoch: int, rng: np.random.Generator, steps: Steps | None = None,
) -> dict[str, float]:  # fmt: skip
    """One epoch over pairs drawn anew; returns their number and means over its steps.

    `norm` goes on standardising document vectors where contrast began with it: without it, pairs undo what contrast
    has learnt (models/NOTEBOOK.md).
    """
    catalogue, crops = prepared.catalogue, Crops(prepared, rng)
    device = network.device
    pairs = prepared.draw("training", prepared.documents(TRAIN), rng)
    pairs = per_source(catalogue, pairs, settings.per_source)
    rate = linear(settings.lr, settings.lr_end, epoch / max(1, settings.lr_fall_epochs))
    steps = steps or Steps()
    for at in range(steps.begin(rng) * settings.batch, len(pairs), settings.batch):
        part = pairs[at : at + settings.batch]
        first, second = slice(0, len(part)), slice(len(part), None)
        same = torch.tensor(catalogue.same_author(part), dtype=torch.float32, device=device)[None]
        topic = torch.tensor(catalogue.same_topic(part), dtype=torch.float32, device=device)[None]
        spans = [crops.for_pair(int(d), settings) for d in part.T.flatten()]
        whose = torch.arange(len(part), device=device).repeat(2)
        vectors = norm(network.encode(prepared.batch(spans, network.config).to(device), whose)[0])[None]
        y = network.encoder_part(vectors, whose)
        pair = EmbeddingPair.of(y[:, first], y[:, second])
        dml = dml_loss(network.dml(pair), same, settings)
        bfs, ual, p_ual = head_losses(network, pair, same, settings.ual_beta)
        topic_loss, topic_said = probe.loss(vectors[:, first], vectors[:, second], topic)
        optimiser.step(dml + bfs + ual + topic_loss, rate)
        steps.add(
            {
                "dml_loss": dml.item(),
                "bfs_loss": bfs.item(),
                "ual_loss": ual.item(),
                "accuracy": accuracy(p_ual > NON_RESPONSE, same.bool()),
                "topic_accuracy": accuracy(topic_said, topic.bool()),
                "topic_share": topic.mean().item(),
            }
        )
    means = mean_records(steps.records)
    if means.get("topic_share") in (0.0, 1.0):  # where all topics are alike, nothing can be said of them
        del means["topic_accuracy"], means["topic_share"]
    return {"pairs": len(pairs), **means}
