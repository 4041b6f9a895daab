"""`pan21av evaluate`: answers against the truth, by PAN 2021's rules.

A missing id counts as 0.5, the last of duplicate ids wins; ids that are not in the truth and
values that are no probability are reported and left out (PAN's own evaluator stops at them).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from .answers import DETAILS
from .errors import EnvironmentFault, InputError
from .jsonlines import read_objects
from .metrics import PAN_KEYS, all_metrics, pan_metrics

log = logging.getLogger("pan21av")
KINDS = ("SA_SF", "SA_DF", "DA_SF", "DA_DF")
SHOWN = 3  # ids named in a warning
EXTRA_KEYS = ("accuracy", "confidence", "ece", "mce", "non_responses")


@dataclass(frozen=True)
class Trials:
    """The truth, in the order of its file."""

    ids: list[str]
    same: np.ndarray  # (n) bool
    kind: np.ndarray | None = None  # (n) of KINDS, if the topics are known


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
    trials = read_truth(find(truth, "truth.jsonl"), find(pairs, "pairs.jsonl") if pairs else None)
    samples = resamples(len(trials.ids), bootstrap, seed)
    results = [_evaluate_one(find(path, "answers.jsonl"), trials, samples) for path in answers]
    report = Report(trials, results, compare(results, trials, samples))
    if output is not None:
        write(Path(output), results)
        _draw(Path(output), find(answers[0], "answers.jsonl"), trials, results[0])
    return report


def find(path: str | Path, name: str) -> Path:
    """A file, or the one in a directory whose name ends like `name` (maybe compressed)."""
    path = Path(path)
    if path.is_dir():
        found = sorted(p for p in path.iterdir() if p.name.removesuffix(".xz").removesuffix(".gz").endswith(name))
        if len(found) != 1:
            raise InputError(f"{path} should hold one {name}, but has {len(found)}")
        return found[0]
    if not path.exists():
        raise InputError(f"{path} does not exist")
    return path


def read_truth(path: Path, pairs: Path | None = None) -> Trials:
    labels: dict[str, bool] = {}
    for number, value in read_objects(path):
        trial, same = value.get("id"), value.get("same")
        if not isinstance(trial, str) or not isinstance(same, bool):
            raise InputError(f"{path}:{number}: expected a string 'id' and a boolean 'same'")
        labels[trial] = same
    if not labels:
        raise InputError(f"{path} holds no trials")
    kind = None
    if pairs is not None:
        topics = {
            value.get("id"): value.get("fandoms", value.get("discourse_type")) for _, value in read_objects(pairs)
        }
        known = [topics.get(i) for i in labels]
        if any(not isinstance(t, list) or len(t) != 2 for t in known):
            raise InputError(f"{pairs} does not name two fandoms (or discourse types) for every trial")
        kind = np.array(
            [("SA" if same else "DA") + ("_SF" if t[0] == t[1] else "_DF")
             for same, t in zip(labels.values(), known, strict=True) if t]
        )  # fmt: skip
    return Trials(list(labels), np.array(list(labels.values())), kind)


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
    missing = [trials.ids[i] for i in np.flatnonzero(np.isnan(values))]
    values[np.isnan(values)] = 0.5
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


def resamples(trials: int, count: int, seed: int) -> np.ndarray:
    """Row numbers (count, trials) drawn with replacement, the same for every submission."""
    return np.random.default_rng(seed).integers(trials, size=(count, trials), dtype=np.int32)


def _evaluate_one(path: Path, trials: Trials, samples: np.ndarray) -> Evaluation:
    values, problems = read_answers(path, trials)
    by_kind = {}
    if trials.kind is not None:
        for kind in KINDS:
            here = trials.kind == kind
            if here.any():
                by_kind[kind] = all_metrics(trials.same[here], values[here])
        # The combinations of the paper's tables: same-author pairs of one kind against different-author of one.
        for same in KINDS[:2]:
            for different in KINDS[2:]:
                here = (trials.kind == same) | (trials.kind == different)
                if {same, different} <= set(trials.kind[here]):
                    by_kind[f"{same} + {different}"] = all_metrics(trials.same[here], values[here])
    drawn = [pan_metrics(trials.same[rows], values[rows]) for rows in samples]
    intervals = {
        key: tuple(float(q) for q in np.nanpercentile([d[key] for d in drawn], [2.5, 97.5]))
        for key in PAN_KEYS
        if drawn
    }
    return Evaluation(str(path), values, all_metrics(trials.same, values), intervals, by_kind, problems)  # type: ignore[arg-type]


def compare(results: Sequence[Evaluation], trials: Trials, samples: np.ndarray) -> list[dict[str, Any]]:
    """Every submission against the first: difference in overall score, with a paired bootstrap."""
    first = results[0]
    rows = []
    for other in results[1:]:
        differences = [
            pan_metrics(trials.same[s], other.values[s])["overall"]
            - pan_metrics(trials.same[s], first.values[s])["overall"]
            for s in samples
        ]
        low, high = np.nanpercentile(differences, [2.5, 97.5]) if differences else (np.nan, np.nan)
        rows.append({
            "name": other.name,
            "difference": other.metrics["overall"] - first.metrics["overall"],
            "interval": (float(low), float(high)),
        })  # fmt: skip
    return rows


def prototext(metrics: Mapping[str, float]) -> str:
    """As PAN's evaluator writes evaluation.prototext."""
    return "".join(f'measure {{\n key: "{key}"\n value: "{round(metrics[key], 3)}"\n}}\n' for key in PAN_KEYS)


