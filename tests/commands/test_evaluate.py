import json
import sys

import numpy as np
import pytest

from pan21av.commands.evaluate import evaluate, read_details, read_trials, write
from pan21av.errors import InputError

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


def pictures(folder):
    return {p.name for p in folder.glob("*.png")}


def test_by_hand(folder):
    answers = write_answers(folder / "answers.jsonl", [("a", 0.9), ("b", 0.2), ("c", 0.5), ("d", 0.6)])
    (result,) = evaluate([answers], folder, pairs=folder, output=folder / "out", bootstrap=200).results
    assert result.metrics["auc"] == pytest.approx(3 / 4)
    assert result.metrics["c@1"] == pytest.approx((2 + 1 * 2 / 4) / 4)
    assert result.metrics["f_05_u"] == pytest.approx(1.25 / (1.25 + 0.25 * 1 + 1))
    assert result.metrics["F1"] == pytest.approx(2 / 3)
    assert result.metrics["brier"] == pytest.approx(1 - (0.01 + 0.04 + 0.25 + 0.36) / 4)
    assert result.metrics["non_responses"] == 0.25
    # a is SA_SF, b DA_DF, c SA_DF, d DA_SF: one trial each
    assert {kind: result.by_kind[kind]["brier"] for kind in ("SA_SF", "SA_DF", "DA_SF", "DA_DF")} == pytest.approx(
        {"SA_SF": 0.99, "SA_DF": 0.75, "DA_SF": 0.64, "DA_DF": 0.96}
    )
    assert {kind: result.by_kind[kind]["auc"] for kind in result.by_kind if "+" in kind} == {
        "SA_DF + DA_SF": 0, "SA_SF + DA_SF": 1, "SA_DF + DA_DF": 1, "SA_SF + DA_DF": 1,
    }  # fmt: skip
    low, high = result.intervals["overall"]
    assert low < result.metrics["overall"] < high
    assert not result.problems
    assert json.loads((folder / "out" / "out.json").read_text())["auc"] == 0.75
    assert 'measure {\n key: "auc"\n value: "0.75"\n}' in (folder / "out" / "evaluation.prototext").read_text()
    assert pictures(folder / "out") == {
        "reliability.png", "roc.png", "coverage.png", "posteriors.png", "tippett.png", "det.png", "pav.png",
    }  # fmt: skip
    # Ratios 9 and 1 of one author, 1/4 and 3/2 of two.
    assert result.metrics["cllr"] == pytest.approx(np.log2([10 / 9, 2, 5 / 4, 5 / 2]).sum() / 4)
    assert result.metrics["trials"] == 4
    np.save(folder / "details.npy", np.zeros((4, 4, 3), dtype=np.float32))
    evaluate([answers], folder, output=folder / "full", bootstrap=0)
    assert pictures(folder / "full") == pictures(folder / "out") | {"agreement.png"}


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
    """By hand: the good one has 1, 1, 1, 1 and 0.99, the bad one 0, 0, 0, 0 and 0.19."""
    good = write_answers(folder / "good.jsonl", [("a", 0.9), ("b", 0.1), ("c", 0.9), ("d", 0.1)])
    bad = write_answers(folder / "bad.jsonl", [("a", 0.1), ("b", 0.9), ("c", 0.1), ("d", 0.9)])
    report = evaluate([good, bad, good], folder, bootstrap=200)
    one, other = report.comparison
    assert one["difference"] == pytest.approx((0.19 - 4.99) / 5)
    assert one["interval"][1] < 0
    assert (other["difference"], other["interval"]) == (0, (0, 0))
    write(folder / "out", report.results)
    written = [json.loads((folder / "out" / f"out{suffix}.json").read_text())["overall"] for suffix in ("", "-2", "-3")]
    assert written == [0.998, 0.038, 0.998]


def test_command(folder, command):
    write_answers(folder / "answers.jsonl", [("a", 0.9), ("b", 0.1)])
    done = command("evaluate", "-a", folder, "-t", folder, "--json")
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout)["auc"] == 3.5 / 4  # c and d tie at 0.5
    assert b"2 trials without an answer" in done.stderr
    table = command("evaluate", "-a", folder, "-t", folder, "-p", folder).stdout.decode().splitlines()
    assert max(map(len, table)) <= 80
    cells = dict(zip(table[0].split(maxsplit=7), table[1].split()[1:], strict=True))
    assert cells == {
        "AUC": "0.875", "c@1": "0.750", "F0.5u": "0.714", "F1": "1.000", "Brier": "0.870", "overall": "0.842",
        "ECE": "0.050", "no resp": "0.500",
    }  # fmt: skip
    rows = [
        "95 % from", "to", "SA_SF", "SA_DF", "DA_SF", "DA_DF", "SA_DF + DA_SF", "SA_SF + DA_SF", "SA_DF + DA_DF",
        "SA_SF + DA_DF", "0-99 words",
    ]  # fmt: skip
    at = table.index("")
    assert [line[:16].strip() for line in table[2:at]] == rows
    assert table[at + 1].split()[2:] == ["trials", "Cllr", "min", "loss", "EER"]
    # Two perfect but for the tenth, two non-responses; PAV makes a and b perfect and leaves the rest.
    assert table[at + 2].split()[1:] == ["4", f"{(np.log2(10 / 9) + 1) / 2:.3f}", "0.500", "0.076", "0.250"]
    assert [line[:16].strip() for line in table[at + 3 : -1]] == rows
    assert table[-1] == "Intervals are of samples drawn by trial (the truth does not name all authors)."
    (folder / "answers.jsonl").write_text("nonsense")
    done = command("evaluate", "-a", folder, "-t", folder)
    assert done.returncode == 2
    assert b"answers.jsonl:1: not JSON" in done.stderr


