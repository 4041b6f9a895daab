"""Everything that can go wrong around `predict`: each fault is really produced.

One clear line and a documented exit code: 0 done, 2 bad input or usage, 3 environment, 130 interrupted.
"""

import gzip
import hashlib
import json
import lzma
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import generated_corpus
import numpy as np
import pytest
from support import (
    FITTED,
    HANGS,
    LAX_LIMITS,
    ROOT,
    TINY,
    TINY_FULL,
    WORDS,
    prose,
    random_network,
    write_random_ensemble,
)

from pan21av.commands.predict import ANSWERS_KEPT, predict
from pan21av.data.tokeniser import CHARS_PER_TOKEN
from pan21av.data.trials import TrialFile
from pan21av.network import kernel
from pan21av.network.checkpoint import MANIFEST, member_files
from pan21av.verifier import Verifier

KILLS = int(os.environ.get("PAN21AV_KILLS", "3"))
GOOD = ["the old house was there, but they had it", "it was not for you to be here with that"]


def line(trial="a", pair=GOOD, **more):
    return json.dumps({"id": trial, "pair": pair, **more})


def lines(*rows):
    return "\n".join(rows).encode()


def pairs_of_words(count, seed=0, words=60):
    rng = random.Random(seed)
    texts = [" ".join(rng.choices(WORDS, k=words)) for _ in range(2 * count)]
    return lines(*(line(f"t{n}", texts[2 * n : 2 * n + 2]) for n in range(count)))


def answers(folder):
    return [json.loads(entry) for entry in (folder / "answers.jsonl").read_bytes().splitlines()]


def one_line(done):
    """The last line of stderr; there must be no traceback above it."""
    text = done.stderr.decode()
    assert "Traceback" not in text
    return text.strip().splitlines()[-1]


# ---- input: refused before anything is computed, unless --lenient leaves the lines out ------------

BAD_LINES = {
    "not JSON": (b'{"id": "a"', "not JSON"),
    "two objects on a line": (lines(line("a") + line("b")), "not JSON"),
    "not an object": (b"[1, 2]", "not a JSON object"),
    "a bare string": (b'"text"', "not a JSON object"),
    "no id": (b'{"pair": ["a", "b"]}', "without a string id"),
    "a number as id": (b'{"id": 3, "pair": ["a", "b"]}', "without a string id"),
    "null as id": (b'{"id": null, "pair": ["a", "b"]}', "without a string id"),
    "Latin-1": ('{"id": "é", "pair": ["é", "b"]}'.encode("latin-1"), "not UTF-8"),
    "nested beyond reason": (b'{"id":' + b"[" * 100_000 + b"}", "not JSON"),
    "a repeated id": (lines(line("x")), "with an id that came before"),
}


@pytest.mark.parametrize("fault", BAD_LINES)
def test_lines_that_are_no_trials(tiny_ensemble, tmp_path, command, fault):
    content, message = BAD_LINES[fault]
    (tmp_path / "pairs.jsonl").write_bytes(b"\n".join([lines(line("x"), line("y")), content, lines(line("z"))]))
    arguments = ("predict", "-i", "pairs.jsonl", "-o", "out", "--models", tiny_ensemble)
    done = command(*arguments)
    assert done.returncode == 2
    assert f"1 line {message} (line 3); expected" in one_line(done)
    assert not (tmp_path / "out").exists()
    done = command(*arguments, "--lenient")
    assert done.returncode == 0, done.stderr
    assert [a["id"] for a in answers(tmp_path / "out")] == ["x", "y", "z"]
    assert json.loads((tmp_path / "out" / "run.json").read_text())["lines_left_out"] == 1


def test_all_faults_are_reported_at_once(tiny_ensemble, tmp_path, command):
    rows = [line("a"), "nonsense", "", *(["[]"] * 7), line("a"), line("b", None), line("c", ["", "x"])]
    (tmp_path / "pairs.jsonl").write_text("\n".join(rows))
    arguments = ("predict", "-i", "pairs.jsonl", "-o", "out", "--models", tiny_ensemble)
    message = one_line(command(*arguments))
    assert "1 line not JSON (line 2); 7 lines not a JSON object (lines 4, 5, 6, 7, 8, ...)" in message
    assert "1 line with an id that came before (line 11)" in message
    done = command(*arguments, "--lenient")
    assert done.returncode == 0
    assert [(a["id"], a["value"] == 0.5) for a in answers(tmp_path / "out")][1:] == [("b", True), ("c", True)]
    report = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (report["pairs"], report["unusable"], report["lines_left_out"]) == (3, 2, 9)


