"""Peak memory of `pan21av predict` as the input grows: it should not.

Writes pairs of 21,000 characters, every text distinct, runs the command on them as a user would, and samples the
memory of its whole process tree (proportional set size, so that pages which processes share count once).

    python benchmarks/memory.py 2000 20000 [--models default]
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench import CHARACTERS, make_texts

CHUNK = 50  # documents made from one seed


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


def measure(pairs: int, models: str, folder: Path) -> dict[str, float]:
    file = folder / f"pairs-{pairs}.jsonl"
    write_pairs(file, pairs)
    command = [sys.executable, "-m", "pan21av", "-q", "predict", "-i", str(file), "-o", str(folder / f"out-{pairs}")]
    began, peak = time.perf_counter(), 0
    with subprocess.Popen([*command, "--models", models]) as process:
        while process.poll() is None:
            peak = max(peak, sum(map(proportional_bytes, tree_of(process.pid))))
            time.sleep(0.5)
    if process.returncode:
        sys.exit(f"predict ended with {process.returncode}")
    answers = sum(1 for _ in (folder / f"out-{pairs}" / "answers.jsonl").open())
    assert answers == pairs, f"{answers} answers for {pairs} pairs"
    file.unlink()
    return {"pairs": pairs, "MiB": peak / 2**20, "seconds": time.perf_counter() - began}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=int, nargs="+")
    parser.add_argument("--models", default="default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pan21av-memory-") as folder:
        for pairs in options.pairs:
            result = measure(pairs, options.models, Path(folder))
            print("{pairs:7,.0f} pairs  {MiB:7.0f} MiB at the peak  {seconds:7.0f} s".format(**result), flush=True)


if __name__ == "__main__":
    main()
