"""Stage one, first part: two documents of each of many authors, every one must find its partner among all others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import InputError
from ..network.layers import Linear
from ..network.network import Network
from ..vote import NON_RESPONSE
from .crops import Crops
from .losses import all_pairs, all_pairs_loss, balanced_accuracy, contrastive_loss, mean_records
from .optimiser import Optimiser, linear
from .prepared import TRAIN, Prepared, Span
from .settings import ContrastiveSettings
from .steps import Steps
from .streams import Stream, numpy_stream
from .topic_probe import TopicProbe

FOLD_DOCUMENTS = 500  # that the standardisation is measured on
DOCUMENTS_PER_BATCH = 64  # where nothing is learnt
MIN_SPANS = 4  # two authors with two documents each


def contrastive_batches(
    prepared: Prepared, settings: ContrastiveSettings, rng: np.random.Generator
) -> Iterator[list[Span]]:
    """Endless batches: two documents each of many authors, all of one source."""
    catalogue, crops = prepared.catalogue, Crops(prepared, rng)
    pools = _pools(prepared)
    weights = np.array([len(pool) for pool in pools], dtype=float) ** settings.source_balance
    while True:
        pool = pools[rng.choice(len(pools), p=weights / weights.sum())]
        order = rng.permutation(len(pool))
        if rng.random() < settings.same_topic:
            # Authors of few topics: what they write about helps less to tell them apart.
            topics = np.array([catalogue.topic[documents[0]] for documents in pool])
            rank = rng.permutation(int(catalogue.topic.max()) + 1)
            order = order[np.argsort(rank[topics[order]], kind="stable")]
        spans: list[Span] = []
        for index in order[: settings.authors]:
            documents = [int(d) for d in rng.permutation(pool[index])]
            partners = [d for d in documents[1:] if catalogue.may_pair(documents[0], d)]
            if rng.random() < settings.cross_topic:
                partners.sort(key=lambda d: catalogue.topic[d] == catalogue.topic[documents[0]])
            if partners:
                for document in (documents[0], partners[0]):
                    spans.append(crops.random(document, settings.min_windows, settings.max_windows))
        if len(spans) >= MIN_SPANS:
            yield spans


def _pools(prepared: Prepared) -> list[list[list[int]]]:
    """For each source the documents of every author who has two that may be paired."""
    catalogue = prepared.catalogue
    by_source: dict[int, dict[int, list[int]]] = {}
    for document in prepared.documents(TRAIN):
        authors = by_source.setdefault(int(catalogue.source[document]), {})
        authors.setdefault(int(catalogue.author[document]), []).append(int(document))
    pools = []
    for authors in by_source.values():
        usable = [d for d in authors.values() if any(catalogue.may_pair(d[0], other) for other in d[1:])]
        if len(usable) > 1:
            pools.append(usable)
    if not pools:
        raise InputError("contrastive training needs two authors of one source with two documents each")
    return pools


def contrastive_epoch(
    network: Network, norm: nn.Module, probe: TopicProbe, optimiser: Optimiser, prepared: Prepared,
    settings: ContrastiveSettings, epoch: int, rng: np.random.Generator, steps: Steps | None = None,
) -> dict[str, float]:  # fmt: skip
    """One epoch; `norm` standardises document vectors, without which they drift. Returns means over its steps."""
    batches = contrastive_batches(prepared, settings, rng)
    device = network.device
    steps = steps or Steps()
    for step in range(steps.begin(rng), settings.steps):
        at = (epoch + step / settings.steps) / settings.epochs
        spans = next(batches)
        batch = prepared.batch(spans, network.config).to(device)
        vectors = norm(network.encode(batch)[0])[None]
        y = network.encoder_part(vectors)[0]
        contrast = contrastive_loss(y, settings.temperature)
        p, same = all_pairs(network.dml, y)
        pairs = all_pairs_loss(p, same)
        topic_loss, topic_accuracy = _probe(probe, vectors, spans, prepared, rng)
        optimiser.step(contrast + settings.dml_weight * pairs + topic_loss, linear(settings.lr, settings.lr_end, at))
        steps.add(
            {
                "loss": contrast.item(),
                "dml_loss": pairs.item(),
                "accuracy": balanced_accuracy(p > NON_RESPONSE, same),
                "topic_accuracy": topic_accuracy,
            }
        )
    return mean_records(steps.records)


def _probe(
    probe: TopicProbe, vectors: Tensor, spans: list[Span], prepared: Prepared, rng: np.random.Generator
) -> tuple[Tensor, float]:
    """Loss and accuracy on every document with one of its topic, and with one of another, by other authors."""
    numbers = [span.document for span in spans]
    topics, authors = prepared.catalogue.topic[numbers], prepared.catalogue.author[numbers]
    pairs = []
    for i in range(len(topics)):
        others = authors != authors[i]
        for candidates in (others & (topics == topics[i]), others & (topics != topics[i])):
            if candidates.any():
                pairs.append((i, int(rng.choice(np.flatnonzero(candidates)))))
    if not pairs:
        return vectors.new_zeros(()), float("nan")
    first, second = np.array(pairs).T
    same = torch.tensor(topics[first] == topics[second], dtype=torch.float32, device=vectors.device)[None]
    loss, said = probe.loss(vectors[:, first], vectors[:, second], same)
    return loss, balanced_accuracy(said, same.bool())


@torch.no_grad()
def standardisation(network: Network, prepared: Prepared, eps: float, seed: int) -> tuple[Tensor, Tensor]:
    """Mean and scale (2H) of document vectors: the mean of all sources, the variance within them.

    A batch is of one source, so what batches leave in the batch-norm depends on the sources of the last few; here it
    is measured anew, on whole texts.
    """
    rng = numpy_stream(seed, Stream.STANDARDISATION)
    crops, device = Crops(prepared, rng), network.device
    documents, source = prepared.documents(TRAIN), prepared.catalogue.source
    sources = np.unique(source[documents])
    means, variances = [], []
    network.eval()
    for number in sources:
        here = documents[source[documents] == number]
        sample = rng.choice(here, min(len(here), max(1, FOLD_DOCUMENTS // len(sources))), replace=False)
        parts = []
        for at in range(0, len(sample), DOCUMENTS_PER_BATCH):
            spans = [crops.whole(int(d)) for d in sample[at : at + DOCUMENTS_PER_BATCH]]
            parts.append(network.encode(prepared.batch(spans, network.config).to(device))[0])
        vectors = torch.cat(parts)
        means.append(vectors.mean(0))
        variances.append(vectors.var(0, unbiased=False))
    return torch.stack(means).mean(0), (torch.stack(variances).mean(0) + eps).rsqrt()


@torch.no_grad()
def fold(metric: Linear, mean: Tensor, scale: Tensor) -> None:
    """Put a standardisation into the metric layer: exactly the same map, no extra layer."""
    metric.bias.sub_((mean * scale) @ metric.weight)
    metric.weight.mul_(scale[:, None])