ODD_TEXTS = {
    "byte order mark": b"\xef\xbb\xbf" + lines(line("a")),
    "CRLF": lines(line("a")).replace(b"\n", b"\r\n") + b"\r\n",
    "blank lines": b"\n\n  \n" + lines(line("a")) + b"\n\n",
    "no final newline": lines(line("a")),
    "NUL characters": lines(line("a", ["x\0y \0", GOOD[1]])),
    "a lone surrogate": b'{"id": "a", "pair": ["\\ud800 and", "\\udfff \\ud83d"]}',
    "right to left": lines(line("a", ["שלום עולם. " * 50, "مرحبا بالعالم " * 50])),
    "emoji": lines(line("a", ["👩‍👩‍👧‍👦🏳️‍🌈 " * 99, "\U0010ffff" * 40])),
    "HTML": lines(line("a", ["<script>alert('x')</script><br>" * 30, GOOD[1]])),
    "a page of nothing but mark-up": lines(line("a", ["<p><br></p>" * 30, GOOD[1]])),
    "a page with declarations that are none": lines(line("a", ["<p>one</p><p>two</p><![<b>three</b>", GOOD[1]])),
    "a page that breaks off": lines(line("a", ["<p>one</p><p>two</p><a href='", "<p>one</p><p>two</p><!--"])),
    "binary rubbish": lines(line("a", ["".join(map(chr, range(1, 256))) * 9, GOOD[1]])),
    "combining marks": lines(line("a", ["e" + "\u0301" * 5000, GOOD[1]])),
    "one endless word": lines(line("a", ["x" * 300_000, GOOD[1]])),
}


@pytest.fixture(scope="module")
def mending_ensemble(tmp_path_factory):
    """It takes out what is not the author's before it reads a text, and turns none away."""
    return write_random_ensemble(tmp_path_factory.mktemp("models") / "mending", limits=LAX_LIMITS)


@pytest.mark.parametrize("fault", ODD_TEXTS)
def test_odd_texts_are_answered(mending_ensemble, tmp_path, fault):
    (tmp_path / "pairs.jsonl").write_bytes(ODD_TEXTS[fault])
    predict(str(tmp_path), tmp_path / "out", models=mending_ensemble)
    with TrialFile(str(tmp_path / "pairs.jsonl"), tmp_path) as file:
        (trial,) = file.read()
    verdict = Verifier.load(mending_ensemble).verify(*trial.texts)
    assert answers(tmp_path / "out") == [{"id": "a", "value": verdict.probability}]


def test_a_lone_surrogate_as_id(tiny_ensemble, tmp_path):
    (tmp_path / "pairs.jsonl").write_bytes(b'{"id": "\\ud800", "pair": ["one", "two"]}')
    predict(str(tmp_path), tmp_path / "out", models=tiny_ensemble)
    assert answers(tmp_path / "out")[0]["id"] == "\ud800"


def test_a_text_of_50_megabytes(mending_ensemble, tmp_path):
    """Only its beginning is looked at, so it costs no more than other texts: whatever follows changes nothing, though
    its words would be among the first that the network reads."""
    head = GOOD[0] + " " + "x" * 2 * CHARS_PER_TOKEN * TINY.max_tokens  # the x's are one token
    tail = " " + " ".join(WORDS)
    tail *= 50_000_000 // len(tail)
    texts = {"whole": head + tail, "beginning": head, "another": GOOD[0] + " xxx" + tail[:5000]}
    (tmp_path / "pairs.jsonl").write_text("\n".join(line(name, [text, GOOD[1]]) for name, text in texts.items()))
    predict(str(tmp_path), tmp_path / "out", models=mending_ensemble, details=True)
    whole, beginning, another = np.load(tmp_path / "out" / "details.npy")
    assert np.array_equal(whole, beginning)
    assert not np.array_equal(whole, another)


COSTLY_TEXTS = {
    "a Gutenberg header and blank lines": "Project Gutenberg" + "\n" * 300_000 + "x",
    "a Gutenberg header and spaces": "Project Gutenberg" + " " * 1_000_000 + "x",
    "tags that are never closed": "<p><p><p>" + "<a " * 100_000,
    "comments that are never closed": "<p><p><p>" + "<!--" * 400_000,
    "e-mail headers": "from: me\n to you\n" * 100_000,
    "angle brackets": "<" * 1_000_000,
}


