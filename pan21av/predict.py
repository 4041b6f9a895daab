"""`pan21av predict`: a file of trials to answers.jsonl."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from . import __version__
from .answers import ANSWERS, AnswerFile
from .checkpoint import find_ensemble, manifest_hash, read_manifest
from .engines import find_engine
from .ensemble import NON_RESPONSE
from .errors import EnvironmentFault, InputError
from .progress import Progress
from .trials import EXPECTED, Inspection, TrialFile
from .verifier import PAIRS_A_CHUNK, Verdict

log = logging.getLogger("pan21av")

REPORT = "run.json"


def predict(
    input: str,
    output: str | os.PathLike[str],
    *,
    models: str | os.PathLike[str] | None = None,
    device: str = "auto",
    threads: int | None = None,
    lenient: bool = False,
    details: bool = False,
    engine: str = "local",
    address: str | None = None,
    resources: str | None = None,
) -> dict[str, Any]:
    """Answer every trial of `input` (a file, a directory with pairs.jsonl, or "-") in `output`/answers.jsonl.

    `lenient` leaves lines out that are no trials; otherwise they end the run before it begins.
    `details` writes what every member says of every pair to details.npy: (pairs, 4, members), the
    four being p_DML, p_BFS, p_UAL and p_O2D2. A broken run goes on where it stopped.
    Returns the run report, which is also written beside the answers as run.json.
    """
    began = time.perf_counter()
    folder, ensemble = Path(output), find_ensemble(models)
    members = len(read_manifest(ensemble)["members"])
    with ExitStack() as stack:
        out = stack.enter_context(AnswerFile(folder))
        trials = stack.enter_context(TrialFile(input, folder))
        found = _inspect(trials, lenient)
        log.info("pan21av %s, ensemble %s: %d members", __version__, ensemble.name, members)
        workers = stack.enter_context(
            find_engine(engine, address, resources).answering(
                ensemble, pairs=found.trials, device=device, threads=threads
            )
        )
        log.info("computing on %s", workers.description)
        identity = {
            "version": __version__,
            "input": found.sha256,
            "lines_left_out": len(found.skip),
            "ensemble": manifest_hash(ensemble),
            "details": details,
        }
        ids = (trial.id for trial in trials.read(found.skip))
        shape = (found.trials, 4, members) if details else None
        done, silent = out.start(identity, ids, step=PAIRS_A_CHUNK, details=shape)
        loaded = time.perf_counter()
        bar = stack.enter_context(Progress(found.trials, "pairs", done))
        waiting: deque[str] = deque()  # ids of trials that were read, but not answered yet

        def texts() -> Iterator[tuple[str, str] | None]:
            for trial in trials.read(found.skip, done):
                waiting.append(trial.id)
                yield trial.texts

        answered = done
        for verdict in workers.answers(texts()):
            out.write(waiting.popleft(), verdict.probability)
            if details:
                out.write_details(_scores(verdict, members))
            answered += 1
            silent += verdict.probability == NON_RESPONSE
            if answered % PAIRS_A_CHUNK == 0:
                out.flush()
            bar.advance()
        if answered != found.trials:
            raise EnvironmentFault(
                f"{trials.name} changed while it was read: {answered} trials instead of {found.trials}"
            )
        out.finish()
    seconds = time.perf_counter() - loaded
    report = {
        "version": __version__,
        "ensemble": ensemble.name,
        "members": members,
        "device": workers.description,
        "pairs": answered,
        "non_responses": silent,
        "unusable": found.unusable,
        "lines_left_out": len(found.skip),
        "resumed_after": done,
        "seconds": round(seconds, 3),
        "seconds_loading": round(loaded - began, 3),
        "pairs_per_second": round((answered - done) / seconds, 3),
    }
    _write(folder / REPORT, orjson.dumps(report, option=orjson.OPT_INDENT_2) + b"\n")
    log.info(
        "%d pairs in %.1f s (%.2f a second), %d non-responses -> %s",
        answered - done, seconds, report["pairs_per_second"], silent, folder / ANSWERS,
    )  # fmt: skip
    return report


def _inspect(trials: TrialFile, lenient: bool) -> Inspection:
    """One fast pass over all of the input, so that nobody waits an hour to hear of its last line."""
    found = trials.inspect()
    if found.faults and not lenient:
        raise InputError(f"{trials.name}: {found.report}; {EXPECTED} (--lenient leaves such lines out)")
    if found.faults:
        log.warning("%s: left out %s; %s", trials.name, found.report, EXPECTED)
    if not found.trials:
        raise InputError(f"{trials.name} holds no trials; {EXPECTED}")
    if found.unusable:
        log.warning("%d trials lack two usable texts and are answered 0.5", found.unusable)
    return found


def _scores(verdict: Verdict, members: int) -> np.ndarray:
    """(4, M); NaN where a text was unusable"""
    parts = (verdict.p_dml, verdict.p_bfs, verdict.p_ual, verdict.p_o2d2)
    return np.stack([np.full(members, np.nan) if part is None else part for part in parts])


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        raise EnvironmentFault(f"cannot write {path}: {error.strerror}") from None
