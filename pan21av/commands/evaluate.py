"""`pan21av evaluate`: answers against the truth, by PAN 2021's rules.

A missing id counts as 0.5, the last of duplicate ids wins; ids that are not in the truth and
values that are no probability are reported and left out (PAN's own evaluator stops at them).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from ..data.answers import ANSWERS, DETAILS
from ..data.jsonlines import read_objects
from ..data.pan import (
    COMBINATIONS,
    PAIR_KINDS,
    find_file,
    find_pairs,
    in_combination,
    pair_kinds,
    read_truth,
    topics_of,
)
from ..errors import InputError
from ..files import output_folder, write_whole, writing
from ..metrics import PAN_KEYS, all_metrics, bootstrap_difference, bootstrap_intervals, resamples
from ..vote import NON_RESPONSE, SCORES

log = logging.getLogger("pan21av")
SHOWN = 3  # ids named in a warning
SHOWN_KEYS = {
    "auc": "AUC", "c@1": "c@1", "f_05_u": "F0.5u", "F1": "F1", "brier": "Brier", "overall": "overall", "ece": "ECE",
    "non_responses": "no resp",
}  # fmt: skip
NAME_WIDTH, COLUMN_WIDTH = 16, 8  # with eight measures: 80 columns


@dataclass(frozen=True)
class Trials:
    """The truth, in the order of its file."""

    ids: list[str]
    same: np.ndarray  # (n) bool
    kind: np.ndarray | None = None  # (n) of PAIR_KINDS, if the topics are known


@dataclass(frozen=True)
class Evaluation:
    """One submission's answers (n, aligned with the truth), figures, and what was wrong with it."""

    name: str
    values: np.ndarray
    metrics: dict[str, float]
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    by_kind: dict[str, dict[str, float]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    trials: Trials
    results: list[Evaluation]
    comparison: list[dict[str, Any]]  # every further submission against the first


def evaluate(
    answers: Sequence[str | Path],
    truth: str | Path,
    *,
    pairs: str | Path | None = None,
    output: str | Path | None = None,
    bootstrap: int = 1000,
    seed: int = 0,
) -> Report:
    """Score answer files (or directories with an answers.jsonl) against the truth.

    With `pairs` also per kind of pair; with `output` out.json and evaluation.prototext, as PAN's
    evaluator writes them, and pictures of the first submission (more of them beside a details.npy).
    """
    trials = read_trials(find_file(truth, "truth.jsonl"), find_pairs(pairs) if pairs else None)
    samples = resamples(len(trials.ids), bootstrap, seed)
    files = [find_file(path, ANSWERS) for path in answers]
    results = [_evaluate_one(file, trials, samples) for file in files]
    report = Report(trials, results, compare(results, trials, samples))
    if output is not None:
        folder = output_folder(output)
        write(folder, results)
        _draw(folder, files[0], trials, results)
    return report


def read_trials(truth: Path, pairs: Path | None = None) -> Trials:
    """The truth, and with the pairs the kind of each."""
    labels = {trial: entry.same for trial, entry in read_truth(truth)}
    if not labels:
        raise InputError(f"{truth} holds no trials")
    same, kind = np.array(list(labels.values())), None
    if pairs is not None:
        topics = {value.get("id"): topics_of(value) for _, value in read_objects(pairs)}
        known = [topics.get(trial) for trial in labels]
        if None in known:
            raise InputError(f"{pairs} does not name two fandoms (or discourse types) for every trial")
        kind = pair_kinds(same, np.array([two[0] == two[1] for two in known if two]))
    return Trials(list(labels), same, kind)


def read_answers(path: Path, trials: Trials) -> tuple[np.ndarray, list[str]]:
    """Values (n) in the order of the truth, and what was wrong, in words."""
    row = {trial: i for i, trial in enumerate(trials.ids)}
    values = np.full(len(row), np.nan)
    unknown: list[str] = []
    twice: list[str] = []
    invalid: list[str] = []
    for _, answer in read_objects(path):
        trial, value = answer.get("id"), answer.get("value")
        if not isinstance(trial, str) or trial not in row:
            unknown.append(str(trial))
        elif isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            invalid.append(trial)
        else:
            if not np.isnan(values[row[trial]]):
                twice.append(trial)
            values[row[trial]] = value
    if len(unknown) and np.isnan(values).all() and not invalid:
        raise InputError(f"{path}: none of its {len(unknown):,} answers is to a trial of the truth")
    missing = [trials.ids[i] for i in np.flatnonzero(np.isnan(values))]
    values[np.isnan(values)] = NON_RESPONSE
    problems = [
        f"{len(ids)} {what}: {', '.join(ids[:SHOWN])}{' ...' if len(ids) > SHOWN else ''}"
        for what, ids in (
            ("answers to trials that are not in the truth (left out; PAN's evaluator stops at one)", unknown),
            ("values that are no probability (left out)", invalid),
            ("trials answered twice (the last counts)", twice),
            ("trials without an answer (counted as 0.5)", missing),
        )
        if ids
    ]
    return values, problems


def _evaluate_one(path: Path, trials: Trials, samples: np.ndarray) -> Evaluation:
    values, problems = read_answers(path, trials)
    by_kind = {}
    if trials.kind is not None:
        parts = {kind: trials.kind == kind for kind in PAIR_KINDS}
        for combination in COMBINATIONS:
            here = in_combination(trials.kind, combination)
            if len(set(trials.same[here])) == 2:
                parts[combination] = here
        by_kind = {name: all_metrics(trials.same[h], values[h]) for name, h in parts.items() if h.any()}
    intervals = bootstrap_intervals(trials.same, values, samples)
    return Evaluation(str(path), values, all_metrics(trials.same, values), intervals, by_kind, problems)


def compare(results: Sequence[Evaluation], trials: Trials, samples: np.ndarray) -> list[dict[str, Any]]:
    """Every submission against the first: difference in overall score, with a paired bootstrap."""
    first = results[0]
    return [
        {
            "name": other.name,
            "difference": other.metrics["overall"] - first.metrics["overall"],
            "interval": bootstrap_difference(trials.same, first.values, other.values, samples),
        }
        for other in results[1:]
    ]


def prototext(metrics: Mapping[str, float]) -> str:
    """As PAN's evaluator writes evaluation.prototext."""
    return "".join(f'measure {{\n key: "{key}"\n value: "{round(metrics[key], 3)}"\n}}\n' for key in PAN_KEYS)


def write(folder: Path, results: Sequence[Evaluation]) -> None:
    for number, result in enumerate(results):
        suffix = f"-{number + 1}" if number else ""
        rounded = {key: round(result.metrics[key], 3) for key in PAN_KEYS}
        write_whole(folder / f"out{suffix}.json", orjson.dumps(rounded, option=orjson.OPT_INDENT_2))
        write_whole(folder / f"evaluation{suffix}.prototext", prototext(result.metrics).encode())


def _draw(folder: Path, answers: Path, trials: Trials, results: Sequence[Evaluation]) -> None:
    try:
        from ..plots import draw

        first, others = results[0], {result.name: result.values for result in results[1:]}
        with writing(folder):
            draw(folder, trials.same, first.values, trials.kind, read_details(answers, trials), first.name, others)
    except ImportError:
        log.warning("no pictures without matplotlib: pip install 'pan21av[eval]'")


def read_details(answers: Path, trials: Trials) -> np.ndarray | None:
    """What the members said (n, 4, members), in the order of the truth; None if predict did not keep it."""
    path = answers.parent / DETAILS
    if not path.is_file():
        return None
    ids = [str(answer.get("id")) for _, answer in read_objects(answers)]
    try:
        details = np.load(path, mmap_mode="r")
    except ValueError:
        details = np.zeros(0)
    if details.ndim != 3 or len(details) != len(ids) or details.shape[1] != len(SCORES):
        log.warning("%s does not belong to %s: left out", path, answers)
        return None
    rows = {trial: row for row, trial in enumerate(ids)}
    out = np.full((len(trials.ids), *details.shape[1:]), np.nan)
    for number, trial in enumerate(trials.ids):
        if trial in rows:
            out[number] = details[rows[trial]]
    return out


def format_report(report: Report) -> str:
    """The tables for a terminal of 80 columns."""
    lines = [_row("", SHOWN_KEYS.values())]
    for result in report.results:
        lines.append(_row(result.name, (f"{result.metrics[key]:.3f}" for key in SHOWN_KEYS)))
        if result.intervals:
            halves = {key: (high - low) / 2 for key, (low, high) in result.intervals.items()}
            lines.append(_row("  95 %", (f"±{halves[key]:.3f}" if key in halves else "" for key in SHOWN_KEYS)))
        for kind, metrics in result.by_kind.items():
            lines.append(_row("  " + kind, (f"{metrics[key]:.3f}" for key in SHOWN_KEYS)))
    for entry in report.comparison:
        low, high = entry["interval"]
        lines.append(
            f"{entry['name']} against {report.results[0].name}:\n"
            f"  overall {entry['difference']:+.4f} [{low:+.4f}, {high:+.4f}]"
        )
    return "\n".join(lines)


def _row(name: str, cells: Iterable[str]) -> str:
    name = name.removesuffix(f"/{ANSWERS}")
    shown = name if len(name) <= NAME_WIDTH else "..." + name[3 - NAME_WIDTH :]
    return (shown.ljust(NAME_WIDTH) + "".join(cell.rjust(COLUMN_WIDTH) for cell in cells)).rstrip()


def report_dict(report: Report) -> list[dict[str, Any]]:
    """Unrounded, for JSON: every system's measures, with intervals and the figures by kind of pair."""
    return [
        {**result.metrics, "name": result.name, "intervals": result.intervals, "by_kind": result.by_kind}
        for result in report.results
    ]
