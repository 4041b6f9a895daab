"""Stage one as in the paper: pairs, and the joint loss DML + BFS + UAL."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from ..network.embedding import EmbeddingPair
from ..network.network import Network
from ..vote import NON_RESPONSE
from .crops import Crops
from .losses import balanced_accuracy, dml_loss, head_losses, mean_records
from .optimiser import Optimiser, linear
from .prepared import TRAIN, Prepared
from .sampling import per_source
from .settings import PairSettings
from .topic_probe import TopicProbe


def pair_epoch(
    network: Network, norm: nn.Module, probe: TopicProbe, optimiser: Optimiser, prepared: Prepared,
    settings: PairSettings, epoch: int, rng: np.random.Generator,
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
    records = []
    for at in range(0, len(pairs), settings.batch):
        part = pairs[at : at + settings.batch]
        first, second = slice(0, len(part)), slice(len(part), None)
        same = torch.tensor(catalogue.same_author(part), dtype=torch.float32, device=device)[None]
        topic = torch.tensor(catalogue.same_topic(part), dtype=torch.float32, device=device)[None]
        spans = [crops.for_pair(int(d), settings) for d in part.T.flatten()]
        vectors = norm(network.encode(prepared.batch(spans, network.config).to(device))[0])[None]
        y = network.encoder_part(vectors)
        pair = EmbeddingPair.of(y[:, first], y[:, second])
        p_dml = network.dml(pair)
        dml = dml_loss(p_dml, same, settings)
        bfs, ual = head_losses(network, pair, same, settings.ual_beta)
        topic_loss, topic_said = probe.loss(vectors[:, first], vectors[:, second], topic)
        optimiser.step(dml + bfs + ual + topic_loss, rate)
        records.append(
            {
                "dml_loss": dml.item(),
                "bfs_loss": bfs.item(),
                "ual_loss": ual.item(),
                "accuracy": ((p_dml > NON_RESPONSE) == same.bool()).float().mean().item(),
                "topic_accuracy": balanced_accuracy(topic_said, topic.bool()),
            }
        )
    return {"pairs": len(pairs), **mean_records(records)}
