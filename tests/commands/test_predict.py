"""The main job: a file of trials to a file of answers."""

import csv
import io
import json
import sys

import numpy as np
import pytest
from support import prose, write_random_ensemble

from pan21av.commands.predict import predict
from pan21av.data.answers import AnswerFile
from pan21av.verifier import Verifier


def write_pairs(path, pairs, **extra):
    lines = [json.dumps({"id": i, "pair": list(pair), **extra}, ensure_ascii=False) for i, pair in pairs.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def read_answers(folder):
    return {a["id"]: a["value"] for a in map(json.loads, (folder / "answers.jsonl").read_text().splitlines())}


@pytest.fixture(scope="module")
def expected(tiny_ensemble):
    """What the Python interface answers to pairs."""

    def ask(pairs):
        return [verdict.probability for verdict in Verifier.load(tiny_ensemble, device="cpu").predict(pairs)]

    return ask


@pytest.mark.slow
def test_in_a_process_of_its_own(tiny_ensemble, tmp_path, process, expected):
    pairs = {f"pair {n}": (prose(n), prose(n + 50)) for n in range(70)}  # more than two chunks
    source = write_pairs(tmp_path / "pairs.jsonl", pairs, fandoms=["a", "b"], unknown={"field": 1})
    done = process("predict", "-i", source, "-o", tmp_path / "deep" / "out", "--models", tiny_ensemble)
    assert done.returncode == 0, done.stderr.decode()
    answers = read_answers(tmp_path / "deep" / "out")
    assert list(answers) == list(pairs)
    assert list(answers.values()) == expected(pairs.values())
    assert b"computing on cpu" in done.stderr


@pytest.mark.slow
def test_standard_input_of_a_process(tiny_ensemble, tmp_path, process, expected):
    line = json.dumps({"id": "x", "pair": [prose(1), prose(2)]}).encode()
    done = process("predict", "-i", "-", "-o", tmp_path, "--models", tiny_ensemble, input=line)
    assert done.returncode == 0, done.stderr.decode()
    assert read_answers(tmp_path) == {"x": expected([(prose(1), prose(2))])[0]}


def test_answers_and_report(tiny_ensemble, tmp_path, command, expected):
    pairs = {f"pair {n}": (prose(n), prose(n + 50)) for n in range(20)}
    source = write_pairs(tmp_path / "pairs.jsonl", pairs, fandoms=["a", "b"], unknown={"field": 1})
    done = command("predict", "-i", source, "-o", "deep/out", "--models", tiny_ensemble)
    assert done.returncode == 0, done.stderr.decode()
    out = tmp_path / "deep" / "out"
    answers = read_answers(out)
    assert list(answers) == list(pairs)
    assert list(answers.values()) == expected(pairs.values())
    assert sorted(p.name for p in out.iterdir()) == ["answers.jsonl", "run.json"]
    report = json.loads((out / "run.json").read_text())
    assert {key: report[key] for key in ("pairs", "members", "unusable", "lines_left_out", "resumed_after")} == {
        "pairs": 20, "members": 3, "unusable": 0, "lines_left_out": 0, "resumed_after": 0,
    }  # fmt: skip
    assert report["non_responses"] == sum(value == 0.5 for value in answers.values())
    assert report["ensemble"] == tiny_ensemble.name


def test_tira_variables_and_directories(tiny_ensemble, tmp_path, command, monkeypatch, expected):
    (tmp_path / "in").mkdir()
    pairs = {"a": (prose(1), prose(2)), "b": (prose(3), prose(4))}
    write_pairs(tmp_path / "in" / "pairs.jsonl", pairs)
    (tmp_path / "in" / "truth.jsonl").write_text("{}")
    for name, value in {"inputDataset": "in", "outputDir": "out", "PAN21AV_MODELS": tiny_ensemble}.items():
        monkeypatch.setenv(name, str(value))
    done = command("predict")
    assert done.returncode == 0, done.stderr.decode()
    assert read_answers(tmp_path / "out") == dict(zip(pairs, expected(pairs.values()), strict=True))


def test_standard_input(tiny_ensemble, tmp_path, monkeypatch, expected):
    line = json.dumps({"id": "x", "pair": [prose(1), prose(2)]}).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line)))
    predict("-", tmp_path, models=tiny_ensemble)
    assert read_answers(tmp_path) == {"x": expected([(prose(1), prose(2))])[0]}


def test_unusable_texts_are_not_answered(tiny_ensemble, tmp_path, caplog, expected):
    rows = [["", prose(1)], [" \n", prose(1)], [prose(1)], None, [prose(1), 7], [prose(1), prose(2)]]
    lines = [json.dumps({"id": str(n), "pair": pair}) for n, pair in enumerate(rows)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines))
    report = predict(str(tmp_path / "pairs.jsonl"), tmp_path, models=tiny_ensemble, details=True)
    answers = read_answers(tmp_path)
    assert [answers[str(n)] for n in range(5)] == [0.5] * 5
    assert answers["5"] == expected([(prose(1), prose(2))])[0]
    assert report["unusable"] == 5
    assert report["pairs"] == 6
    assert "5 trials lack two usable texts" in caplog.text
    details = np.load(tmp_path / "details.npy")
    assert details.shape == (6, 4, 3)
    assert np.isnan(details[:5]).all()
    scores = Verifier.load(tiny_ensemble, device="cpu").verify(prose(1), prose(2)).scores
    np.testing.assert_array_equal(details[5], scores.astype(np.float32))


def write_table(path, pairs, header=("nr", "left", "right")):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *((i, *pair) for i, pair in pairs.items())])


