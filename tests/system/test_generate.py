"""The generator of PAN's format: deterministic, as asked for, and with authors whom their habits tell apart."""

import json
import sys

import generate
import memory
import numpy as np
import pytest
from support import HANGS

from pan21av.metrics import auc
from pan21av.training.corpus import read_corpus


def rows(path):
    return [json.loads(line) for line in path.open(encoding="utf-8")]


@pytest.fixture(scope="module")
def pan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated")
    generate.write(folder, 120, authors=30, topics=20, characters=3000)
    return folder


def test_files_of_pan(pan):
    pairs, truth = rows(pan / "pairs.jsonl"), rows(pan / "truth.jsonl")
    assert len(pairs) == len(truth) == 120
    for trial, answer in zip(pairs, truth, strict=True):
        assert trial["id"] == answer["id"]
        assert answer["same"] == (answer["authors"][0] == answer["authors"][1])
        assert [len(text) for text in trial["pair"]] == [3000, 3000]
    same = np.array([answer["same"] for answer in truth])
    assert 0.3 < same.mean() < 0.7
    within = np.array([len(set(trial["fandoms"])) == 1 for trial in pairs])
    assert not within[same].any(), "as in PAN20, an author's two texts are of two topics"
    assert 0.2 < within[~same].mean() < 0.9
    assert len(list(read_corpus([pan]))) == 240


def test_a_seed_is_a_corpus_and_a_larger_one_begins_with_a_smaller(pan):
    options = {"authors": 30, "topics": 20, "characters": 3000}
    written = list(zip(rows(pan / "pairs.jsonl"), rows(pan / "truth.jsonl"), strict=True))
    assert list(generate.trials(7, **options)) == written[:7]
    other = next(generate.trials(1, **options, seed=2))
    assert other[0]["pair"] != written[0][0]["pair"]


def test_habits_tell_authors_apart(pan):
    """By the function words alone, without any learning: whoever reads them can do it."""

    def usage(text):
        words = text.split()
        return np.sqrt([words.count(word) / len(words) for word in generate.FUNCTION_WORDS])

    trials = rows(pan / "pairs.jsonl")
    distance = [np.square(usage(one) - usage(other)).sum() for one, other in (trial["pair"] for trial in trials)]
    same = np.array([answer["same"] for answer in rows(pan / "truth.jsonl")])
    assert auc(same, -np.array(distance)) > 0.95


def test_memory_of_a_preparation(tmp_path):
    result = memory.measure_preparation(300, tmp_path, characters=1000)
    assert 100 < result["MiB"] < 3 * 1024
    assert result["core_seconds"] > 0
    assert (tmp_path / "work" / "prepared" / "manifest.json").exists()


def test_a_long_run_is_measured_for_a_while():
    result = memory.run([sys.executable, "-c", f"import time; time.sleep({HANGS})"], seconds=0.1)
    assert 0 < result["MiB"] < 100
    assert result["seconds"] < HANGS
