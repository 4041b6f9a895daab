"""What a person sees of a training."""

import json
import logging

import pytest
from support import small

from pan21av.training.member import MemberTask
from pan21av.training.report import history_plot
from pan21av.training.watch import Watch

RECORDS = [
    {"stage": "contrastive", "epoch": 1, "loss": 2.5, "accuracy": 0.75, "topic_accuracy": None, "seconds": 3.0},
    {"stage": "pairs", "epoch": 2, "dml_loss": 0.1, "overall": 0.8},
    {"stage": "o2d2", "epoch": 1, "loss": 0.5},
    {"stage": "o2d2", "epoch": 20, "loss": 0.25},
]


@pytest.fixture
def task(tmp_path) -> MemberTask:
    (tmp_path / "member-07").mkdir()
    return MemberTask(7, 1, tmp_path, tmp_path / "member-07", small(), "cpu", (0,))


def write(task, records, end=b"\n"):
    data = b"\n".join(json.dumps(record).encode() for record in records) + end
    (task.folder / "history.jsonl").write_bytes(data)


def test_a_line_per_epoch_and_each_once(task, caplog):
    caplog.set_level(logging.INFO, "pan21av")
    with Watch([task]) as watch:
        watch.look()  # nothing there yet
        write(task, RECORDS[:1])
        watch.look()
        write(task, RECORDS[:2], end=b"")  # the second is being written
        watch.look()
        assert len(caplog.messages) == 1
        write(task, RECORDS)
        watch.look()
        watch.look()
    assert len(caplog.messages) == 3
    assert "member  7  contrastive epoch   1  loss 2.5  accuracy 0.75  seconds 3" in caplog.messages[0]
    assert "pairs       epoch   2  dml_loss 0.1  overall 0.8" in caplog.messages[1]
    assert "o2d2        epoch  20" in caplog.messages[2]  # its first is one of many


def test_a_corpus_of_one_topic_has_no_topic_accuracy(task, caplog):
    """NaN is null in JSON: neither a line nor the picture may stumble over it."""
    write(task, [{**RECORDS[0], "epoch": n, "overall": 0.7} for n in (1, 2, 3)])
    with Watch([task]) as watch:
        watch.look()
    pytest.importorskip("matplotlib")
    assert history_plot([task]).startswith(b"\x89PNG")


def test_no_picture_where_stage_one_was_reused(task):
    write(task, RECORDS[2:])
    assert history_plot([task]) is None


@pytest.mark.parametrize("pairs", [48, 400])
def test_figures_of_a_handful_of_pairs_are_not_told(task, caplog, pairs):
    caplog.set_level(logging.INFO, "pan21av")
    figures = {"ual": {"auc": 0.9, "overall": 0.8}, "o2d2": {"overall": 0.81}}
    result = {"validation": figures, "pairs": pairs, "seconds": 61.0}
    (task.folder / "result.json").write_text(json.dumps(result))
    with Watch([task]) as watch:
        watch.finished(task)
    (line,) = caplog.messages
    assert line.startswith("member  7 finished in 1 min 01 s")
    assert ("AUC 0.900 +- 0.016 (400 pairs)" in line) == (pairs == 400)
    assert ("overall" in line) == (pairs == 400)
