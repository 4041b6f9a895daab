"""PAN's problem folders, and JSON lines with several known texts."""

import json

import pytest
from support import prose

from pan21av.commands.predict import predict
from pan21av.data.trials import Trial, TrialFile, parse_trial
from pan21av.errors import InputError
from pan21av.verifier import Verifier

PROBLEMS = {"EN010": (prose(1), [prose(2)]), "EN002": (prose(3), [prose(4), prose(5), prose(6)])}


@pytest.fixture
def corpus(tmp_path):
    root = tmp_path / "pan15"
    for name, (unknown, known) in PROBLEMS.items():
        (root / name).mkdir(parents=True)
        (root / name / "unknown.txt").write_text(unknown, encoding="utf-8-sig")
        for n, text in enumerate(known, 1):
            (root / name / f"known{n:02}.txt").write_text(text, encoding="utf-8-sig")
    (root / "contents.json").write_text("{}")
    (root / "truth.txt").write_text("EN010 Y\nEN002 N\n")
    return root


def test_folders_are_trials(corpus, tmp_path):
    with TrialFile(str(corpus), tmp_path) as trials:
        found = trials.inspect()
        assert (found.trials, found.unusable, found.faults) == (2, 0, {})
        assert list(trials.read()) == [
            Trial(name, (PROBLEMS[name][0], *PROBLEMS[name][1])) for name in ("EN002", "EN010")
        ]


def test_names_as_people_write_them(corpus, tmp_path):
    folder = corpus / "EN002"
    for old, new in (
        ("known01.txt", "Known-1.TXT"),
        ("known02.txt", "known 2 (letter).txt"),
        ("unknown.txt", "unknown_a.txt"),
    ):
        (folder / old).rename(folder / new)
    with TrialFile(str(corpus), tmp_path) as trials:
        unknown, *known = next(trials.read()).texts
    assert (unknown, sorted(known)) == (PROBLEMS["EN002"][0], sorted(PROBLEMS["EN002"][1]))


def test_answers_to_problems(corpus, tmp_path, tiny_ensemble):
    predict(str(corpus), tmp_path / "out", models=tiny_ensemble)
    answers = [json.loads(line) for line in (tmp_path / "out" / "answers.jsonl").read_text().splitlines()]
    verifier = Verifier.load(tiny_ensemble)
    assert answers == [
        {"id": name, "value": verifier.verify(*PROBLEMS[name]).probability} for name in ("EN002", "EN010")
    ]


def test_the_same_as_lines():
    line = json.dumps({"id": "x", "questioned": "a", "known": ["b", "c"]}).encode()
    assert parse_trial(line) == Trial("x", ("a", "b", "c"))
    for known in ([], ["b", " "], [1], "b"):
        assert parse_trial(json.dumps({"id": "x", "questioned": "a", "known": known}).encode()).texts is None
    assert parse_trial(json.dumps({"id": "x", "known": ["b"]}).encode()).texts is None
    assert parse_trial(json.dumps({"id": "x", "pair": ["a", "b", "c"]}).encode()).texts is None


def test_what_is_wrong_is_named(corpus, tmp_path):
    (corpus / "EN003").mkdir()
    (corpus / "EN003" / "known01.txt").write_text("a")
    with pytest.raises(InputError, match=r"not all of its folders have known\*.txt and unknown.txt: EN003"):
        TrialFile(str(corpus), tmp_path)
    (corpus / "EN003" / "unknown.txt").write_text(" ")
    with pytest.raises(InputError, match=r"EN003/unknown.txt holds no text"), TrialFile(str(corpus), tmp_path):
        pass
    (corpus / "EN003" / "unknown2.txt").write_text("b")
    with pytest.raises(InputError, match="should hold one unknown text"), TrialFile(str(corpus), tmp_path):
        pass


def test_other_folders_are_what_they_were(corpus, tmp_path):
    (corpus / "pairs.jsonl").write_text(json.dumps({"id": "x", "pair": ["a", "b"]}))
    with TrialFile(str(corpus), tmp_path) as trials:
        assert list(trials.read()) == [Trial("x", ("a", "b"))]
