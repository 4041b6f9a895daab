"""The paper's tables 1 to 5 and its figures 3 and 4, from what is stored with an ensemble."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from ..data.pan import COMBINATIONS, PAIR_KINDS, in_combination
from ..errors import InputError
from ..files import reading
from ..metrics import CALIBRATION_KEYS, PAN_KEYS, all_metrics
from ..vote import SCORES, PlattScaling, vote

CALIBRATION_UAL = "calibration_ual"  # among the scores: what UAL says of the balanced calibration pairs
SCORES_FILE = "validation_scores.npz"  # what all members say, in the ensemble's folder
PAIRS_FILE, CALIBRATION_FILE, HISTORY_FILE = "validation_pairs.json", "calibration_pairs.json", "history.json"
REPORT, FIGURE_3, FIGURE_4 = "REPORT.md", "figure3.png", "figure4.png"
NAMES = {
    "auc": "AUC", "c@1": "c@1", "f_05_u": "f_05_u", "F1": "F1", "brier": "Brier", "overall": "overall",
    "accuracy": "acc", "confidence": "conf", "ece": "ECE", "mce": "MCE", "non_responses": "non-resp.",
    "ece_answered": "ECE answered", "mce_answered": "MCE answered",
}  # fmt: skip
STEPS = {
    "dml": "DML", "bfs": "BFS", "ual": "UAL", "o2d2": "UAL + O2D2", "ensemble": "ensemble",
    "ensemble_o2d2": "ensemble + O2D2",
}  # fmt: skip
Table = dict[str, dict[str, Any]]  # rows of measures; "deviation" holds those over members


@dataclass(frozen=True)
class Stored:
    """What a training leaves that the tables need; an older one has not all of it."""

    name: str
    splits: Table  # documents and pairs of each set
    scores: Mapping[str, np.ndarray]  # (M, P) each
    same: np.ndarray  # (P) bool, of the validation pairs
    kinds: np.ndarray | None  # of the calibration pairs
    histories: Sequence[Sequence[dict[str, Any]]]  # stage one's epochs, of each member
    calibration: PlattScaling | None = None  # of the ensemble's answers

    @classmethod
    def read(cls, folder: Path, info: Mapping[str, Any]) -> Stored:
        if not (folder / SCORES_FILE).exists():
            raise InputError(f"{folder} holds no {SCORES_FILE}: only `pan21av train` leaves what a report is made of")
        with reading(folder):
            loaded = np.load(folder / SCORES_FILE)
            same = np.array(orjson.loads((folder / PAIRS_FILE).read_bytes())["same"], dtype=bool)
            kinds, histories = (
                orjson.loads((folder / name).read_bytes()) if (folder / name).exists() else None
                for name in (CALIBRATION_FILE, HISTORY_FILE)
            )
            return cls(
                str(info.get("name") or folder.name),
                info["training"]["splits"],
                {name: loaded[name] for name in loaded.files},
                same,
                None if kinds is None else np.array(kinds["kinds"]),
                histories or [],
                PlattScaling.from_dict(info["calibration"]) if info.get("calibration") else None,
            )


def figures(truth: np.ndarray, scores: Mapping[str, np.ndarray], calibration: PlattScaling | None = None) -> Table:
    """Scores (M, P) -> {row: {metric: value}}; single members as mean, with their deviation beside; all members
    together with the calibration of their answers."""
    singles = {name: scores[name] for name in SCORES}
    singles["o2d2"] = np.stack([vote(*pair).answers for pair in zip(scores["ual"][:, None], scores["o2d2"][:, None])])
    rows = {name: over_members(truth, values) for name, values in singles.items()}
    for name, values in ensemble_answers(scores["ual"], scores["o2d2"], calibration).items():
        rows[name] = all_metrics(truth, values)
    return rows


def ensemble_answers(
    p_same: np.ndarray, p_undecidable: np.ndarray, calibration: PlattScaling | None
) -> dict[str, np.ndarray]:
    """What all members (M, P) say together, without O2D2 and with it: (P) each."""
    mean = p_same.mean(0)
    return {
        "ensemble": mean if calibration is None else calibration.apply(mean),
        "ensemble_o2d2": vote(p_same, p_undecidable, calibration).answers,
    }


def over_members(truth: np.ndarray, values: np.ndarray) -> dict[str, Any]:
    """Of probabilities (M, P): the mean of every measure, and its deviation."""
    each = [all_metrics(truth, p) for p in values]
    mean: dict[str, Any] = {key: float(np.mean([m[key] for m in each])) for key in each[0]}
    return {**mean, "deviation": {key: float(np.std([m[key] for m in each])) for key in each[0]}}


def by_combination(kinds: np.ndarray, p_ual: np.ndarray) -> Table:
    """Tables 2 and 3: UAL (M, P) on calibration pairs of two kinds, as many of either."""
    same = np.char.startswith(kinds, "SA")
    rows = {}
    for combination in COMBINATIONS:
        here = in_combination(kinds, combination)
        if len(set(same[here])) == 2:
            rows[combination] = {"pairs": int(here.sum()), **over_members(same[here], p_ual[:, here])}
    return rows


def paper_tables(stored: Stored) -> dict[str, Table]:
    """All that REPORT.md prints, unrounded: "1", "2 and 3", "4 and 5"."""
    scores = {name: values.astype(np.float64) for name, values in stored.scores.items()}
    balanced: Table = {}
    if stored.kinds is not None and CALIBRATION_UAL in scores and len(stored.kinds):
        balanced = by_combination(stored.kinds, scores[CALIBRATION_UAL])
    return {"1": stored.splits, "2 and 3": balanced, "4 and 5": figures(stored.same, scores, stored.calibration)}


def _cell(row: Mapping[str, Any], key: str, percent: bool) -> str:
    scale = 100 if percent else 1
    deviation = row.get("deviation", {})
    digits = 1 if percent else 3
    spread = f" ± {scale * deviation[key]:.{digits}f}" if key in deviation else ""
    return f"{scale * row[key]:.{digits}f}{spread}"


def _markdown(rows: Table, keys: Sequence[str], names: Mapping[str, str], percent: bool, count: bool) -> str:
    head = ["", *(["pairs"] if count else []), *(NAMES[key] for key in keys)]
    lines = [head, ["---"] * len(head)]
    for name, row in rows.items():
        counted = [f"{row['pairs']:,}"] if count else []
        lines.append([names.get(name, name), *counted, *(_cell(row, key, percent) for key in keys)])
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _pairs_table(splits: Table) -> str:
    head = ["pairs", *PAIR_KINDS, "all"]
    lines = [head, ["---"] * len(head)]
    for name, row in splits.items():
        if name != "left out":
            counts = [row[kind] for kind in PAIR_KINDS]
            drawn = f"{name}, an epoch" if name in ("training", "calibration") else name
            lines.append([drawn, *(f"{n:,}" for n in (*counts, sum(counts)))])
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def report_text(stored: Stored) -> str:
    tables = paper_tables(stored)
    members = len(stored.scores["ual"])
    calibrated = (*CALIBRATION_KEYS, "ece_answered", "mce_answered")
    missing, balanced = "Not stored with this ensemble, or its corpus lacks these kinds.", tables["2 and 3"]
    two = _markdown(balanced, PAN_KEYS, {}, False, True) if balanced else missing
    three = _markdown(balanced, CALIBRATION_KEYS, {}, True, True) if balanced else missing
    figure = f"![Figure 3]({FIGURE_3})" if any(stored.histories) else missing
    return f"""# The paper's tables and figures: {stored.name}

