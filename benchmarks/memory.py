"""Peak memory of `pan21av predict` as the input grows: it should not.

Writes pairs of 21,000 characters, every text distinct, runs the command on them as a user would, and samples the
memory of its whole process tree (proportional set size, so that pages which processes share count once).

    python benchmarks/memory.py 2000 20000 [--models default]

With --prepare it is the preparation of training texts (preset paper) instead, on pairs that generate.py writes, with as
many authors and topics as PAN20 has for so many pairs; then five minutes of a member's training. What grows in
preparation is the table of token types, some hundred bytes each; the tokens go to disk.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import generate
from bench import CHARACTERS, make_texts

CHUNK = 50  # documents made from one seed
MEMBER_SECONDS = 300


def write_pairs(path: Path, pairs: int) -> None:
    """Trials whose texts have 30,000 words of their own every 25 pairs, so that no table of words ever settles."""
    with path.open("w", encoding="utf-8") as out:
        for first in range(0, pairs, CHUNK // 2):
            texts = make_texts(CHUNK, CHARACTERS, seed=random.Random(first).getrandbits(32))
            for n in range(min(CHUNK // 2, pairs - first)):
                trial = {"id": f"trial-{first + n}", "fandoms": ["a", "b"], "pair": texts[2 * n : 2 * n + 2]}
                out.write(json.dumps(trial) + "\n")


def tree_of(root: int) -> list[int]:
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                todo += [int(child) for child in children.read_text().split()]
            except OSError:
                continue  # the thread has just ended
    return found


def proportional_bytes(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass  # it has just ended
    return 0


def run(command: list[str], seconds: float = math.inf) -> dict[str, float]:
    """Peak of the process tree, time passed, and time that its cores were busy; of the first `seconds` alone."""
    began, busy, peak, stopped = time.perf_counter(), os.times(), 0, False
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            peak = max(peak, sum(map(proportional_bytes, tree_of(process.pid))))
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
            if not stopped and time.perf_counter() - began > seconds:
                process.terminate()
                stopped = True
    if process.returncode and not stopped:
        sys.exit(f"{command[1:4]} ended with {process.returncode}")
    now = os.times()
    core_seconds = now.children_user + now.children_system - busy.children_user - busy.children_system
    return {"MiB": peak / 2**20, "seconds": time.perf_counter() - began, "core_seconds": core_seconds}


def measure(pairs: int, models: str, folder: Path) -> dict[str, float]:
    file = folder / f"pairs-{pairs}.jsonl"
    write_pairs(file, pairs)
    command = [sys.executable, "-m", "pan21av", "-q", "predict", "-i", str(file), "-o", str(folder / f"out-{pairs}")]
    found = run([*command, "--models", models])
    answers = sum(1 for _ in (folder / f"out-{pairs}" / "answers.jsonl").open())
    assert answers == pairs, f"{answers} answers for {pairs} pairs"
    file.unlink()
    return {"pairs": pairs, **found}


PREPARE = """
import sys
from pathlib import Path
if __name__ == "__main__":  # worker processes load nothing of this, as with the command
    from pan21av.training.prepare import prepare
    from pan21av.training.settings import load_settings
    made = prepare([Path(sys.argv[1])], Path(sys.argv[2]), load_settings("paper"))
    size = sum(file.stat().st_size for file in Path(sys.argv[2]).iterdir())
    print(f"{len(made.split):,} documents, {len(made.tokens):,} tokens, {len(made.types):,} types, {size:,} bytes")
"""


def measure_preparation(pairs: int, folder: Path, characters: int = CHARACTERS) -> dict[str, float]:
    """The corpus stays in `folder`/corpus, what is prepared in `folder`/work."""
    script = folder / "prepare.py"
    generate.write(
        folder / "corpus", pairs, authors=max(40, 2 * pairs // 5), topics=max(24, min(1600, pairs // 30)),
        characters=characters,
    )  # fmt: skip
    script.write_text(PREPARE)
    return {"pairs": pairs, **run([sys.executable, str(script), str(folder / "corpus"), str(folder / "work/prepared")])}


def measure_member(pairs: int, folder: Path, seconds: float = MEMBER_SECONDS) -> dict[str, float]:
    """Of what was prepared there."""
    options = ["-o", folder / "out", "--work", folder / "work", "--preset", "paper", "--members", 1, "--jobs", 1]
    command = [sys.executable, "-m", "pan21av", "train", folder / "corpus", *options]
    return {"pairs": pairs, **run([str(word) for word in command], seconds)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=int, nargs="+")
    parser.add_argument("--models", default="default")
    parser.add_argument("--prepare", action="store_true", help="training texts instead of predictions")
    options = parser.parse_args()
    for pairs in options.pairs:
        with tempfile.TemporaryDirectory(prefix="pan21av-memory-") as place:
            folder = Path(place)
            if options.prepare:
                report("preparation", measure_preparation(pairs, folder))
                report("a member", measure_member(pairs, folder))
            else:
                report("predict", measure(pairs, options.models, folder))


def report(what: str, result: dict[str, float]) -> None:
    line = "{pairs:7,.0f} pairs  {MiB:7.0f} MiB at the peak  {seconds:7.0f} s  {core_seconds:7.0f} core-seconds"
    print(f"{what:12} {line.format(**result)}", flush=True)


if __name__ == "__main__":
    main()
