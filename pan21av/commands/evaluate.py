"""`pan21av evaluate`: answers against the truth, by PAN 2021's rules.

A missing id counts as 0.5, the last of duplicate ids wins; ids that are not in the truth and
values that are no probability are reported and left out (PAN's own evaluator stops at them).
PAN's measures come first, then the forensic ones (forensic.py). Intervals are of samples drawn by
author where the truth names the authors of every trial, else by trial.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
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
from ..data.trials import usable_texts
from ..errors import InputError
from ..files import output_folder, write_whole, writing
from ..forensic import Curve, forensic_curves, forensic_intervals, forensic_metrics
from ..metrics import (
    PAN_KEYS,
    all_metrics,
    bootstrap_difference,
    bootstrap_intervals,
    resamples,
    resamples_by_author,
)
from ..vote import NON_RESPONSE, SCORES

log = logging.getLogger("pan21av")
SHOWN = 3  # ids named in a warning
SHOWN_KEYS = {
    "auc": "AUC", "c@1": "c@1", "f_05_u": "F0.5u", "F1": "F1", "brier": "Brier", "overall": "overall", "ece": "ECE",
    "non_responses": "no resp",
}  # fmt: skip
FORENSIC_SHOWN = {"trials": "trials", "cllr": "Cllr", "cllr_min": "min", "cllr_cal": "loss", "eer": "EER"}
NAME_WIDTH, COLUMN_WIDTH = 16, 8  # with eight measures: 80 columns
LENGTHS = (0, 100, 250, 500, 1000, 2000, 4000)  # words of the shorter text, from which a row of figures begins


@dataclass(frozen=True)
class Trials:
    """The truth, in the order of its file."""

    ids: list[str]
    same: np.ndarray  # (n) bool
    kind: np.ndarray | None = None  # (n) of PAIR_KINDS, if the topics are known
    authors: np.ndarray | None = None  # (n, 2), if all are known
    words: np.ndarray | None = None  # (n) of the shorter text, if the pairs are known

    def samples(self, count: int, seed: int) -> list[np.ndarray]:
        """Rows of the trials of each of the bootstrap's samples."""
        if self.authors is None:
            return list(resamples(len(self.ids), count, seed))
        return [rows for rows in resamples_by_author(self.authors, count, seed) if len(rows)]

    @property
    def sampled_by(self) -> str:
        return "trial" if self.authors is None else "author"


@dataclass(frozen=True)
class Evaluation:
    """One submission's answers (n, aligned with the truth), figures, and what was wrong with it."""

    name: str
    values: np.ndarray
    metrics: dict[str, float]
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    by_kind: dict[str, dict[str, float]] = field(default_factory=dict)
    by_length: dict[str, dict[str, float]] = field(default_factory=dict)
    curves: dict[str, Curve] = field(default_factory=dict)
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

    With `pairs` also by length of text and, where they name topics, by kind of pair; with `output`
    out.json and evaluation.prototext, as PAN's evaluator writes them, and pictures of the first
    submission (more of them beside a details.npy).
    """
    trials = read_trials(find_file(truth, "truth.jsonl"), find_pairs(pairs) if pairs else None)
    samples = trials.samples(bootstrap, seed)
    files = [find_file(path, ANSWERS) for path in answers]
    results = [_evaluate_one(file, trials, samples) for file in files]
    report = Report(trials, results, compare(results, trials, samples))
    if output is not None:
        folder = output_folder(output)
        write(folder, results)
        _draw(folder, files[0], trials, results)
    return report


def read_trials(truth: Path, pairs: Path | None = None) -> Trials:
    """The truth, and with the pairs how long each is and, where they name topics, of which kind."""
    entries = dict(read_truth(truth))
    if not entries:
        raise InputError(f"{truth} holds no trials")
    same = np.array([entry.same for entry in entries.values()])
    named = [entry.authors for entry in entries.values() if entry.authors]
    authors = np.array(named) if len(named) == len(entries) else None
    if pairs is None:
        return Trials(list(entries), same, None, authors)
    found = {value.get("id"): (topics_of(value), shorter_words(value)) for _, value in read_objects(pairs)}
    if missing := [trial for trial in entries if trial not in found]:
        raise InputError(f"{pairs} lacks {len(missing):,} trials of the truth: {', '.join(missing[:SHOWN])}")
    topics = [found[trial][0] for trial in entries]
    kind = None
    if None not in topics:
        kind = pair_kinds(same, np.array([two[0] == two[1] for two in topics if two]))
    return Trials(list(entries), same, kind, authors, np.array([found[trial][1] for trial in entries]))


def shorter_words(trial: Mapping[str, Any]) -> int:
    """Words of the shorter of a trial's texts, as white space divides them; none if there are no two."""
    pair = trial.get("pair")
    texts = usable_texts(pair) if isinstance(pair, list) and len(pair) == 2 else None
    return min(len(text.split()) for text in texts) if texts else 0


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


