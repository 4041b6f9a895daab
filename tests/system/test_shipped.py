"""The ensemble in models/default: what a user gets who names no other."""

import hashlib
import json
import random

import pytest
from safetensors import safe_open
from support import ROOT

from pan21av.commands.predict import predict
from pan21av.network.checkpoint import find_ensemble, load_ensemble
from pan21av.training.card import model_card
from pan21av.training.limits import min_tokens
from pan21av.training.settings import load_settings
from pan21av.verifier import Verifier

FOLDER = ROOT / "models" / "default"
N_MEMBERS = 21
BESIDE = {
    "MODEL_CARD.md", "REPORT.md", "training.png", "reliability.png", "figure3.png", "figure4.png",
    "validation_pairs.json", "validation_scores.npz", "calibration_pairs.json", "history.json",
}  # fmt: skip
PARTS = {
    "stage1": {"encoder", "metric", "ngrams", "layout"},
    "stage2": {"o2d2", "dml", "bfs", "ual", "cohort", "part_scale", "ngrams"},
}


def read(path):
    return {entry["id"]: entry for entry in map(json.loads, path.read_text("utf-8").splitlines())}


@pytest.fixture(scope="module")
def manifest():
    """As it is written, not as the package reads it."""
    return json.loads((FOLDER / "ensemble.json").read_text("utf-8"))


def test_it_is_found_and_loads(manifest):
    assert find_ensemble().samefile(FOLDER)
    network = load_ensemble(find_ensemble()).network
    assert network.n_members == len(manifest["members"]) == N_MEMBERS
    assert network.config.to_dict() == manifest["model"]


def test_every_file_is_listed_and_what_it_was(manifest):
    """Nothing is missing, changed, or left over from an earlier training."""
    listed = {member[stage]["file"]: member[stage]["sha256"] for member in manifest["members"] for stage in PARTS}
    assert len(listed) == 2 * N_MEMBERS, "members share a file"
    listed["vocab.json"] = manifest["vocabulary"]["sha256"]
    assert {path.name for path in FOLDER.iterdir()} == {*listed, "ensemble.json", *BESIDE}
    hashes = {name: hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() for name in listed}
    assert hashes == listed


def test_members_are_different_trainings(manifest):
    """The same member twice would pass every other check, and vote twice."""
    assert len({member["seed"] for member in manifest["members"]}) == N_MEMBERS
    for stage in PARTS:
        assert len({member[stage]["sha256"] for member in manifest["members"]}) == N_MEMBERS


@pytest.mark.parametrize("stage", PARTS)
def test_each_stage_keeps_its_own_tensors(manifest, stage):
    """Stage one can be reused under a new stage two only if neither file holds what is the other's."""
    for member in manifest["members"]:
        with safe_open(FOLDER / member[stage]["file"], "pt") as file:
            assert {name.partition(".")[0] for name in file.keys()} == PARTS[stage]  # noqa: SIM118, not a dict


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


def test_it_was_made_by_the_shipped_recipe(manifest):
    """The settings that `pan21av train` takes by default are its own, and so is what it asks of a text."""
    settings = load_settings()
    assert manifest["training"]["settings"] == settings.to_dict()
    assert manifest["limits"]["min_tokens"] == min_tokens(settings)
    card = (FOLDER / "MODEL_CARD.md").read_text("utf-8")
    assert card == model_card(manifest, (ROOT / "models" / "default.md").read_text("utf-8"))
    assert f"fewer than {min_tokens(settings)} tokens" in card


def test_200_pairs_across_ten_languages():
    """Every two of them, and each with English either way round: all 0.5, each with its reason."""
    languages = json.loads((ROOT / "tests" / "data" / "languages.json").read_text("utf-8"))
    rng = random.Random(1)
    texts = [[" ".join(rng.choices(said, k=60)) for _ in range(2)] for said in languages.values()]
    english = json.loads((ROOT / "examples" / "pairs.jsonl").read_text("utf-8").splitlines()[0])["pair"]
    pairs = [(one[0], other[1]) for one in texts for other in texts]
    pairs += [pair for said in texts for text in said for e in english for pair in ((text, e), (e, text))]
    pairs += [(said[n], said[1 - n]) for said in texts for n in (0, 1)]
    assert len(texts) == 10
    assert len(pairs) == 200
    for verdict in Verifier.load().predict(pairs):
        kinds = {note.kind for note in verdict.notes}
        assert verdict.probability == 0.5
        assert "language" in kinds
        assert "too short" not in kinds  # which would be a reason, but not this one


@pytest.mark.parametrize("characters", [60, 300])
def test_a_few_words_say_next_to_nothing(characters):
    """The examples, cut: no answer farther than 0.15 from a half."""
    lines = (ROOT / "examples" / "pairs.jsonl").read_text("utf-8").splitlines()
    pairs = [tuple(text[:characters] for text in json.loads(line)["pair"]) for line in lines]
    for verdict in Verifier.load().predict(pairs):
        assert abs(verdict.probability - 0.5) <= 0.15