def test_a_table(tiny_ensemble, tmp_path, command, expected):
    """Broken off and taken up again as JSON lines are; the answers are theirs."""
    pairs = {f"pair {n}": (prose(n), prose(n + 50)) for n in range(70)}
    write_table(tmp_path / "pairs.csv", pairs)
    arguments = ("predict", "-i", "pairs.csv", "-o", "out", "--columns", "nr,left,right", "--models", tiny_ensemble)
    with pytest.MonkeyPatch.context() as patch:
        written = []
        patch.setattr(AnswerFile, "write", interrupted_after(43, AnswerFile.write, written))
        assert command(*arguments).returncode == 130
    done = command(*arguments)
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads((tmp_path / "out" / "run.json").read_text())["resumed_after"] == 40
    assert read_answers(tmp_path / "out") == dict(zip(pairs, expected(pairs.values()), strict=True))


def interrupted_after(count, write, written):
    def interrupted(self, *answer):
        if len(written) == count:
            raise KeyboardInterrupt
        written.append(answer)
        write(self, *answer)

    return interrupted


@pytest.mark.parametrize(
    ("header", "columns", "message"),
    [
        (("id", "text1", "text2"), "id,text1", "--columns takes the names of three columns"),
        (("nr", "left", "right"), None, "pairs.csv has no columns id, text1, text2, but nr, left, right"),
        (("id", "text1", "text2", "more"), None, "1 line with another number of columns than the header's 4 (line 2)"),
    ],
)
def test_tables_that_cannot_be_used(tiny_ensemble, tmp_path, command, header, columns, message):
    write_table(tmp_path / "pairs.csv", {"a": (prose(1), prose(2))}, header)
    chosen = ("--columns", columns) if columns else ()
    done = command("predict", "-i", "pairs.csv", "-o", "out", *chosen, "--models", tiny_ensemble)
    assert done.returncode == 2
    assert message in done.stderr.decode().splitlines()[-1]
    assert not list((tmp_path / "out").glob("*.jsonl"))


def test_a_second_run_begins_anew(tiny_ensemble, tmp_path):
    """The first is complete, so there is nothing to go on with."""
    write_pairs(tmp_path / "pairs.jsonl", {"a": (prose(1), prose(2))})
    predict(str(tmp_path / "pairs.jsonl"), tmp_path / "out", models=tiny_ensemble)
    first = (tmp_path / "out" / "answers.jsonl").read_bytes()
    report = predict(str(tmp_path / "pairs.jsonl"), tmp_path / "out", models=tiny_ensemble)
    assert report["resumed_after"] == 0
    assert (tmp_path / "out" / "answers.jsonl").read_bytes() == first


def test_missing_ensemble(tmp_path, command):
    source = write_pairs(tmp_path / "pairs.jsonl", {"a": ("x", "y")})
    done = command("predict", "-i", source, "-o", tmp_path, "--models", tmp_path / "nowhere")
    assert done.returncode == 3
    assert b"looked for" in done.stderr
    assert b"nowhere/ensemble.json" in done.stderr


def test_ratios_beside_details(tmp_path):
    """Made of the answers: odds within the bounds of 20 and 30 validation pairs; none for a non-response."""
    distances = {"edges": [0, 40], "same": [20], "different": [30]}
    ensemble = write_random_ensemble(tmp_path / "models", distances=distances)
    pairs = {f'a "{n}", b': (prose(n), prose(n + 50)) for n in range(12)} | {"empty": ("", prose(1))}
    source = write_pairs(tmp_path / "pairs.jsonl", pairs)
    predict(str(source), tmp_path / "out", models=ensemble, details=True)
    with (tmp_path / "out" / "ratios.csv").open(newline="") as table:
        rows = list(csv.DictReader(table))
    answers = read_answers(tmp_path / "out")
    assert {row["id"]: float(row["probability"]) for row in rows} == answers
    for row in rows:
        value = answers[row["id"]]
        if value == 0.5:
            assert (row["log10_lr"], row["words"]) == ("", "cannot tell")
        else:
            assert 10 ** float(row["log10_lr"]) == pytest.approx(np.clip(value / (1 - value), 1 / 20, 30), rel=1e-3)
    assert rows[-1]["log10_lr"] == ""


def test_notes_are_counted_and_summed_up_but_are_no_answers(tmp_path, caplog):
    """By pair, not by text: the first has two notes of one kind, the fourth has one of two kinds."""
    limits = {"min_tokens": 20, "min_words": 0, "min_common": 0, "max_unknown": 1, "max_foreign": 1}
    ensemble = write_random_ensemble(tmp_path / "guarded", limits=limits)
    short, page = prose(1, 5), "".join(f"<p>{prose(n)}</p>" for n in range(3))
    pairs = {
        "a": (short, prose(2, 6)),
        "b": (prose(3), prose(4)),
        "c": (page, prose(5)),
        "d": (short, page),
        "e": ("", ""),
    }
    source = write_pairs(tmp_path / "pairs.jsonl", pairs)
    with caplog.at_level("INFO", "pan21av"):
        report = predict(str(source), tmp_path / "out", models=ensemble)
    counts = {"too short": 2, "mark-up": 2, "no text": 1}
    assert {kind: report["notes"].get(kind) for kind in counts} == counts
    assert json.loads((tmp_path / "out" / "run.json").read_text())["notes"] == report["notes"]
    (line,) = [message for message in caplog.messages if message.startswith("notes: ")]
    for said in ("too short (2 pairs)", "mark-up (2 pairs)", "no text (1 pair)"):
        assert said in line
    answers = [json.loads(line) for line in (tmp_path / "out" / "answers.jsonl").read_text().splitlines()]
    assert [set(answer) for answer in answers] == [{"id", "value"}] * 5
    assert [answer["value"] == 0.5 for answer in answers] == [True, False, False, True, True]
