"""The ensemble in models/default, if it has been trained already."""

import json
from pathlib import Path

import pytest

from pan21av.checkpoint import find_ensemble, load_ensemble
from pan21av.predict import predict

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "models" / "default").exists(), reason="no ensemble is shipped")


def read(path):
    return {entry["id"]: entry for entry in map(json.loads, path.read_text("utf-8").splitlines())}


def test_it_is_found_and_whole():
    assert find_ensemble() == ROOT / "models" / "default"
    ensemble = load_ensemble(find_ensemble())
    assert ensemble.members.count % 2 == 1
    assert ensemble.members.config.word_dim == 100


def test_examples(tmp_path):
    """Clearly different voices: whatever is answered should mostly be right."""
    predict(str(ROOT / "examples"), tmp_path)
    answers, truth = read(tmp_path / "answers.jsonl"), read(ROOT / "examples" / "truth.jsonl")
    assert list(answers) == list(truth)
    decided = [i for i in truth if answers[i]["value"] != 0.5]
    right = [i for i in decided if (answers[i]["value"] > 0.5) == truth[i]["same"]]
    assert len(decided) >= 5
    assert len(right) >= 0.8 * len(decided)


def test_example_texts_are_long_enough():
    lines = (ROOT / "examples" / "pairs.jsonl").read_text("utf-8").splitlines()
    assert len(lines) >= 8
    assert all(len(text.split()) >= 600 for line in lines for text in json.loads(line)["pair"])
