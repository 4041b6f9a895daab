"""Killed between any two steps of an epoch, or after any epoch of O2D2, and resumed: the same weights."""

import random

import pytest
import torch

from pan21av.training import abstention, contrastive, member, pairs, stage1, steps
from pan21av.training.member import HISTORY, STAGE_ONE, STAGE_TWO, MemberTask, train_member
from pan21av.training.settings import PRESETS
from pan21av.training.stage1 import CHECKPOINT, StageOne
from pan21av.training.steps import Steps

CPU = torch.device("cpu")


class Killed(Exception):
    pass


@pytest.fixture(autouse=True)
def _after_every_step(monkeypatch):
    """A checkpoint is due whenever one may be taken, instead of every few minutes."""
    monkeypatch.setattr(steps, "SECONDS", 0)


def test_a_checkpoint_is_due_every_few_minutes(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(steps, "SECONDS", 240)
    monkeypatch.setattr(steps.time, "monotonic", lambda: now[0])
    due, found = steps.Due(), []
    for _ in range(12):
        now[0] += 100
        found.append(due())
    assert found == [False, False, True] * 4


def settings_of(corpus, per):
    """Contrast and pairs; with masks per pair as published."""
    paper = PRESETS["paper"]
    if per == "batch":
        return corpus.settings.updated({"dropout": {"lstm": 0.1, "metric": 0.2}})
    pairs = {"init": "published", "clip_per": "gate", "epochs": 2}
    return corpus.settings.updated({"dropout": vars(paper.dropout), "pairs": pairs, "contrastive": {"epochs": 0}})


def run(corpus, settings, folder, kill_at=None):
    """Stage one; killed after so many steps of this run."""
    count, real = [0], Steps.add

    def add(self, record):
        real(self, record)
        count[0] += 1
        if count[0] == kill_at:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Steps, "add", add)
        network = StageOne(corpus.prepared, settings, 5, CPU).run(folder, lambda record: None)
    return network.state_dict(), count[0]


@pytest.mark.slow
@pytest.mark.parametrize("per", ["batch", "pair"])
def test_killed_at_random_steps(corpus, tmp_path, per):
    settings = settings_of(corpus, per)
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    expected, steps_in_all = run(corpus, settings, tmp_path / "whole")
    rng, done, kills = random.Random(per), 0, 0
    while True:
        at = rng.randint(1, 4)
        try:
            found, last = run(corpus, settings, tmp_path / "killed", at)
            break
        except Killed:
            assert (tmp_path / "killed" / CHECKPOINT).exists()
            done, kills = done + at, kills + 1
    assert kills >= 2
    assert done + last == steps_in_all, "a step was done twice, or left out"
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor), name


@pytest.mark.slow
def test_killed_in_stage_two(corpus, tmp_path, monkeypatch):
    """After every epoch of O2D2, and while texts are embedded."""
    settings = corpus.settings.updated({"calibration": {"cohort": 6}, "abstention": {"clip": 5.0}})
    tasks = {
        name: MemberTask(2, 5, corpus.prepared.folder, tmp_path / name, settings, "cpu", (0, 1))
        for name in ("whole", "killed")
    }
    monkeypatch.setattr(stage1, "DOCUMENTS_PER_BATCH", 16)  # so that there are several batches
    train_member(tasks["whole"])
    embedded, real_write = [], stage1.write_tensors

    def write(path, content):
        real_write(path, content)
        embedded.append(path.name)
        if len(embedded) == 2:
            raise Killed

    monkeypatch.setattr(stage1, "write_tensors", write)
    with pytest.raises(Killed):
        train_member(tasks["killed"])
    assert embedded == ["views-calibration.pt"] * 2
    epochs, real_epoch = [], abstention._epoch

    def epoch(search, *args):
        if len(epochs) < 2 and search.epoch == len(epochs) + 1:
            epochs.append(search.epoch)
            raise Killed
        return real_epoch(search, *args)

    monkeypatch.setattr(abstention, "_epoch", epoch)
    for _ in range(2):
        with pytest.raises(Killed):
            train_member(tasks["killed"])
    assert epochs == [1, 2]
    train_member(tasks["killed"])
    for file in (STAGE_ONE, STAGE_TWO):
        one, other = ((task.folder / file).read_bytes() for task in tasks.values())
        assert one == other, file
    one, other = (task.result for task in tasks.values())
    assert one["validation"] == other["validation"]
    assert len((tasks["killed"].folder / HISTORY).read_bytes().splitlines()) == 2 + 2 + 2 + 3
    assert not [path for path in tasks["killed"].folder.iterdir() if path.suffix == ".pt"]


def test_whoever_learns_in_steps_can_be_resumed():
    """Both epochs of stage one count their steps through it."""
    assert pairs.Steps is contrastive.Steps is stage1.Steps is Steps
    assert set(member.CHECKPOINTS) == {"stage2.pt", "views-calibration.pt", "views-validation.pt"}
