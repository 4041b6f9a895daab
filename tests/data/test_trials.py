import io
import json
import os
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pan21av.data.jsonlines import BadLine
from pan21av.data.trials import Trial, TrialFile, parse_trial
from pan21av.errors import EnvironmentFault

GOOD = b'{"id": "a", "pair": ["one", "two"]}'


@given(st.text(), st.text(), st.text())
def test_a_trial_comes_back_as_it_was_written(trial, first, second):
    written = {"id": trial, "pair": [first, second], "fandoms": ["x", "y"], "unknown": 3}
    for line in (json.dumps(written), json.dumps(written, ensure_ascii=False)):
        found = parse_trial(line.encode())
        assert found.id == trial
        assert found.texts == ((first, second) if first.strip() and second.strip() else None)


@pytest.mark.parametrize(
    "pair", [None, "ab", [], ["a"], ["a", "b", "c"], ["a", 7], ["a", None], ["a", " \n\t"], {"a": "b"}]
)
def test_trials_without_two_usable_texts(pair):
    assert parse_trial(json.dumps({"id": "x", "pair": pair}).encode()) == Trial("x", None)


def test_lone_surrogates_are_read():
    assert parse_trial(b'{"id": "\\ud800", "pair": ["a\\udfff", "b"]}') == Trial("\ud800", ("a\udfff", "b"))


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b'{"id": "a"', "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"pair": ["a", "b"]}', "without a string id"),
        (b'{"id": 3}', "without a string id"),
        (b'{"id": "\xe9"}', "not UTF-8"),
        (None, "longer than 256 MiB"),
    ],
)
def test_lines_that_are_no_trials(line, fault):
    with pytest.raises(BadLine, match=f"^{fault}$"):
        parse_trial(line)


def opened(folder, content, name="pairs.jsonl"):
    (folder / name).write_bytes(content)
    return TrialFile(str(folder / name), folder)


CONTENT = b"""{"id": "a", "pair": ["one", "two"]}

nonsense
{"id": "b", "pair": ["", "two"]}
{"id": "a", "pair": ["three", "four"]}
{"id": "b", "pair": null}
{"id": "c", "pair": ["five", "six"]}
also nonsense
"""


def test_one_pass_finds_everything(tmp_path):
    with opened(tmp_path, CONTENT) as trials:
        found = trials.inspect()
        assert (found.trials, found.unusable) == (3, 1)  # a, b, c; the second b is not counted
        assert found.faults == {"not JSON": [3, 8], "with an id that came before": [5, 6]}
        assert found.report == "2 lines not JSON (lines 3, 8); 2 lines with an id that came before (lines 5, 6)"
        assert found.skip == {3, 5, 6, 8}
        kept = [Trial("a", ("one", "two")), Trial("b", None), Trial("c", ("five", "six"))]
        assert list(trials.read(found.skip)) == kept
        for first in range(4):
            assert list(trials.read(found.skip, first)) == kept[first:]


def test_many_faults_are_counted_and_a_few_named(tmp_path):
    with opened(tmp_path, b"x\n" * 7 + GOOD) as trials:
        assert trials.inspect().report == "7 lines not JSON (lines 1, 2, 3, 4, 5, ...)"


def test_the_same_trials_have_the_same_hash(tmp_path):
    """By which a broken run is known again: blank lines and line ends do not matter, every letter does."""
    one, other = GOOD, GOOD.replace(b"one", b"three")
    hashes = []
    for content in (one + b"\n" + other, b"\n\n" + one + b"\r\n  \r\n" + other + b"\r\n", other + b"\n" + one, one):
        with opened(tmp_path, content) as trials:
            hashes.append(trials.inspect().sha256)
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


def test_a_file_that_is_removed_can_still_be_read(tmp_path):
    with opened(tmp_path, GOOD) as trials:
        trials.inspect()
        (tmp_path / "pairs.jsonl").unlink()
        assert [trial.id for trial in trials.read()] == ["a"]


def test_a_file_that_changes_is_noticed(tmp_path):
    with opened(tmp_path, GOOD + b"\n" + GOOD.replace(b'"a"', b'"b"')) as trials:
        skip = trials.inspect().skip
        (tmp_path / "pairs.jsonl").write_bytes(GOOD + b"\nnonsense")
        with pytest.raises(EnvironmentFault, match=r"pairs.jsonl changed while it was read \(line 2\)"):
            list(trials.read(skip))


def test_a_pipe_is_read_twice(tmp_path):
    """It can be read but once, so it is copied."""
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(CONTENT,))
    writer.start()
    with TrialFile(str(tmp_path / "pipe"), tmp_path) as trials:
        writer.join()
        assert [trial.id for trial in trials.read(trials.inspect().skip)] == ["a", "b", "c"]
        assert [p.name for p in tmp_path.iterdir()] == ["pipe"]  # the copy has no name


def test_standard_input(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(CONTENT)))
    with TrialFile("-", tmp_path) as trials:
        assert trials.name == "standard input"
        assert trials.inspect().trials == 3
        assert [trial.id for trial in trials.read(frozenset({3, 5, 6, 8}))] == ["a", "b", "c"]