@pytest.mark.parametrize("fault", COSTLY_TEXTS)
def test_no_text_takes_for_ever(mending_ensemble, tmp_path, process, fault):
    """A minute of computing, where an ordinary text of that length takes a second: a busy machine changes nothing."""
    (tmp_path / "pairs.jsonl").write_text(line("a", [COSTLY_TEXTS[fault], GOOD[1]]))
    done = process(
        "predict", "-i", "pairs.jsonl", "-o", "out", "--models", mending_ensemble, "--threads", "1",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (60, 60)),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert len(answers(tmp_path / "out")) == 1


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress])
def test_compressed_input(tiny_ensemble, tmp_path, compress):
    (tmp_path / "pairs.jsonl.gz").write_bytes(compress(pairs_of_words(40)))
    predict(str(tmp_path), tmp_path / "packed", models=tiny_ensemble)
    (tmp_path / "plain.jsonl").write_bytes(pairs_of_words(40))
    predict(str(tmp_path / "plain.jsonl"), tmp_path / "plain", models=tiny_ensemble)
    assert (tmp_path / "packed" / "answers.jsonl").read_bytes() == (tmp_path / "plain" / "answers.jsonl").read_bytes()


WRONG_FILES = {
    "UTF-16": (line().encode("utf-16"), 2, "is UTF-16"),
    "zip": (b"PK\x03\x04rest", 2, "is a zip archive"),
    "cut gzip": (gzip.compress(pairs_of_words(99))[:200], 2, "cannot be decompressed"),
    "damaged xz": (lzma.compress(pairs_of_words(99))[:-90] + bytes(90), 2, "cannot be decompressed"),
    "empty": (b"", 2, "holds no trials"),
    "white space": (b"\n \n\n", 2, "holds no trials"),
    "binary": (bytes(range(256)) * 9, 2, "not UTF-8"),
}


@pytest.mark.parametrize("fault", WRONG_FILES)
def test_files_that_are_something_else(tiny_ensemble, tmp_path, command, fault):
    content, code, message = WRONG_FILES[fault]
    (tmp_path / "pairs.jsonl").write_bytes(content)
    done = command("predict", "-i", "pairs.jsonl", "-o", "out", "--models", tiny_ensemble)
    assert done.returncode == code
    assert message in one_line(done)


# ---- broken runs ------------------------------------------------------------------------------------


class Run:
    """The real command in the background, in a process group of its own."""

    def __init__(self, *arguments, **options):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pan21av", *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, **options,
        )  # fmt: skip

    def wait_until(self, condition):
        """False if the run ended before `condition` held; one that failed fails the test."""
        while not condition():
            if self.process.poll() is not None:
                code, errors = self.end()
                assert code == 0, errors
                return False
            time.sleep(0.005)
        return True

    def freeze(self, condition):
        """Stop it once `condition` holds, so that what a test does next happens in the middle of the run. Not its
        workers: one stopped while it starts (vfork) would keep the run from stopping."""
        assert self.wait_until(condition), "it was over too soon"
        self.process.send_signal(signal.SIGSTOP)
        state = os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert state.si_code == os.CLD_STOPPED, "it was over too soon"
        assert condition()

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)
        return self.end()

    def kill(self):
        """With its workers, as a machine that goes down does."""
        os.killpg(self.process.pid, signal.SIGKILL)
        return self.end()

    def end(self):
        """Its exit code and what it said."""
        _, errors = self.process.communicate(timeout=HANGS)
        return self.process.returncode, errors.decode()


def holds_answers(folder, size=1):
    """Whether so many bytes of unfinished answers are there."""

    def condition():
        try:
            return (folder / "answers.jsonl.part").stat().st_size >= size
        except FileNotFoundError:  # not yet, or no longer
            return False

    return condition


def has_begun(folder):
    return (folder / "resume.json").exists


@pytest.fixture(scope="module")
def long_run(tmp_path_factory):
    """500 pairs, some texts coming again, an ensemble slow enough to be interrupted, the unbroken answers."""
    folder = tmp_path_factory.mktemp("long")
    rng = random.Random(1)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(5, 900))) for _ in range(700)]
    rows = [line(f"t{n}", ["", "x"] if n % 97 == 5 else rng.sample(texts, 2)) for n in range(500)]
    (folder / "pairs.jsonl").write_text("\n".join(rows))
    models = write_random_ensemble(folder / "models", count=21)
    predict(str(folder), folder / "whole", models=models, details=True)
    return folder, models


def same_as_whole(folder, out, names=("answers.jsonl",)):
    for name in names:
        assert (out / name).read_bytes() == (folder / "whole" / name).read_bytes()
    beside = {"ratios.csv"} if "details.npy" in names else set()
    assert {p.name for p in out.iterdir()} == {*names, "run.json", *beside}


