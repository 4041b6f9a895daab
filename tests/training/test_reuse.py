"""Members of an earlier ensemble taken over, or their stage one: only what would come out the same."""

import json
from pathlib import Path

import numpy as np
import pytest
from support import FITTED, TINY, random_network, small, tiny_vocabulary

from pan21av.data.tokeniser import DEFAULT
from pan21av.network.checkpoint import member_files, save_ensemble
from pan21av.training import reuse as module
from pan21av.training.member import RESULT, STAGE_ONE, MemberTask, finished_files, fitted
from pan21av.training.stage1 import CHECKPOINT
from pan21av.training.tables import SCORES_FILE

SETTINGS = small()
SEEDS = (11, 22, 33)


def identity(settings=SETTINGS, **changes):
    return {"settings": settings.to_dict(), "seed": 1, "corpus": "c0ffee", **changes}


@pytest.fixture
def ensemble(tmp_path) -> Path:
    """Three members that look as if they had been trained."""
    state = random_network(3).state_dict()
    scores = np.arange(3 * 4).reshape(3, 4) / 16  # as many bits as they are stored with
    np.savez(tmp_path / "scores.npz", ual=scores, o2d2=1 - scores)
    save_ensemble(
        tmp_path / "old", config=TINY, tokeniser=DEFAULT, vocabulary=tiny_vocabulary(),
        members=[member_files({n: t[m] for n, t in state.items()}, FITTED) for m in range(3)],
        entries=[{"seed": seed, "eps": 0.1, "validation": {"ual": m}, "seconds": 5.0} for m, seed in enumerate(SEEDS)],
        info={"training": identity()}, extra={SCORES_FILE: (tmp_path / "scores.npz").read_bytes()},
    )  # fmt: skip
    return tmp_path / "old"


def reuse(tasks, ensemble, identity, vocabulary=None):
    return module.reuse(tasks, ensemble, identity, vocabulary or tiny_vocabulary().sha256)


def test_of_another_vocabulary_nothing(ensemble, tmp_path):
    """As another way of reading texts leaves it."""
    assert reuse(tasks(tmp_path), ensemble, identity(), "another") == (0, 0)


def tasks(tmp_path, settings=SETTINGS, seeds=SEEDS):
    return [
        MemberTask(n, seed, tmp_path / "prepared", tmp_path / "work" / f"member-{n:02d}", settings, "cpu", (0,))
        for n, seed in enumerate(seeds, 1)
    ]


def test_whole_members(ensemble, tmp_path):
    """Their files, their results, and what they said of the validation pairs; more can be trained beside them."""
    wanted = tasks(tmp_path, seeds=(*SEEDS, 44, 55))
    assert reuse(wanted, ensemble, identity()) == (3, 0)
    assert [task.finished for task in wanted] == [True] * 3 + [False] * 2
    for m, task in enumerate(wanted[:3]):
        for stage, data in finished_files(task).items():
            assert data == (ensemble / f"member-{m + 1:02d}.{stage}.safetensors").read_bytes()
        assert task.result == {"eps": 0.1, "validation": {"ual": m}, "seed": SEEDS[m], "seconds": 5.0}
        found = np.load(task.folder / "validation.npz")
        np.testing.assert_array_equal(found["ual"], np.arange(4 * m, 4 * m + 4) / 16)
    assert reuse(wanted, ensemble, identity()) == (0, 0)  # they are there already


def test_of_an_older_format_stage_one_alone(ensemble, tmp_path):
    """Its scores may read what ours do not."""
    manifest = json.loads((ensemble / "ensemble.json").read_text())
    manifest["format"] -= 1
    (ensemble / "ensemble.json").write_text(json.dumps(manifest))
    assert reuse(tasks(tmp_path), ensemble, identity()) == (0, 3)


def test_stage_one_under_other_settings_of_stage_two(ensemble, tmp_path):
    settings = small("heads.lr=0.5", "calibration.cohort=9", "abstention.epochs=1")
    wanted = tasks(tmp_path, settings)
    assert reuse(wanted, ensemble, identity(settings)) == (0, 3)
    for n, task in enumerate(wanted, 1):
        assert not task.finished
        expected = (ensemble / f"member-{n:02d}.stage1.safetensors").read_bytes()
        assert (task.folder / STAGE_ONE).read_bytes() == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 2},
        {"corpus": "other"},
        {"settings": small("pairs.lr=0.5")},
        {"settings": small("model.encoder_dim=11")},
        {"settings": small("model.ngram_dim=5")},
        {"settings": small("ngrams.words=30")},
        {"settings": small("data.source_share=0.5")},
    ],
)
def test_what_would_come_out_otherwise_is_not_taken(ensemble, tmp_path, changes):
    wanted = tasks(tmp_path, changes.get("settings", SETTINGS))
    assert reuse(wanted, ensemble, identity(**changes)) == (0, 0)
    assert not (tmp_path / "work").exists()


def test_scores_of_stage_one_are_no_scores_of_stage_two(ensemble, tmp_path):
    """With heads.epochs 0 the scores are stage one's own and lie in its file: such files are not exchanged."""
    settings = small("heads.epochs=0", "calibration.cohort=0")
    assert fitted(SETTINGS) == FITTED
    assert fitted(settings) == ("o2d2.",)
    assert settings.stage_one == SETTINGS.stage_one
    assert reuse(tasks(tmp_path, settings), ensemble, identity(settings)) == (0, 0)


def test_only_members_that_are_whole_and_not_begun(ensemble, tmp_path):
    wanted = tasks(tmp_path, seeds=(11, 99, 33))
    (ensemble / "member-01.stage2.safetensors").write_bytes(b"damaged")
    assert reuse(wanted, ensemble, identity()) == (1, 0)  # 11 is damaged, 99 is another
    assert [task.finished for task in wanted] == [False, False, True]
    begun = tasks(tmp_path / "begun")
    begun[2].folder.mkdir(parents=True)
    (begun[2].folder / CHECKPOINT).write_bytes(b"")  # more is done here than a stage one could give
    assert reuse(begun, ensemble, identity()) == (1, 0)
    assert [task.finished for task in begun] == [False, True, False]


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "ensemble.json").unlink(),
        lambda folder: (folder / "ensemble.json").write_text("{"),
        lambda folder: (folder / "ensemble.json").write_text('{"format": 1, "recipe": "pan21av-1"}'),
        lambda folder: (folder / "member-01.stage1.safetensors").unlink(),
        lambda folder: (folder / SCORES_FILE).unlink(),
    ],
)
def test_no_ensemble_of_ours(ensemble, tmp_path, change):
    change(ensemble)
    assert reuse(tasks(tmp_path), ensemble, identity())[0] == 0
    assert not list(tmp_path.glob(f"work/*/{RESULT}"))


def test_settings_of_the_first_format_are_not_understood(ensemble, tmp_path):
    """Flat names: an ensemble of pan21av 0.1 lies where the new one goes."""
    info = json.loads((ensemble / "ensemble.json").read_text())
    info["training"]["settings"] = {"lr": 0.001, "epochs": 3, "lev_dim": 9}
    (ensemble / "ensemble.json").write_text(json.dumps(info))
    assert reuse(tasks(tmp_path), ensemble, identity()) == (0, 0)
