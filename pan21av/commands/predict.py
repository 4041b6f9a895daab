"""`pan21av predict`: a file of trials to answers.jsonl."""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from .. import __version__
from ..data.answers import ANSWERS, AnswerFile
from ..data.trials import Inspection, TrialFile
from ..engines import Answering, find_engine
from ..errors import EnvironmentFault, InputError
from ..files import output_folder, write_whole
from ..network.checkpoint import find_ensemble, load_ensemble, manifest_hash, read_manifest
from ..populations import PopulationTexts, draw, project_population
from ..runtime.progress import Progress
from ..verdict import Verdict
from ..vote import SCORES
from .population import find_population
from .ratios import write_ratios

log = logging.getLogger("pan21av")

REPORT = "run.json"
SELF, MOST_OF_SELF = "self", 300  # a population drawn from the input, of so many texts
ANSWERS_KEPT = 8  # a killed run loses fewer of those it wrote, and goes on after a multiple of it


def predict(
    input: str,
    output: str | os.PathLike[str],
    *,
    models: str | os.PathLike[str] | None = None,
    device: str = "auto",
    threads: int | None = None,
    population: str | os.PathLike[str] | None = None,
    columns: Sequence[str] | None = None,
    lenient: bool = False,
    details: bool = False,
    engine: str = "local",
    address: str | None = None,
    resources: str | None = None,
) -> dict[str, Any]:
    """Answer every trial of `input` (a file, a directory with pairs.jsonl, or "-") in `output`/answers.jsonl.

    `population` is a file or folder of other texts of that kind, or "self" for a sample of the input's own.
    `columns` are the names of a CSV or TSV's columns that hold id and texts, where they are not id, text1, text2.
    `lenient` leaves lines out that are no trials; otherwise they end the run before it begins.
    `details` writes what every member says of every pair to details.npy: (pairs, 4, members), the
    four being p_DML, p_BFS, p_UAL and p_O2D2; and likelihood ratios to ratios.csv.
    A broken run goes on where it stopped.
    Returns the run report, which is also written beside the answers as run.json.
    """
    began = time.perf_counter()
    folder, ensemble = output_folder(output), find_ensemble(models)
    n_members = len(read_manifest(ensemble)["members"])
    with ExitStack() as stack:
        out = stack.enter_context(AnswerFile(folder))
        trials = stack.enter_context(TrialFile(input, folder, columns))
        found = _inspect(trials, lenient)
        log.info("pan21av %s, ensemble %s: %d members", __version__, ensemble.name, n_members)
        machines = find_engine(engine, address, resources)
        others = None if population is None else _population(population, ensemble, trials, found)
        workers = stack.enter_context(
            machines.answering(ensemble, pairs=found.trials, device=device, threads=threads, population=others)
        )
        log.info("computing on %s", workers.description)
        resumed = out.start(
            _identity(found, ensemble, details, others),
            (trial.id for trial in trials.read(found.skip)),
            step=ANSWERS_KEPT,
            details=(found.trials, len(SCORES), n_members) if details else None,
        )
        loaded = time.perf_counter()
        notes = _answer(workers, trials, found, out, n_members if details else None)
        out.finish()
        if details:
            write_ratios(folder, ensemble)
    seconds = time.perf_counter() - loaded
    report = {
        "version": __version__,
        "ensemble": ensemble.name,
        "members": n_members,
        "device": workers.description,
        "pairs": out.count,
        "non_responses": out.non_responses,
        "unusable": found.unusable,
        "population": others and others.to_dict(),
        "notes": dict(notes.most_common()),
        "lines_left_out": len(found.skip),
        "resumed_after": resumed,
        "seconds": round(seconds, 3),
        "seconds_loading": round(loaded - began, 3),
        "pairs_per_second": round((out.count - resumed) / seconds, 3),
    }
    write_whole(folder / REPORT, orjson.dumps(report, option=orjson.OPT_INDENT_2) + b"\n")
    _tell(report, folder / ANSWERS)
    return report


def _tell(report: dict[str, Any], answers: Path) -> None:
    if report["notes"]:
        log.info("notes: %s", ", ".join(f"{kind} ({_pairs(n)})" for kind, n in report["notes"].items()))
    log.info(
        "%s in %.1f s (%.2f a second), %d non-responses -> %s",
        _pairs(report["pairs"] - report["resumed_after"]), report["seconds"], report["pairs_per_second"],
        report["non_responses"], answers,
    )  # fmt: skip


def _pairs(count: int) -> str:
    return "1 pair" if count == 1 else f"{count} pairs"


def _population(place: str | os.PathLike[str], ensemble: Path, trials: TrialFile, found: Inspection) -> PopulationTexts:
    """What the trials are judged with; of their own texts a sample that depends on nothing but the texts."""
    loaded = load_ensemble(ensemble)
    if os.fspath(place) != SELF:
        return find_population(place, loaded)
    texts = (text for trial in trials.read(found.skip) for text in trial.texts or ())
    drawn = project_population(loaded, draw(texts, MOST_OF_SELF))
    log.info("judged with %s of %s itself", drawn.words, trials.name)
    return drawn


def _identity(found: Inspection, ensemble: Path, details: bool, population: PopulationTexts | None) -> dict[str, Any]:
    """What a run must share with an earlier one to go on where that stopped."""
    return {
        "version": __version__,
        "population": population and population.sha256,
        "input": found.sha256,
        "lines_left_out": len(found.skip),
        "ensemble": manifest_hash(ensemble),
        "details": details,
    }


def _inspect(trials: TrialFile, lenient: bool) -> Inspection:
    """One fast pass over all of the input, so that nobody waits an hour to hear of its last line."""
    found = trials.inspect()
    if found.faults and not lenient:
        raise InputError(f"{trials.name}: {found.report}; {trials.expected} (--lenient leaves such lines out)")
    if found.faults:
        log.warning("%s: left out %s; %s", trials.name, found.report, trials.expected)
    if not found.trials:
        raise InputError(f"{trials.name} holds no trials; {trials.expected}")
    if found.unusable:
        log.warning("%d trials lack two usable texts and are answered 0.5", found.unusable)
    return found


def _answer(
    workers: Answering, trials: TrialFile, found: Inspection, out: AnswerFile, detailed: int | None
) -> Counter[str]:
    """All trials that `out` does not hold yet; with the scores of so many members, if `detailed`.

    Returns on how many of them there are notes of each kind.
    """
    notes: Counter[str] = Counter()
    with Progress(found.trials, "pairs", out.count) as bar:
        for trial, verdict in workers.verify(trials.read(found.skip, out.count)):
            out.write(trial.id, verdict.probability, _details(verdict, detailed) if detailed else None)
            if out.count % ANSWERS_KEPT == 0:
                out.flush()
            notes.update({note.kind for note in verdict.notes})
            bar.advance()
    if out.count != found.trials:
        raise EnvironmentFault(f"{trials.name} changed while it was read: {out.count} trials instead of {found.trials}")
    return notes


def _details(verdict: Verdict, n_members: int) -> np.ndarray:
    """(4, M); NaN where a text was unusable"""
    return np.full((len(SCORES), n_members), np.nan) if verdict.scores is None else verdict.scores
