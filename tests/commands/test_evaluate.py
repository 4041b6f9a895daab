import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from pan21av.evaluate import evaluate, read_details, read_truth
from pan21av.pictures import coverage_curve, reliability_bins, roc_curve

TRUTH = {"a": True, "b": False, "c": True, "d": False}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pan21_truth.jsonl").write_text("\n".join(json.dumps({"id": i, "same": s}) for i, s in TRUTH.items()))
    pairs = [{"id": i, "fandoms": ["x", "x" if i in "ad" else "y"], "pair": ["", ""]} for i in TRUTH]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    return tmp_path


def write_answers(path, answers):
    path.write_text("\n".join(json.dumps({"id": i, "value": v}) for i, v in answers))
    return path


def test_by_hand(folder):
    answers = write_answers(folder / "answers.jsonl", [("a", 0.9), ("b", 0.2), ("c", 0.5), ("d", 0.6)])
    (result,) = evaluate([answers], folder, pairs=folder, output=folder / "out").results
    assert result.metrics["auc"] == pytest.approx(3 / 4)
    assert result.metrics["c@1"] == pytest.approx((2 + 1 * 2 / 4) / 4)
    assert result.metrics["f_05_u"] == pytest.approx(1.25 / (1.25 + 0.25 * 1 + 1))
    assert result.metrics["F1"] == pytest.approx(2 / 3)
    assert result.metrics["brier"] == pytest.approx(1 - (0.01 + 0.04 + 0.25 + 0.36) / 4)
    assert result.metrics["non_responses"] == 0.25
    assert set(result.by_kind) >= {"SA_SF", "SA_DF", "DA_SF", "DA_DF", "SA_SF + DA_SF"}
    low, high = result.intervals["overall"]
    assert low <= result.metrics["overall"] <= high
    assert not result.problems
    assert json.loads((folder / "out" / "out.json").read_text())["auc"] == 0.75
    assert 'measure {\n key: "auc"\n value: "0.75"\n}' in (folder / "out" / "evaluation.prototext").read_text()


def test_faulty_answers_are_reported_and_survive(folder):
    rows = [("a", 0.1), ("a", 0.9), ("x", 0.3), ("b", 1.5), ("c", None), ("d", True)]
    (result,) = evaluate([write_answers(folder / "answers.jsonl", rows)], folder).results
    assert result.values.tolist() == [0.9, 0.5, 0.5, 0.5]
    text = " / ".join(result.problems)
    assert "1 answers to trials that are not in the truth" in text
    assert "3 values that are no probability (left out): b, c, d" in text
    assert "1 trials answered twice" in text
    assert "3 trials without an answer" in text


def test_comparison(folder):
    good = write_answers(folder / "good.jsonl", [("a", 0.9), ("b", 0.1), ("c", 0.9), ("d", 0.1)])
    bad = write_answers(folder / "bad.jsonl", [("a", 0.1), ("b", 0.9), ("c", 0.1), ("d", 0.9)])
    (row,) = evaluate([good, bad], folder).comparison
    assert row["difference"] < -0.5
    assert row["interval"][0] <= row["difference"] <= row["interval"][1] + 1e-9


def test_command(folder, command):
    write_answers(folder / "answers.jsonl", [("a", 0.9), ("b", 0.1)])
    done = command("evaluate", "-a", folder, "-t", folder, "--json")
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout)["auc"] == 3.5 / 4  # c and d tie at 0.5
    assert b"2 trials without an answer" in done.stderr
    (folder / "answers.jsonl").write_text("nonsense")
    done = command("evaluate", "-a", folder, "-t", folder)
    assert done.returncode == 2
    assert b"answers.jsonl:1: not JSON" in done.stderr


# ---- pictures ----


def test_reliability_bins_by_hand():
    truth = np.array([True, False, True, True, False, True])
    values = np.array([0.95, 0.91, 0.5, 0.12, 0.18, 1.0])
    said, true, counts = reliability_bins(truth, values)
    np.testing.assert_allclose(said, [0.15, (0.95 + 0.91 + 1) / 3])
    np.testing.assert_allclose(true, [0.5, 2 / 3])
    assert counts.tolist() == [2, 3]


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 0.1, 0.5, 0.7, 1.0])), min_size=2))
def test_the_area_under_the_roc_curve_is_the_auc(rows):
    truth, values = (np.array(column) for column in zip(*rows, strict=True))
    if truth.all() or not truth.any():
        return
    x, y = roc_curve(truth, values)
    assert np.trapezoid(y, x) == pytest.approx(roc_auc_score(truth, values))


def test_coverage_by_hand():
    share, accuracy = coverage_curve(np.array([0.9, 0.1, 0.5, 0.3]), np.array([False, True, False, True]))
    assert share.tolist() == [0.25, 0.5, 0.75, 1.0]
    np.testing.assert_allclose(accuracy, [1, 1, 2 / 3, 0.5])


def test_pictures_with_and_without_details(folder):
    answers = folder / "submission"
    answers.mkdir()
    order = ["d", "c", "b", "a"]  # predict's order is not the truth's
    write_answers(answers / "answers.jsonl", [(i, 0.5 if i == "c" else 0.9 if TRUTH[i] else 0.2) for i in order])
    evaluate([answers], folder, pairs=folder, output=folder / "plain", bootstrap=0)
    plain = {p.name for p in (folder / "plain").glob("*.png")}
    assert plain == {"reliability.png", "roc.png", "coverage.png", "posteriors.png"}
    details = np.arange(4 * 4 * 3, dtype=np.float32).reshape(4, 4, 3) / 48
    np.save(answers / "details.npy", details)
    trials = read_truth(folder / "pan21_truth.jsonl")
    np.testing.assert_array_equal(read_details(answers / "answers.jsonl", trials), details[::-1])
    evaluate([answers], folder, output=folder / "full", bootstrap=0)
    assert {p.name for p in (folder / "full").glob("*.png")} == plain | {"agreement.png"}
    np.save(answers / "details.npy", details[:2])  # of another run
    assert read_details(answers / "answers.jsonl", trials) is None
