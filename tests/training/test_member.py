"""One member from seed to finished files, in this process."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load as parse_safetensors

from pan21av.errors import EnvironmentFault
from pan21av.network.checkpoint import stack_members
from pan21av.training.member import (
    HISTORY,
    RESULT,
    STAGE_ONE,
    STAGE_TWO,
    VALIDATION_SCORES,
    MemberTask,
    full_model,
    train_member,
)
from pan21av.training.prepared import CALIBRATE, TRAIN, Prepared
from pan21av.training.stage1 import CHECKPOINT
from pan21av.training.stage2 import StageTwo

STAGES = ["contrastive"] * 2 + ["pairs"] * 2 + ["heads"] * 2 + ["o2d2"] * 3


def task_in(folder, corpus, sources=(0, 1), **changes) -> MemberTask:
    settings = corpus.settings.updated({"calibration": {"cohort": 6}}).updated(changes)
    return MemberTask(2, 5, corpus.prepared.folder, folder, settings, "cpu", sources)


def stages(task) -> list[str]:
    return [json.loads(line)["stage"] for line in (task.folder / HISTORY).read_bytes().splitlines()]


def test_a_node_without_the_work_folder_says_so(corpus, tmp_path):
    task = MemberTask(1, 5, tmp_path / "nowhere", tmp_path / "member", corpus.settings, "cpu", (0, 1))
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
    assert one == {"encoder", "metric", "ngrams", "layout"}
    assert two == {"dml", "bfs", "ual", "o2d2", "cohort", "part_scale", "ngrams"}
    scores, count = np.load(unbroken.folder / VALIDATION_SCORES), len(corpus.prepared.validation)
    others = ("calibration_", "fold_")
    of_validation = [name for name in scores.files if not name.startswith(others) and "*" not in name]
    assert {scores[name].shape for name in of_validation} == {(count,)}
    assert {"dml", "bfs", "ual", "o2d2", "distance_layout", "ual@2000", "o2d2@10000", "ual+30"} <= set(scores.files)
    # Cutting texts to more characters than they have changes nothing.
    np.testing.assert_allclose(scores["ual@10000"], scores["ual"], atol=1e-6)
    assert unbroken.result["seed"] == 5
    assert unbroken.result["sources"] == ["a", "b"]
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


@pytest.mark.slow
def test_its_files_are_a_member_that_can_be_loaded(corpus, unbroken):
    """Both files together have every tensor, in the shapes of the model that is shipped."""
    state = {}
    for file in (STAGE_ONE, STAGE_TWO):
        state |= {
            name: tensor.float() if tensor.is_floating_point() else tensor
            for name, tensor in parse_safetensors((unbroken.folder / file).read_bytes()).items()
        }
    model = full_model(unbroken.settings, corpus.prepared)
    assert (model.cohort, model.ngram_dim, model.layout_dim) == (6, 4, 3)
    network = stack_members(model, corpus.prepared.vocabulary, [state])
    where = corpus.prepared.vocabulary.ngrams.views["layout"]
    for part, first, last in ((network.ngrams, 0, where.start), (network.layout, where.start, where.stop)):
        assert torch.equal(part.index[0], part.index[0].sort().values)
        assert first <= part.index.min() < part.index.max() < last
        assert part.weight.any()
    assert network.cohort.texts.any()


@pytest.mark.slow
def test_a_member_without_an_encoder(corpus, tmp_path):
    """Nothing is left to train by gradients in stage one."""
    task = task_in(tmp_path, corpus, model={"encoder_dim": 0})
    train_member(task)
    assert stages(task) == ["heads"] * 2 + ["o2d2"] * 3
    names = {
        file: {name.partition(".")[0] for name in parse_safetensors((task.folder / file).read_bytes())}
        for file in (STAGE_ONE, STAGE_TWO)
    }
    assert names == {
        STAGE_ONE: {"ngrams", "layout"},
        STAGE_TWO: {"dml", "bfs", "ual", "o2d2", "cohort", "part_scale", "ngrams"},
    }
    assert task.result["validation"]["dml"]["auc"] > 0.6  # habits show in n-grams at once


@pytest.mark.slow
def test_a_member_of_some_sources(corpus, tmp_path, monkeypatch):
    """It trains on texts of those alone, and is judged by all."""
    read, real = set(), Prepared.tokens_of
    monkeypatch.setattr(Prepared, "tokens_of", lambda self, span: (read.add(span.document), real(self, span))[1])
    task = task_in(tmp_path, corpus, sources=(1,), contrastive={"epochs": 1}, pairs={"epochs": 0})

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(StageTwo, "__init__", stop)
    with pytest.raises(KeyboardInterrupt):
        train_member(task)
    prepared = corpus.prepared
    training = {int(d) for d in prepared.documents(TRAIN) if prepared.catalogue.source[d] == 1}
    development = set(prepared.development.flatten().tolist())  # looked at, not learnt from
    assert training & read
    assert read <= training | development
    monkeypatch.undo()
    train_member(task)
    assert task.result["sources"] == ["b"]
    assert len(np.load(task.folder / VALIDATION_SCORES)["ual"]) == len(prepared.validation)


def test_what_is_shipped_follows_from_the_corpus(corpus):
    """Fewer n-grams and texts than the settings ask for, where the corpus has no more."""
    settings = corpus.settings.updated(
        {
            "calibration": {"cohort": 1_000},
            "model": {"ngram_dim": 3_000, "layout_dim": 4_000},
            "ngrams": {"words": 5_000, "letters": 3, "layout": 21},
        }
    )
    prepared = corpus.prepared
    model, pool = full_model(settings, prepared), prepared.vocabulary.ngrams
    views = {view: where.stop - where.start for view, where in pool.views.items()}
    assert views.pop("layout") > 21
    drawn = {"pairs": 30, "triples": 20, "letters": 3, "shapes": 30}
    assert model.ngram_features == sum({**views, **drawn}.values())
    assert model.ngram_dim == model.ngram_features
    assert (model.layout_features, model.layout_dim) == (21, 21)
    assert model.cohort == len(np.unique(prepared.catalogue.author[prepared.documents(CALIBRATE)]))
    plain = full_model(corpus.settings.updated({"model": {"layout_dim": 0}}), prepared)
    assert (plain.ngram_features > 0, plain.layout_features, plain.layout_dim) == (True, 0, 0)
    plain = full_model(corpus.settings.updated({"model": {"ngram_dim": 0, "layout_dim": 0}}), prepared)
    assert (plain.ngram_features, plain.ngram_dim, plain.layout_features, plain.layout_dim) == (0, 0, 0, 0)


def test_a_pool_without_layout_makes_no_layout_part(corpus):
    """As `--set ngrams.pool_layout=0` makes it."""
    vocabulary = corpus.prepared.vocabulary
    bare = replace(vocabulary, ngrams=replace(vocabulary.ngrams, layout=()))
    model = full_model(corpus.settings, replace(corpus.prepared, vocabulary=bare))
    assert model.part_names == ("encoder", "ngrams")