def _evaluate_one(path: Path, trials: Trials, samples: Sequence[np.ndarray]) -> Evaluation:
    values, problems = read_answers(path, trials)

    def figures(here: np.ndarray | slice) -> dict[str, float]:
        same, said = trials.same[here], values[here]
        return {**all_metrics(same, said), **forensic_metrics(same, said), "trials": len(same)}

    return Evaluation(
        str(path),
        values,
        figures(slice(None)),
        bootstrap_intervals(trials.same, values, samples) | forensic_intervals(trials.same, values, samples),
        {name: figures(here) for name, here in _kinds(trials).items()},
        {name: figures(here) for name, here in _lengths(trials).items()},
        forensic_curves(trials.same, values, samples),
        problems,
    )


def _kinds(trials: Trials) -> dict[str, np.ndarray]:
    """Which trials (n) are of each kind, and of each combination that has pairs of one and of two authors."""
    if trials.kind is None:
        return {}
    parts = {kind: trials.kind == kind for kind in PAIR_KINDS}
    for combination in COMBINATIONS:
        here = in_combination(trials.kind, combination)
        if len(set(trials.same[here])) == 2:
            parts[combination] = here
    return {name: here for name, here in parts.items() if here.any()}


def _lengths(trials: Trials) -> dict[str, np.ndarray]:
    """Which trials (n) have a shorter text of so many words."""
    if trials.words is None:
        return {}
    parts = {}
    for low, high in zip(LENGTHS, (*LENGTHS[1:], None)):
        here = (trials.words >= low) & ((trials.words < high) if high else True)
        if here.any():
            parts[f"{low}-{high - 1} words" if high else f"{low}+ words"] = here
    return parts


def compare(results: Sequence[Evaluation], trials: Trials, samples: Sequence[np.ndarray]) -> list[dict[str, Any]]:
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
            details = read_details(answers, trials)
            draw(folder, trials.same, first.values, trials.kind, details, first.name, others, first.curves)
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
    """The tables for a terminal of 80 columns: PAN's measures, then the forensic ones."""
    lines = [_row("", SHOWN_KEYS.values()), *_rows(report, SHOWN_KEYS)]
    for entry in report.comparison:
        low, high = entry["interval"]
        lines.append(
            f"{entry['name']} against {report.results[0].name}:\n"
            f"  overall {entry['difference']:+.4f} [{low:+.4f}, {high:+.4f}]"
        )
    lines += ["", _row("likelihood ratio", FORENSIC_SHOWN.values()), *_rows(report, FORENSIC_SHOWN)]
    if any(result.intervals for result in report.results):
        why = "" if report.trials.authors is not None else " (the truth does not name all authors)"
        lines.append(f"Intervals are of samples drawn by {report.trials.sampled_by}{why}.")
    return "\n".join(lines)


def _rows(report: Report, keys: Iterable[str]) -> Iterator[str]:
    """Of every system: all trials, from where to where their intervals go (which are lopsided), parts of the trials."""
    for result in report.results:
        yield _row(result.name, (_cell(result.metrics[key]) for key in keys))
        if result.intervals:
            for end, name in enumerate(("  95 % from", "  to")):
                yield _row(name, (_cell(result.intervals[key][end]) if key in result.intervals else "" for key in keys))
        for name, figures in {**result.by_kind, **result.by_length}.items():
            yield _row("  " + name, (_cell(figures[key]) for key in keys))


def _cell(value: float) -> str:
    if np.isnan(value):
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def _row(name: str, cells: Iterable[str]) -> str:
    name = name.removesuffix(f"/{ANSWERS}")
    shown = name if len(name) <= NAME_WIDTH else "..." + name[3 - NAME_WIDTH :]
    return (shown.ljust(NAME_WIDTH) + "".join(cell.rjust(COLUMN_WIDTH) for cell in cells)).rstrip()


def report_dict(report: Report) -> list[dict[str, Any]]:
    """Unrounded, for JSON: every system's measures with intervals, figures by kind of pair and length, and curves."""
    return [
        {
            **result.metrics,
            "name": result.name,
            "intervals": result.intervals,
            "sampled_by": report.trials.sampled_by,
            "by_kind": result.by_kind,
            "by_length": result.by_length,
            "curves": {
                name: {axis: numbers.tolist() for axis, numbers in asdict(curve).items()}
                for name, curve in result.curves.items()
            },
        }
        for result in report.results
    ]