{members} members; ± is the standard deviation over them. SA / DA: same or different authors, SF / DF: same or different
topic. `pan21av report` makes this file again from what is stored beside it.

## Table 1: pairs

{_pairs_table(tables["1"])}

## Table 2: UAL on calibration pairs of two kinds, as many of either, no non-responses

{two}

## Table 3: the same, calibration in per cent

{three}

## Table 4: validation pairs

{_markdown(tables["4 and 5"], (*PAN_KEYS, "non_responses"), STEPS, False, False)}

## Table 5: validation pairs, calibration in per cent

A non-response counts as "two authors" with confidence 0.5, in a bin of its own; "answered" leaves them out.

{_markdown(tables["4 and 5"], calibrated, STEPS, True, False)}

## Figure 3: accuracy on training pairs with dropout on, mean and deviation over members

{figure}

## Figure 4: reliability and posteriors on the validation pairs, without and with O2D2

![Figure 4]({FIGURE_4})
"""


def report_files(stored: Stored) -> dict[str, bytes]:
    """REPORT.md and its figures; these only with matplotlib."""
    files = {REPORT: report_text(stored).encode()}
    try:
        from matplotlib.figure import Figure

        from ..plots import accuracies, confidence_and_posteriors
    except ImportError:
        return files
    figure = Figure(figsize=(5.6, 4), layout="constrained")
    if any(stored.histories) and accuracies(figure.subplots(), stored.histories):
        files[FIGURE_3] = png(figure)
    ual, o2d2 = (stored.scores[name].astype(np.float64) for name in ("ual", "o2d2"))
    figure = Figure(figsize=(8, 7), layout="constrained")
    answers = {STEPS[name]: p for name, p in ensemble_answers(ual, o2d2, stored.calibration).items()}
    confidence_and_posteriors(figure, stored.same, answers)
    files[FIGURE_4] = png(figure)
    return files


def png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()
