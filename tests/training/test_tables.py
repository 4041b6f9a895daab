"""The paper's tables from what is stored: against sums of their own; and the verb that makes them again."""

import json

import numpy as np
import orjson
import pytest
from support import write_random_ensemble

from pan21av import report
from pan21av.errors import InputError
from pan21av.training.calibration import balanced_pairs
from pan21av.training.tables import (
    CALIBRATION_FILE,
    CALIBRATION_UAL,
    HISTORY_FILE,
    PAIRS_FILE,
    SCORES_FILE,
    Stored,
    by_combination,
    paper_tables,
    report_text,
)

KINDS = np.repeat(["SA_SF", "SA_DF", "DA_SF", "DA_DF"], 2)
# Two members: the first is right on all, the second on same-author pairs only.
P_UAL = np.array([[0.9, 0.8, 0.9, 0.7, 0.2, 0.1, 0.3, 0.2], [0.9, 0.8, 0.9, 0.7, 0.8, 0.9, 0.7, 0.8]])
ROW = {"documents": 9, "authors": 3, "topics": 2, "SA_SF": 1000, "SA_DF": 2, "DA_SF": 3, "DA_DF": 4}
SAME = np.array([True, True, False, False])


def stored(**changes) -> Stored:
    ual = np.array([[0.9, 0.6, 0.4, 0.2], [0.8, 0.7, 0.3, 0.6], [0.7, 0.4, 0.2, 0.1]])
    o2d2 = np.array([[0.1, 0.9, 0.1, 0.1], [0.1, 0.9, 0.1, 0.1], [0.1, 0.1, 0.1, 0.1]])
    scores = {"dml": ual, "bfs": ual, "ual": ual, "o2d2": o2d2, CALIBRATION_UAL: P_UAL[[0, 1, 0]]}
    history = [
        {"stage": "pairs", "epoch": n, "accuracy": 0.6, "topic_accuracy": 0.5, "topic_share": 0.4} for n in (1, 2)
    ]
    values = {
        "name": "made", "splits": {"training": ROW, "validation": ROW, "left out": ROW}, "scores": scores,
        "same": SAME, "kinds": KINDS, "histories": [history] * 3,
    }  # fmt: skip
    return Stored(**{**values, **changes})


def test_combinations_of_kinds():
    """Every one has two kinds, as many pairs of either; mean and deviation are over members."""
    table = by_combination(KINDS, P_UAL)
    assert list(table) == ["SA_DF + DA_SF", "SA_SF + DA_SF", "SA_DF + DA_DF", "SA_SF + DA_DF"]
    for row in table.values():
        assert row["pairs"] == 4
        assert row["accuracy"] == pytest.approx(0.75)  # of 1 and 0.5
        assert row["deviation"]["accuracy"] == pytest.approx(0.25)
        assert row["non_responses"] == 0
    assert table["SA_DF + DA_SF"]["confidence"] == pytest.approx(
        np.mean([np.maximum(p, 1 - p)[2:6].mean() for p in P_UAL])
    )
    # A corpus without topics has neither SA_DF nor DA_DF.
    assert list(by_combination(KINDS[[0, 1, 4, 5]], P_UAL[:, [0, 1, 4, 5]])) == ["SA_SF + DA_SF"]


def test_non_responses_in_table_5():
    """A majority abstains from the second pair, which is of one author: a wrong decision at confidence 0.5."""
    row = paper_tables(stored())["4 and 5"]["ensemble_o2d2"]
    assert row["non_responses"] == 0.25
    assert row["accuracy"] == 0.75
    assert row["accuracy_answered"] == 1
    confidences = [np.mean([0.9, 0.8, 0.7]), 0.5, 1 - np.mean([0.4, 0.3, 0.2]), 1 - np.mean([0.2, 0.6, 0.1])]
    assert row["confidence"] == pytest.approx(np.mean(confidences))
    assert row["mce"] >= 0.5


def test_what_the_report_prints():
    text = report_text(stored())
    for number in range(1, 6):
        assert f"## Table {number}:" in text
    assert "| training, an epoch | 1,000 | 2 | 3 | 4 | 1,009 |" in text
    assert "left out" not in text
    assert "| SA_DF + DA_SF | 4 | " in text
    assert "83.3 ± 23.6" in text  # accuracy of members that have 1, 0.5 and 1
    assert "Figure 3" in text


def write_stored(folder, made, *left_out):
    files = {
        PAIRS_FILE: {"pairs": [[0, 1]] * 4, "same": made.same.tolist()},
        CALIBRATION_FILE: {"kinds": made.kinds.tolist()},
        HISTORY_FILE: made.histories,
    }
    for name, content in files.items():
        if name not in left_out:
            (folder / name).write_bytes(orjson.dumps(content))
    np.savez(folder / SCORES_FILE, **made.scores)


def test_the_verb_makes_them_again(tmp_path, command):
    pytest.importorskip("matplotlib")
    made = stored()
    folder = write_random_ensemble(tmp_path / "made", training={"splits": made.splits})
    write_stored(folder, made)
    tables = report(folder)
    assert (folder / "REPORT.md").read_text() == report_text(made)
    for name in ("figure3.png", "figure4.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    assert json.loads(json.dumps(tables))["4 and 5"]["ual"]["auc"] == tables["4 and 5"]["ual"]["auc"]
    done = command("report", folder, "-o", tmp_path / "elsewhere")
    assert done.returncode == 0, done.stderr.decode()
    assert (tmp_path / "elsewhere" / "REPORT.md").read_bytes() == (folder / "REPORT.md").read_bytes()


def test_an_older_ensemble_lacks_some_of_it(tmp_path):
    made = stored()
    folder = write_random_ensemble(tmp_path / "made", training={"splits": made.splits})
    write_stored(folder, made, CALIBRATION_FILE, HISTORY_FILE)
    assert report(folder)["2 and 3"] == {}
    assert (folder / "REPORT.md").read_text().count("Not stored with this ensemble") == 3
    assert not (folder / "figure3.png").exists()


def test_an_ensemble_that_was_not_trained_here(tiny_ensemble, command):
    with pytest.raises(InputError, match=r"holds no validation_scores\.npz"):
        report(tiny_ensemble)
    assert command("report", tiny_ensemble).returncode == 2
    assert not (tiny_ensemble / "REPORT.md").exists()


def test_balanced_calibration_pairs(corpus):
    """The same whoever asks; as many of every kind that there is, all of calibration documents."""
    pairs = balanced_pairs(corpus.prepared)
    np.testing.assert_array_equal(pairs, balanced_pairs(corpus.prepared))
    assert (corpus.prepared.split[pairs] == 1).all()
    counts = {n for n in corpus.prepared.catalogue.count_kinds(pairs).values() if n}
    assert len(counts) <= 1