def test_answers_to_other_questions(folder):
    """All of them unknown: that is another corpus, not a few faults."""
    answers = write_answers(folder / "answers.jsonl", [("x", 0.9), ("y", 0.9)])
    with pytest.raises(InputError, match="none of its 2 answers is to a trial of the truth"):
        evaluate([answers], folder)


def test_an_output_that_is_a_file(folder):
    answers = write_answers(folder / "answers.jsonl", [("a", 0.9)])
    with pytest.raises(InputError, match="is a file; the output goes into a folder"):
        evaluate([answers], folder, output=answers)
    assert answers.read_text() == '{"id": "a", "value": 0.9}'


def test_json_of_several(folder, command):
    for name, value in (("one", 0.9), ("other", 0.3)):
        write_answers(folder / f"{name}.jsonl", [("a", value), ("b", 0.1), ("c", 0.8), ("d", 0.2)])
    done = command("evaluate", "-a", "one.jsonl", "-a", "other.jsonl", "-t", folder, "-p", folder, "--json")
    one, other = json.loads(done.stdout)
    assert (one["name"], other["name"]) == ("one.jsonl", "other.jsonl")
    assert one["brier"] == pytest.approx(1 - (0.01 + 0.01 + 0.04 + 0.04) / 4)
    assert other["brier"] == pytest.approx(1 - (0.49 + 0.01 + 0.04 + 0.04) / 4)
    assert one["by_kind"]["SA_SF"]["brier"] == pytest.approx(0.99)
    low, high = other["intervals"]["brier"]
    assert low < other["brier"] < high


def test_truths_that_cannot_be_used(folder):
    answers = write_answers(folder / "answers.jsonl", [("a", 0.9)])
    (folder / "pairs.jsonl").write_text(json.dumps({"id": "a", "fandoms": ["x", "y"]}))
    with pytest.raises(InputError, match=r"pairs.jsonl lacks 3 trials of the truth: b, c, d"):
        evaluate([answers], folder, pairs=folder)
    (folder / "pan21_truth.jsonl").write_text("\n")
    with pytest.raises(InputError, match=r"pan21_truth.jsonl holds no trials"):
        evaluate([answers], folder)


def test_by_length_and_author(folder, command):
    """Topics are not needed; the shorter text counts."""
    long, short, medium = "word " * 5000, "word " * 99, "word " * 100
    texts = {"a": [long, short], "b": [medium, long], "c": [long, long], "d": [long, short]}
    lines = [json.dumps({"id": i, "pair": pair}) for i, pair in texts.items()]
    (folder / "pairs.jsonl").write_text("\n".join(lines))
    authors = {"a": ["x", "x"], "b": ["x", "y"], "c": ["y", "y"], "d": ["z", "y"]}
    lines = [json.dumps({"id": i, "same": s, "authors": authors[i]}) for i, s in TRUTH.items()]
    (folder / "pan21_truth.jsonl").write_text("\n".join(lines))
    write_answers(folder / "answers.jsonl", [("a", 0.9), ("b", 0.2), ("c", 0.5), ("d", 0.6)])
    report = json.loads(command("evaluate", "-a", folder, "-t", folder, "-p", folder, "--json").stdout)
    assert report["sampled_by"] == "author"
    assert report["by_kind"] == {}
    assert {name: row["trials"] for name, row in report["by_length"].items()} == {
        "0-99 words": 2, "100-249 words": 1, "4000+ words": 1,
    }  # fmt: skip
    assert report["by_length"]["0-99 words"]["cllr"] == pytest.approx(np.log2([10 / 9, 5 / 2]).sum() / 2)
    assert report["by_length"]["4000+ words"]["cllr"] is None
    assert set(report["curves"]["det"]) == {"x", "y", "low", "high"}
    low, high = report["intervals"]["cllr"]
    assert low < report["cllr"] < high
    table = command("evaluate", "-a", folder, "-t", folder, "-p", folder).stdout.decode()
    assert "Intervals are of samples drawn by author." in table


def test_details_follow_the_order_of_the_truth(folder, caplog):
    answers = write_answers(folder / "answers.jsonl", [("d", 0.2), ("b", 0.3), ("a", 0.4)])
    trials = read_trials(folder / "pan21_truth.jsonl")
    assert read_details(answers, trials) is None
    details = np.arange(3 * 4 * 3, dtype=np.float32).reshape(3, 4, 3)
    np.save(folder / "details.npy", details)
    np.testing.assert_array_equal(
        read_details(answers, trials), [details[2], details[1], np.full((4, 3), np.nan), details[0]]
    )
    for foreign in (details[:2], details[0], details[:, :3]):
        np.save(folder / "details.npy", foreign)
        assert read_details(answers, trials) is None
    (folder / "details.npy").write_bytes(b"nonsense")
    assert read_details(answers, trials) is None
    assert caplog.text.count("does not belong to") == 4


def test_no_pictures_without_matplotlib(folder, monkeypatch, caplog):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    answers = write_answers(folder / "answers.jsonl", [("a", 0.9)])
    evaluate([answers], folder, output=folder / "out", bootstrap=0)
    assert sorted(p.name for p in (folder / "out").iterdir()) == ["evaluation.prototext", "out.json"]
    assert "no pictures without matplotlib" in caplog.text
