"""Kinds of text that a member knows: planted ones are found, others are strange, and one kind is none."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support import TINY_LIGHT

from pan21av.metrics import auc
from pan21av.network.ngram_part import NgramPart
from pan21av.training.fit_kinds import PER_KIND, fit_kinds
from pan21av.training.prepared import TRAIN, Span

FEATURES = 40


def planted(sources: int, each: int, seed: int = 0) -> SimpleNamespace:
    """Documents whose frequencies differ from source to source; the last source is the only one with its habits."""
    rng = np.random.default_rng(seed)
    usual = rng.uniform(0.01, 0.05, FEATURES)
    habits = 1 + 0.6 * rng.standard_normal((sources, FEATURES)).clip(-1, 1)
    source = np.repeat(np.arange(sources), each)
    frequencies = usual * habits[source] * rng.gamma(20, 1 / 20, (len(source), FEATURES))
    return SimpleNamespace(
        frequencies=frequencies.astype(np.float32),
        catalogue=SimpleNamespace(source=source),
        known=np.ones(sources, dtype=bool),
        model=SimpleNamespace(max_tokens=1000),
        documents=lambda split: np.arange(len(source)) if split == TRAIN else np.array([], dtype=int),
        count_ngrams=lambda spans: (
            frequencies.astype(np.float32)[[span.document for span in spans]],
            np.full(len(spans), 1000),
        ),
    )


def part_of(prepared, kinds: int) -> NgramPart:
    part = NgramPart(1, replace(TINY_LIGHT, ngram_features=FEATURES, ngram_dim=2, kinds=kinds))
    roots = torch.from_numpy(prepared.frequencies).sqrt()
    part.index[0] = torch.arange(FEATURES)
    part.background[0] = torch.from_numpy(prepared.frequencies.mean(0))
    part.mean[0], part.scale[0] = roots.mean(0), 1 / roots.std(0)
    return part


def strangeness(part, prepared, documents) -> np.ndarray:
    counted = torch.from_numpy(prepared.frequencies[documents])
    return part(counted, torch.full((len(documents),), 1000.0))[0, :, -1].numpy()


def test_kinds_that_were_not_in_training_are_strange():
    prepared = planted(6, 60)
    prepared.known[4:] = False
    part = part_of(prepared, 4)
    fit_kinds(part, prepared, 1)
    new = np.arange(6 * 60)
    found = strangeness(part, prepared, new)
    known = prepared.known[prepared.catalogue.source]
    assert auc(~known, found) > 0.95
    # In deviations of texts of one kind: so of three directions, a known text is at about the root of three.
    assert np.sqrt(np.square(found[known]).mean()) == pytest.approx(np.sqrt(3), rel=0.25)


def test_every_centre_is_the_mean_of_a_kind():
    prepared = planted(3, 30)
    part = part_of(prepared, 3)
    fit_kinds(part, prepared, 1)
    z = part.z_scores(torch.from_numpy(prepared.frequencies), torch.full((90,), 1000.0))[0]
    there = z @ part.kinds.weight[0]
    for kind in range(3):
        mean = there[30 * kind : 30 * kind + 30].mean(0)
        torch.testing.assert_close(part.kinds.centres[0, kind], mean, atol=1e-3, rtol=1e-3)


def test_a_large_source_does_not_decide():
    """No more than so many documents of each are looked at."""
    prepared = planted(2, PER_KIND + 100)
    seen = []
    count = prepared.count_ngrams

    def count_ngrams(spans: list[Span]) -> tuple[np.ndarray, np.ndarray]:
        seen.extend(span.document for span in spans)
        return count(spans)

    prepared.count_ngrams = count_ngrams
    fit_kinds(part_of(prepared, 2), prepared, 1)
    assert np.bincount(prepared.catalogue.source[seen]).tolist() == [PER_KIND, PER_KIND]


def test_one_kind_is_none():
    prepared = planted(2, 20)
    prepared.known[1] = False
    part = part_of(prepared, 2)
    fit_kinds(part, prepared, 1)
    assert strangeness(part, prepared, np.arange(40)).tolist() == [0] * 40


def test_a_source_without_training_texts_takes_nothing_away():
    prepared = planted(4, 30)
    every = prepared.documents
    prepared.documents = lambda split: every(split)[:90]
    part, fewer = part_of(prepared, 4), part_of(prepared, 3)
    for each in (part, fewer):
        fit_kinds(each, prepared, 1)
    np.testing.assert_allclose(*(strangeness(p, prepared, np.arange(120)) for p in (part, fewer)), rtol=1e-6)