@pytest.mark.skipif(not kernel.available(), reason="without the kernel, answers are the same to 1e-6 only")
def test_killed_at_random_moments_it_ends_with_the_same_bytes(long_run, tmp_path):
    """Up to three kills on the way of every run, KILLS of them at least in all; `make fuzz` does 20."""
    folder, models = long_run
    rng = random.Random(2)
    kills = resumed = rounds = 0
    while kills < KILLS or not resumed:  # a run that ends before its last kill leaves nothing to go on with
        rounds += 1
        assert rounds <= 4 * KILLS, f"{kills} kills, {resumed} runs went on: it is too fast for this test"
        out = tmp_path / f"out{rounds}"
        part, final = out / "answers.jsonl.part", out / "answers.jsonl"
        for _ in range(3):
            size = part.stat().st_size if part.exists() else 0
            run = Run("predict", "-i", folder, "-o", out, "--models", models, "--threads", "1", "--details")
            if not run.wait_until(holds_answers(out, size + rng.randint(0, 9000))):
                break  # it was faster
            time.sleep(rng.uniform(0, 0.05))
            code, errors = run.kill()
            if code == 0 or final.exists():
                break  # the same
            assert code == -signal.SIGKILL, errors
            assert part.exists()
            kills += 1
        kept = part.read_bytes().count(b"\n") if part.exists() else 0
        moving = (out / "details.npy").exists()  # killed between the two moves at the end: it may begin anew
        report = predict(str(folder), out, models=models, details=True)
        assert moving or report["resumed_after"] == kept - kept % ANSWERS_KEPT
        resumed += report["resumed_after"] > 0
        same_as_whole(folder, out, ("answers.jsonl", "details.npy"))


@pytest.mark.skipif(not kernel.available(), reason="without the kernel, answers are the same to 1e-6 only")
def test_killed_with_a_population_of_its_own_texts(long_run, tmp_path):
    """`--population self`: killed again and again, resumed with other numbers of threads, it gives the same bytes."""
    folder, _ = long_run
    models = write_random_ensemble(tmp_path / "models", count=21, config=TINY_FULL)
    options = ["predict", "-i", folder, "--models", models, "--details", "--population", "self"]
    predict(str(folder), tmp_path / "whole", models=models, details=True, population="self")
    out, kills = tmp_path / "out", 0
    part = out / "answers.jsonl.part"
    while kills < KILLS:
        size = part.stat().st_size if part.exists() else 0
        run = Run(*options, "-o", out, "--threads", 1 + kills % 2)
        assert run.wait_until(holds_answers(out, size + 1)), f"only {kills} kills hit the run: it is too fast"
        code, errors = run.kill()
        assert code == -signal.SIGKILL, errors
        kills += 1
    code, errors = Run(*options, "-o", out).end()
    assert code == 0, errors
    assert json.loads((out / "run.json").read_bytes())["resumed_after"] > 0
    same_as_whole(tmp_path, out, ("answers.jsonl", "details.npy"))
    texts = [json.loads((place / "run.json").read_bytes())["population"] for place in (out, tmp_path / "whole")]
    assert texts[0] == texts[1]
    assert texts[0]["texts"] == 300


