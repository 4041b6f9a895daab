"""Answers as they are written, and what a second run makes of those of a broken one."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan21av.data.answers import AnswerFile, format_answer
from pan21av.errors import EnvironmentFault

IDENTITY = {"input": "x"}
IDS = [f"t{n}" for n in range(10)]
VALUES = [0.5 if n % 3 == 0 else n / 20 for n in range(10)]
STEP = 2
SHAPE = (10, 4, 3)
DETAILS = np.arange(120, dtype=np.float32).reshape(SHAPE)


@given(st.text(alphabet=st.characters(exclude_categories=())), st.floats(0, 1))
def test_answers_come_back_as_they_were(trial, value):
    line = format_answer(trial, value)
    assert json.loads(line) == {"id": trial, "value": value}
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1


class Broken(Exception):
    pass


def run(folder, upto=10, identity=IDENTITY, details=False, step=STEP):
    """Answer trials up to `upto`, after those kept of an earlier run; a run that is not complete breaks off."""
    with AnswerFile(folder) as out:
        kept = out.start(identity, IDS, step, SHAPE if details else None)
        for n in range(kept, upto):
            out.write(IDS[n], VALUES[n], DETAILS[n] if details else None)
        out.flush()
        if upto < 10:
            raise Broken
        out.finish()
        return kept, out


def broken_off(folder, upto, **options):
    with pytest.raises(Broken):
        run(folder, upto, **options)


def read(folder):
    return [json.loads(line) for line in (folder / "answers.jsonl").read_bytes().splitlines()]


EXPECTED = [{"id": trial, "value": value} for trial, value in zip(IDS, VALUES, strict=True)]


def test_a_run_without_faults(tmp_path):
    kept, out = run(tmp_path / "deep" / "out")
    assert (kept, out.count, out.non_responses) == (0, 10, 4)
    assert read(tmp_path / "deep" / "out") == EXPECTED
    assert [p.name for p in (tmp_path / "deep" / "out").iterdir()] == ["answers.jsonl"]


@pytest.mark.parametrize("upto", range(10))
@pytest.mark.parametrize("details", [False, True])
def test_a_broken_run_is_resumed_in_whole_steps(tmp_path, upto, details):
    broken_off(tmp_path, upto, details=details)
    assert not (tmp_path / "answers.jsonl").exists()
    assert not list(tmp_path.glob("*.jsonl")), "TIRA takes exactly one"
    kept, out = run(tmp_path, details=details)
    assert kept == upto - upto % STEP
    assert (out.count, out.non_responses) == (10, 4)
    assert read(tmp_path) == EXPECTED
    assert {p.name for p in tmp_path.iterdir()} == {"answers.jsonl"} | ({"details.npy"} if details else set())
    if details:
        np.testing.assert_array_equal(np.load(tmp_path / "details.npy"), DETAILS)


@pytest.mark.parametrize(
    "damage",
    [
        b'{"id": "t5"',  # a line cut off
        b'{"id": "t9", "value": 0.25}\n',
        b'{"id": "t5", "value": 1.5}\n',
        b'{"id": "t5", "value": NaN}\n',
        b'{"id": "t5", "value": 1}\n',
        b'{"id": "t5"}\n',
        b"[]\n",
        b"\xff\xfe\n",
        b"\0" * 100,
    ],
)
def test_damaged_ends_are_cut_off(tmp_path, damage):
    """What a crashed machine may leave. What comes after it is not trusted either."""
    broken_off(tmp_path, 5)
    with (tmp_path / "answers.jsonl.part").open("ab") as part:
        part.write(damage + format_answer("t6", VALUES[6]))
    assert run(tmp_path)[0] == 4
    assert read(tmp_path) == EXPECTED


def test_a_line_without_its_end_is_written_again(tmp_path):
    """Complete as it seems: the next answer would stand on the same line."""
    broken_off(tmp_path, 6)
    part = tmp_path / "answers.jsonl.part"
    part.write_bytes(part.read_bytes().removesuffix(b"\n"))
    assert run(tmp_path)[0] == 4
    assert read(tmp_path) == EXPECTED


@settings(max_examples=30)
@given(st.integers(0, 9), st.integers(0, 400), st.integers(0, 400))
def test_cut_anywhere(tmp_path_factory, upto, answers, details):
    """Answers and details reach the disk apart: either may be ahead of the other."""
    folder = tmp_path_factory.mktemp("cut")
    broken_off(folder, upto, details=True)
    for name, size in (("answers.jsonl.part", answers), ("details.npy.part", details)):
        if (folder / name).exists():  # none where nothing was answered
            with (folder / name).open("r+b") as part:
                part.truncate(min(size, (folder / name).stat().st_size))
    kept, _ = run(folder, details=True)
    assert kept <= upto
    assert read(folder) == EXPECTED
    np.testing.assert_array_equal(np.load(folder / "details.npy"), DETAILS)


def test_answers_of_another_run_are_not_kept(tmp_path):
    broken_off(tmp_path, 6)
    assert run(tmp_path, identity={"input": "other"})[0] == 0
    broken_off(tmp_path, 6)
    (tmp_path / "resume.json").write_bytes(b"{")
    assert run(tmp_path)[0] == 0
    assert read(tmp_path) == EXPECTED


def test_two_runs_at_once(tmp_path):
    with AnswerFile(tmp_path), pytest.raises(EnvironmentFault, match=f"another run is writing into {tmp_path}"):
        run(tmp_path)
    assert run(tmp_path)[0] == 0


def test_old_answers_stay_until_new_ones_are_complete(tmp_path):
    run(tmp_path)
    before = (tmp_path / "answers.jsonl").read_bytes()
    broken_off(tmp_path, 4, identity={"input": "new"})
    assert (tmp_path / "answers.jsonl").read_bytes() == before