def write(folder: Path, results: Sequence[Evaluation]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, result in enumerate(results):
            suffix = f"-{number + 1}" if number else ""
            rounded = {key: round(result.metrics[key], 3) for key in PAN_KEYS}
            (folder / f"out{suffix}.json").write_bytes(orjson.dumps(rounded, option=orjson.OPT_INDENT_2))
            (folder / f"evaluation{suffix}.prototext").write_text(prototext(result.metrics))
    except OSError as error:
        raise EnvironmentFault(f"cannot write {folder}: {error.strerror}") from None


def _draw(folder: Path, answers: Path, trials: Trials, result: Evaluation) -> None:
    try:
        from .pictures import draw

        draw(folder, trials.same, result.values, trials.kind, read_details(answers, trials))
    except ImportError:
        log.warning("no pictures without matplotlib: pip install 'pan21av[eval]'")
    except OSError as error:
        raise EnvironmentFault(f"cannot write {folder}: {error.strerror}") from None


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
    if details.ndim != 3 or len(details) != len(ids) or details.shape[1] != 4:
        log.warning("%s does not belong to %s: left out", path, answers)
        return None
    rows = {trial: row for row, trial in enumerate(ids)}
    out = np.full((len(trials.ids), *details.shape[1:]), np.nan)
    for number, trial in enumerate(trials.ids):
        if trial in rows:
            out[number] = details[rows[trial]]
    return out


def format_report(report: Report) -> str:
    """The tables for a terminal."""
    columns = (*PAN_KEYS, *EXTRA_KEYS)
    names = [result.name for result in report.results]
    width = max(12, *(len(name) for name in names), *(len(k) for r in report.results for k in r.by_kind))
    lines = [" ".join(["".ljust(width), *(c.rjust(13) for c in columns)])]

    def row(name: str, metrics: Mapping[str, float]) -> str:
        return " ".join([name.ljust(width), *(f"{metrics[c]:.4f}".rjust(13) for c in columns)])

    for result in report.results:
        lines.append(row(result.name, result.metrics))
        if result.intervals:
            cells = [
                "-".join(f"{q:.3f}" for q in result.intervals[c]) if c in result.intervals else "" for c in columns
            ]
            lines.append(" ".join(["  95 %".ljust(width), *(cell.rjust(13) for cell in cells)]).rstrip())
        lines += [row("  " + kind, metrics) for kind, metrics in result.by_kind.items()]
    for entry in report.comparison:
        low, high = entry["interval"]
        lines.append(
            f"{entry['name']} against {names[0]}: overall {entry['difference']:+.4f} [{low:+.4f}, {high:+.4f}]"
        )
    return "\n".join(lines)