INTERRUPTED_AT = """import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPTED_AT"]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize("module", ["pan21av.cli", "click", "orjson", "pan21av.commands.predict", "torch"])
def test_ctrl_c_in_the_first_tenth_of_a_second(tiny_ensemble, tmp_path, process, module):
    """While Python still loads what the command needs: a line and 130, no traceback and no folder."""
    (tmp_path / "early").mkdir()
    (tmp_path / "early" / "sitecustomize.py").write_text(INTERRUPTED_AT)
    (tmp_path / "pairs.jsonl").write_text(json.dumps({"id": "a", "pair": [prose(1), prose(2)]}))
    path = os.pathsep.join([str(tmp_path / "early"), str(ROOT)])
    done = process("predict", "-i", "pairs.jsonl", "-o", "out", "--models", tiny_ensemble,
                   env={"PYTHONPATH": path, "INTERRUPTED_AT": module})  # fmt: skip
    assert done.returncode == 130
    assert done.stderr.decode().startswith("pan21av: interrupted")
    assert b"Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_pictures_without_chatter_on_fonts(tmp_path, process):
    """matplotlib tells of its fonts where it has no cache of them yet."""
    pytest.importorskip("matplotlib")
    rows = [{"id": str(n), "value": 0.1 + 0.2 * n, "same": n > 1} for n in range(4)]
    for name, keys in (("answers.jsonl", ("id", "value")), ("truth.jsonl", ("id", "same"))):
        (tmp_path / name).write_text("\n".join(json.dumps({key: row[key] for key in keys}) for row in rows))
    done = process("evaluate", "-a", "answers.jsonl", "-t", "truth.jsonl", "-o", "figures",
                   env={"MPLCONFIGDIR": str(tmp_path / "empty")})  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert (tmp_path / "figures" / "roc.png").exists()
    assert b"font" not in done.stderr.lower()


def test_a_training_that_cannot_be_leaves_nothing(tmp_path, command):
    """Two authors are too few, and it says how many are needed."""
    generated_corpus.write(tmp_path / "documents.jsonl", generated_corpus.documents(2))
    done = command("train", "documents.jsonl", "-o", "mine", "--preset", "light", "--members", "1")
    assert done.returncode == 2
    assert b"2 of 2 in all" in done.stderr
    assert b"each part needs 4 such authors" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["documents.jsonl"]


@pytest.mark.parametrize(("number", "send"), [(signal.SIGTERM, os.kill), (signal.SIGINT, os.killpg)])
def test_signals_end_a_run_at_once_and_it_goes_on(long_run, tmp_path, number, send):
    """`docker stop` reaches the process alone, Ctrl-C the whole group. At once: what was computed is written, but no
    further chunk is waited for."""
    folder, models = long_run
    part = tmp_path / "answers.jsonl.part"
    run = Run("predict", "-i", folder, "-o", tmp_path, "--models", models, "--threads", "1")
    run.freeze(holds_answers(tmp_path))
    before = part.read_bytes().count(b"\n")
    send(run.process.pid, number)
    code, errors = run.go_on()
    assert code == 130
    assert errors.strip().splitlines()[-1] == "pan21av: interrupted; run the same command again to go on"
    assert "Traceback" not in errors
    assert not (tmp_path / "answers.jsonl").exists()
    assert ANSWERS_KEPT <= before <= part.read_bytes().count(b"\n") <= before + ANSWERS_KEPT
    report = predict(str(folder), tmp_path, models=models)
    assert report["resumed_after"] >= ANSWERS_KEPT
    same_as_whole(folder, tmp_path)


@pytest.fixture
def broken(long_run, tmp_path):
    """What a killed run leaves: a part file and the identity of its run."""
    folder, models = long_run
    run = Run("predict", "-i", folder, "-o", tmp_path / "out", "--models", models)
    run.freeze(has_begun(tmp_path / "out"))
    run.kill()
    identity = (tmp_path / "out" / "resume.json").read_bytes()

    def make(content):
        shutil.rmtree(tmp_path / "out")
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "resume.json").write_bytes(identity)
        (tmp_path / "out" / "answers.jsonl.part").write_bytes(content)
        return tmp_path / "out"

    return make


def test_a_damaged_part_is_kept_as_far_as_it_is_valid(long_run, broken):
    folder, models = long_run
    whole = (folder / "whole" / "answers.jsonl").read_bytes().splitlines(keepends=True)
    tails = [
        b"\0" * 5000,  # as after a power loss
        b'{"id": "t70", "val',
        b'{"id": "other", "value": 0.5}\n',
        b'{"id": "t70", "value": NaN}\n',
        b'{"id": "t70", "value": 7.5}\n',
        b"[]\n",
    ]
    for tail in tails:
        out = broken(b"".join(whole[:70]) + tail)
        assert predict(str(folder), out, models=models)["resumed_after"] == 64
        same_as_whole(folder, out)
    out = broken(b"".join(whole[:96]))
    (out / "resume.json").write_bytes(b"{")  # then nothing can be trusted
    assert predict(str(folder), out, models=models)["resumed_after"] == 0


@pytest.mark.parametrize("change", ["input", "ensemble"])
def test_another_input_or_ensemble_starts_anew(long_run, broken, tiny_ensemble, tmp_path, caplog, change):
    folder, models = long_run
    caplog.set_level("INFO")
    out = broken((folder / "whole" / "answers.jsonl").read_bytes())
    other = tmp_path / "other.json"
    other.write_bytes((folder / "pairs.jsonl").read_bytes() + lines("", line("new")))
    source, used = (other, models) if change == "input" else (folder, tiny_ensemble)
    assert predict(str(source), out, models=used)["resumed_after"] == 0
    assert "is of another input or ensemble: starting anew" in caplog.text


def test_an_answer_file_is_never_left_half_overwritten(long_run, tmp_path):
    folder, models = long_run
    shutil.copy(folder / "whole" / "answers.jsonl", tmp_path / "answers.jsonl")
    run = Run("predict", "-i", folder, "-o", tmp_path, "--models", models)
    run.freeze(holds_answers(tmp_path))
    run.kill()
    assert (tmp_path / "answers.jsonl").read_bytes() == (folder / "whole" / "answers.jsonl").read_bytes()


def test_two_runs_into_one_folder(long_run, tmp_path, command):
    folder, models = long_run
    run = Run("predict", "-i", folder, "-o", tmp_path / "out", "--models", models, "--threads", "1")
    run.freeze(has_begun(tmp_path / "out"))
    done = command("predict", "-i", folder, "-o", tmp_path / "out", "--models", models)
    code, errors = run.go_on()
    assert done.returncode == 3
    assert "another run is writing into" in one_line(done)
    assert code == 0, errors
    same_as_whole(folder, tmp_path / "out")


# ---- the machine ------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path):
    """Mounts a tmpfs with the given options, where this process may."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(options):
        if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], capture_output=True).returncode:
            pytest.skip("no right to mount a tmpfs")
        return folder

    yield mount
    subprocess.run(["umount", folder], capture_output=True)


