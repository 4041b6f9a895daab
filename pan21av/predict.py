"""`pan21av predict`: a file of trials to answers.jsonl."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson

from . import __version__
from .ensemble import NON_RESPONSE
from .errors import EnvironmentFault
from .parallel import worker_pool
from .progress import Progress
from .trials import find_pairs, format_answer, read_trials
from .verifier import PAIRS_A_CHUNK, Verifier

log = logging.getLogger("pan21av")

ANSWERS = "answers.jsonl"  # the only file here that may end in .jsonl: TIRA takes exactly one
REPORT = "run.json"
CORES_A_TOKENISER = 8  # encoding costs that much more than tokenising


def predict(
    input: str,
    output: str | os.PathLike[str],
    *,
    models: str | os.PathLike[str] | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> dict[str, Any]:
    """Answer every trial of `input` (a file, a directory with pairs.jsonl, or "-") in `output`/answers.jsonl.

    Returns the run report, which is also written beside the answers as run.json.
    """
    began = time.perf_counter()
    source = find_pairs(input)
    folder = Path(output)
    verifier = Verifier.load(models, device=device, threads=threads)
    log.info("pan21av %s, ensemble %s: %d members", __version__, verifier.ensemble.name, verifier.members.count)
    log.info("computing on %s", verifier.description)
    total = _count_lines(source)
    loaded = time.perf_counter()
    counts = {"pairs": 0, "non_responses": 0, "unusable": 0}
    with ExitStack() as stack:
        pool = _tokenisers(stack, verifier, total)
        out = stack.enter_context(_PartFile(folder, ANSWERS))
        bar = stack.enter_context(Progress(total, "pairs"))
        ids: deque[str] = deque()  # of trials read, but not answered yet

        def texts() -> Iterator[tuple[str, str] | None]:
            for trial in read_trials(source):
                ids.append(trial.id)
                counts["unusable"] += trial.texts is None
                yield trial.texts

        for verdict in verifier.predict(texts(), pool=pool):
            value = verdict.probability
            out.write(format_answer(ids.popleft(), value))
            counts["pairs"] += 1
            counts["non_responses"] += value == NON_RESPONSE
            bar.advance()
    if counts["unusable"]:
        log.warning("%d trials lack two usable texts and were answered 0.5", counts["unusable"])
    seconds = time.perf_counter() - loaded
    report = {
        "version": __version__,
        "ensemble": verifier.ensemble.name,
        "members": verifier.members.count,
        "device": verifier.description,
        **counts,
        "seconds": round(seconds, 3),
        "seconds_loading": round(loaded - began, 3),
        "pairs_per_second": round(counts["pairs"] / seconds, 3),
    }
    _write(folder / REPORT, orjson.dumps(report, option=orjson.OPT_INDENT_2) + b"\n")
    log.info(
        "%d pairs in %.1f s (%.2f a second), %d non-responses -> %s",
        counts["pairs"], seconds, counts["pairs"] / seconds, counts["non_responses"], folder / ANSWERS,
    )  # fmt: skip
    return report


def _tokenisers(stack: ExitStack, verifier: Verifier, total: int | None) -> ProcessPoolExecutor | None:
    """Worker processes that tokenise ahead; not worth starting for a few pairs."""
    if total is not None and total <= PAIRS_A_CHUNK:
        return None
    return stack.enter_context(worker_pool(-(-verifier.threads // CORES_A_TOKENISER)))


def _count_lines(path: Path | None) -> int | None:
    """For the progress bar and its ETA; None for standard input."""
    if path is None:
        return None
    try:
        with path.open("rb") as stream:
            return sum(1 for line in stream if line.strip())
    except OSError as error:
        raise EnvironmentFault(f"{path}: {error.strerror}") from None


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise EnvironmentFault(f"cannot write {path}: {error.strerror}") from None


class _PartFile:
    """Written as NAME.part, synced and moved to NAME when all went well."""

    def __init__(self, folder: Path, name: str) -> None:
        self.final, self.part = folder / name, folder / f"{name}.part"

    def __enter__(self) -> _PartFile:
        try:
            self.final.parent.mkdir(parents=True, exist_ok=True)
            self.stream = self.part.open("wb")
        except OSError as error:
            raise EnvironmentFault(f"cannot write {self.part}: {error.strerror}") from None
        return self

    def write(self, data: bytes) -> None:
        try:
            self.stream.write(data)
        except OSError as error:
            raise EnvironmentFault(f"cannot write {self.part}: {error.strerror}") from None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            with self.stream:
                self.stream.flush()
                os.fsync(self.stream.fileno())
            if kind is None:
                self.part.replace(self.final)
        except OSError as error:
            raise EnvironmentFault(f"cannot write {self.final}: {error.strerror}") from None
