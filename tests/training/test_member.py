"""One member from seed to finished files, in this process."""

import json

import numpy as np
import pytest
from safetensors.torch import load as parse_safetensors

from pan21av.errors import EnvironmentFault
from pan21av.training.member import HISTORY, RESULT, STAGE_ONE, STAGE_TWO, VALIDATION_SCORES, MemberTask, train_member
from pan21av.training.stage1 import CHECKPOINT
from pan21av.training.stage2 import StageTwo

STAGES = ["contrastive"] * 2 + ["pairs"] * 2 + ["heads"] * 2 + ["o2d2"] * 3


def task_in(folder, corpus) -> MemberTask:
    return MemberTask(2, 5, corpus.prepared.folder, folder, corpus.settings, "cpu")


def stages(task) -> list[str]:
    return [json.loads(line)["stage"] for line in (task.folder / HISTORY).read_bytes().splitlines()]


def test_a_node_without_the_work_folder_says_so(corpus, tmp_path):
    task = MemberTask(1, 5, tmp_path / "nowhere", tmp_path / "member", corpus.settings, "cpu")
    with pytest.raises(EnvironmentFault, match=r"does not see .*nowhere: --work must be on a file system that all"):
        train_member(task)
    assert not task.folder.exists()


@pytest.fixture(scope="module")
def unbroken(corpus, tmp_path_factory) -> MemberTask:
    task = task_in(tmp_path_factory.mktemp("member"), corpus)
    assert train_member(task) == 2
    return task


@pytest.fixture(scope="module")
def resumed(corpus, tmp_path_factory) -> MemberTask:
    """Broken off in stage two, then run again."""
    task = task_in(tmp_path_factory.mktemp("member"), corpus)

    def broken(*_):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StageTwo, "run", broken)
        with pytest.raises(KeyboardInterrupt):
            train_member(task)
    assert (task.folder / STAGE_ONE).exists()
    assert not task.finished
    train_member(task)
    return task


@pytest.mark.slow
def test_what_a_member_leaves(corpus, unbroken):
    assert unbroken.finished
    assert {path.name for path in unbroken.folder.iterdir()} == {
        HISTORY, RESULT, VALIDATION_SCORES, STAGE_ONE, STAGE_TWO, "stage1.json",
    }  # fmt: skip
    assert stages(unbroken) == STAGES
    one, two = (
        {name.partition(".")[0] for name in parse_safetensors((unbroken.folder / file).read_bytes())}
        for file in (STAGE_ONE, STAGE_TWO)
    )
    assert one == {"encoder", "metric", "lda"}
    assert two == {"dml", "bfs", "ual", "o2d2"}
    scores, count = np.load(unbroken.folder / VALIDATION_SCORES), len(corpus.prepared.validation)
    assert {scores[name].shape for name in scores.files} == {(count,)}
    assert {"dml", "bfs", "ual", "o2d2", "distance", "ual@2000", "o2d2@10000"} <= set(scores.files)
    # Cutting texts to more characters than they have changes nothing.
    np.testing.assert_allclose(scores["ual@10000"], scores["ual"], atol=1e-6)
    assert unbroken.result["seed"] == 5
    answers = np.where(scores["o2d2"] >= 0.5, 0.5, scores["ual"])
    assert unbroken.result["validation"]["o2d2"]["non_responses"] == pytest.approx(np.mean(answers == 0.5))


@pytest.mark.slow
def test_broken_off_in_stage_two(unbroken, resumed):
    for file in (STAGE_ONE, STAGE_TWO):
        assert (resumed.folder / file).read_bytes() == (unbroken.folder / file).read_bytes()
    assert resumed.result["validation"] == unbroken.result["validation"]
    assert resumed.result["eps"] == unbroken.result["eps"]
    assert not (resumed.folder / CHECKPOINT).exists()


@pytest.mark.slow
def test_broken_off_in_stage_two_it_remembers_stage_one(resumed):
    """Or the picture of the training has holes, or is missing altogether."""
    assert stages(resumed) == STAGES