def test_full_disk(long_run, disk, command):
    folder, models = long_run
    out = disk("size=16k")
    done = command("predict", "-i", folder, "-o", out, "--models", models)
    assert done.returncode == 3
    assert "No space left on device" in one_line(done)
    assert not (out / "answers.jsonl").exists()


def test_read_only_output(long_run, disk, command):
    folder, models = long_run
    done = command("predict", "-i", folder, "-o", disk("ro"), "--models", models)
    assert done.returncode == 3
    assert "Read-only file system" in one_line(done)


def test_a_quota(long_run, tmp_path, process):
    folder, models = long_run

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    done = process("predict", "-i", folder, "-o", tmp_path / "out", "--models", models, preexec_fn=limit)
    assert done.returncode == 3
    assert "File too large" in one_line(done)


def test_output_that_cannot_be_made(tiny_ensemble, tmp_path, command):
    (tmp_path / "pairs.jsonl").write_bytes(pairs_of_words(2))
    (tmp_path / "file").write_text("")
    done = command("predict", "-i", "pairs.jsonl", "-o", "file/out", "--models", tiny_ensemble)
    assert done.returncode == 3
    assert "cannot write file/out" in one_line(done)


def as_nobody():
    os.setgid(65534)
    os.setuid(65534)


@pytest.fixture
def anybodys(tmp_path, tiny_ensemble):
    """Input and models that any user may read, and a folder that only root may write."""
    if os.getuid():
        pytest.skip("only root can become another user")
    for folder in (tmp_path, *tmp_path.parents[:2], tiny_ensemble.parent, *tiny_ensemble.parent.parents[:1]):
        folder.chmod(0o755)
    (tmp_path / "pairs.jsonl").write_bytes(pairs_of_words(40))
    (tmp_path / "locked").mkdir(mode=0o755)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    try:
        probe = [sys.executable, "-c", "import pan21av, torch"]
        subprocess.run(probe, preexec_fn=as_nobody, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("another user cannot run this Python; the Docker tests do the same")
    return tmp_path


def test_output_without_the_right_to_write(anybodys, tiny_ensemble, process):
    done = process(
        "predict", "-i", anybodys / "pairs.jsonl", "-o", anybodys / "locked", "--models", tiny_ensemble,
        preexec_fn=as_nobody,
    )  # fmt: skip
    assert done.returncode == 3
    assert "Permission denied" in one_line(done)


def test_no_home_and_a_read_only_working_directory(tiny_ensemble, disk, tmp_path):
    (tmp_path / "pairs.jsonl").write_bytes(pairs_of_words(40))
    done = subprocess.run(
        [sys.executable, "-m", "pan21av", "predict", "-i", tmp_path / "pairs.jsonl", "-o", tmp_path / "out",
         "--models", tiny_ensemble],
        cwd=disk("ro"), env={"PATH": os.environ["PATH"]}, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert len(answers(tmp_path / "out")) == 40


def test_no_home_no_right_to_the_working_directory_or_the_package(anybodys, tiny_ensemble):
    environment = {"PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-m", "pan21av", "predict", "-i", anybodys / "pairs.jsonl", "-o", anybodys / "open",
         "--models", tiny_ensemble],
        cwd="/", env=environment, preexec_fn=as_nobody, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert len(answers(anybodys / "open")) == 40


def test_input_removed_while_it_is_read(long_run, tmp_path):
    folder, models = long_run
    source = Path(shutil.copy(folder / "pairs.jsonl", tmp_path / "pairs.jsonl"))
    run = Run("predict", "-i", source, "-o", tmp_path / "out", "--models", models, "--threads", "1")
    run.freeze(has_begun(tmp_path / "out"))
    source.unlink()
    code, errors = run.go_on()
    assert code == 0, errors
    same_as_whole(folder, tmp_path / "out")


def test_input_cut_while_it_is_read(long_run, tmp_path):
    folder, models = long_run
    source = Path(shutil.copy(folder / "pairs.jsonl", tmp_path / "pairs.jsonl"))
    run = Run("predict", "-i", source, "-o", tmp_path / "out", "--models", models, "--threads", "1")
    run.freeze(has_begun(tmp_path / "out"))
    os.truncate(source, 0)
    code, errors = run.go_on()
    assert code == 3
    assert "changed while it was read" in errors.strip().splitlines()[-1]
    assert not (tmp_path / "out" / "answers.jsonl").exists()


def test_a_killed_worker_is_done_without(long_run, tmp_path):
    folder, models = long_run
    run = Run("predict", "-i", folder, "-o", tmp_path, "--models", models, "--threads", "1")

    def workers():
        found = []
        for child in Path(f"/proc/{run.process.pid}/task/{run.process.pid}/children").read_text().split():
            with suppress(OSError):  # it has just ended
                found += [int(child)] if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes() else []
        return found

    run.freeze(workers)
    for worker in workers():
        os.kill(worker, signal.SIGKILL)
    code, errors = run.go_on()
    assert code == 0, errors
    assert "a worker process was killed" in errors
    same_as_whole(folder, tmp_path)


# ---- hostile files ----------------------------------------------------------------------------------


def rewritten(folder, tmp_path, stage, data):
    """A copy of an ensemble with one file of its first member replaced, and the manifest made to agree."""
    copy = Path(shutil.copytree(folder, tmp_path / "hostile"))
    manifest = json.loads((copy / MANIFEST).read_text())
    entry = manifest["members"][0][stage]
    (copy / entry["file"]).write_bytes(data)
    entry["sha256"] = hashlib.sha256(data).hexdigest()
    (copy / MANIFEST).write_text(json.dumps(manifest))
    return copy


def header(entries, data=b""):
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text + data


def weights(stage, fitted=FITTED, **changes):
    """A member's file, with some of its tensors changed."""
    state = {name: tensor[0].clone() for name, tensor in random_network(1).state_dict().items()}
    for name, change in changes.items():
        name = name.replace("__", ".")
        state[name] = change(state[name])
    return member_files(state, fitted, half=False)[stage]


HOSTILE = {
    "a header of 8 exabytes": ("stage1", b"\xff" * 8 + b"{}", "is damaged"),
    "a header that lies about the data": (
        "stage1", header({"x": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}), "is damaged",
    ),
    "overlapping tensors": (
        "stage1", header({n: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} for n in "xy"}, b"\0" * 4),
        "is damaged",
    ),
    "not safetensors": ("stage2", b"PK" * 400, "is damaged"),
    "tensors missing": ("stage1", header({}), "Missing key"),
    "a tensor of no use": (
        "stage1", header({"x": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}), "Unexpected key",
    ),
    "a tensor of the other stage": ("stage2", weights("stage2", (*FITTED, "metric.")), "is in the other file"),
    "a wrong shape": ("stage1", weights("stage1", metric__bias=lambda t: t[:-1]), "size mismatch"),
    "NaN": ("stage1", weights("stage1", metric__bias=lambda t: t * float("nan")), "not finite"),
    "infinity": ("stage2", weights("stage2", bfs__mean=lambda t: t + float("inf")), "not finite"),
    "weights that overflow": ("stage2", weights("stage2", bfs__between=lambda t: t + 300), "cannot be used"),
}  # fmt: skip


@pytest.mark.parametrize("fault", HOSTILE)
def test_hostile_weights(tiny_ensemble, tmp_path, command, fault):
    stage, data, message = HOSTILE[fault]
    models = rewritten(tiny_ensemble, tmp_path, stage, data)
    (tmp_path / "pairs.jsonl").write_bytes(pairs_of_words(2))
    done = command("predict", "-i", "pairs.jsonl", "-o", "out", "--models", models)
    assert done.returncode == 3
    assert message in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_a_huge_vocabulary(tiny_ensemble, tmp_path, command):
    copy = Path(shutil.copytree(tiny_ensemble, tmp_path / "hostile"))
    with (copy / "vocab.json").open("wb") as file:
        file.truncate(3 << 30)  # sparse
    (tmp_path / "pairs.jsonl").write_bytes(pairs_of_words(2))
    done = command("predict", "-i", "pairs.jsonl", "-o", "out", "--models", copy)
    assert done.returncode == 3
    assert "is larger than any" in one_line(done)


def test_a_corpus_that_unpacks_without_end(tmp_path, process):
    """1.5 GB of zeros in a file of 220 KB: reading stops at the longest line, in little memory."""
    with lzma.open(tmp_path / "documents.jsonl.xz", "wb", preset=0) as file:
        for _ in range(12):
            file.write(bytes(128 << 20))
    limit = 4 << 30
    done = process(
        "train", tmp_path / "documents.jsonl.xz", "-o", tmp_path / "out",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
    )  # fmt: skip
    assert done.returncode == 2
    assert "longer than 256 MiB" in one_line(done)


# ---- the commands about cases -----------------------------------------------------------------------

# What each writes, and how it is called.
CASES = {
    "page.html": ["attribute", "a.txt", "--known", "people"],
    "pair.html": ["explain", "a.txt", "people/b.txt"],
    "mine.npz": ["population", "-i", "texts"],
    "vectors.npz": ["embed", "-i", "documents.jsonl"],
    "mine": ["calibrate", "-i", "pairs.jsonl", "-t", "truth.jsonl"],
    "out": ["predict", "-i", "pairs.jsonl", "--population", "self", "--details"],
}


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """Input of all kinds, two ensembles, and labels that the one without n-grams can be calibrated on: they go by its
    answers."""
    folder = tmp_path_factory.mktemp("case")
    write_random_ensemble(folder / "models", config=TINY_FULL)
    models = write_random_ensemble(folder / "plain")
    (folder / "pairs.jsonl").write_bytes(pairs_of_words(100))
    pairs = [json.loads(row)["pair"] for row in (folder / "pairs.jsonl").read_bytes().splitlines()]
    said = np.array([verdict.probability for verdict in Verifier.load(models).predict(pairs)])
    for number, same in enumerate(said > np.median(said)):
        authors = [f"a{number % 40}", f"a{number % 40 if same else (number + 1) % 40}"]
        with (folder / "truth.jsonl").open("a") as file:
            file.write(json.dumps({"id": f"t{number}", "same": bool(same), "authors": authors}) + "\n")
    texts = [text for pair in pairs[:15] for text in pair]
    (folder / "documents.jsonl").write_bytes(
        lines(*(json.dumps({"id": f"d{n}", "text": text}) for n, text in enumerate(texts)))
    )
    for place in ("people", "texts"):
        (folder / place).mkdir()
    for number, text in enumerate(texts):
        (folder / "texts" / f"{number}.txt").write_text(text)
    (folder / "a.txt").write_text(texts[0])
    (folder / "people" / "b.txt").write_text(texts[1])
    return folder


def call(case, what, output):
    """Arguments with whole paths, whatever the working directory is."""
    arguments = [case / argument if (case / argument).exists() else argument for argument in CASES[what]]
    return [*arguments, "-o", output / what, "--models", case / ("plain" if what == "mine" else "models")]


@pytest.mark.parametrize("what", CASES)
def test_a_full_disk_in_a_case(case, disk, command, what):
    out = disk("size=4k")
    (out / "other").write_bytes(bytes(4096))
    done = command(*call(case, what, out))
    assert done.returncode == 3, done.stderr.decode()
    assert "No space left on device" in one_line(done)
    assert [path.name for path in out.rglob("*") if path.is_file() and path.stat().st_size] == ["other"]


@pytest.mark.parametrize("what", CASES)
def test_a_read_only_output_in_a_case(case, disk, command, what):
    done = command(*call(case, what, disk("ro")))
    assert done.returncode == 3, done.stderr.decode()
    assert "Read-only file system" in one_line(done)


@pytest.mark.parametrize("what", CASES)
def test_a_case_without_home_network_or_a_place_to_write(case, disk, tmp_path, what):
    """Nothing but the output is written, and nobody is asked over the network."""
    if subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode:
        pytest.skip("no right to leave the network")
    before = sorted(case.rglob("*"))
    done = subprocess.run(
        ["unshare", "-n", sys.executable, "-m", "pan21av", *call(case, what, tmp_path)],
        cwd=disk("ro"), capture_output=True,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "HOME": tmp_path / "disk"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    assert (tmp_path / what).exists()
    assert sorted(case.rglob("*")) == before
