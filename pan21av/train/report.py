"""What came of a training: validation figures, model card, picture."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import orjson

from ..ensemble import decide
from ..metrics import all_metrics
from .member import HISTORY, SCORES, MemberTask
from .prepare import Prepared, format_table

COLUMNS = ("auc", "c@1", "f_05_u", "F1", "brier", "overall", "ece", "non_responses")
ROWS = {
    "dml": "DML, single members",
    "bfs": "BFS, single members",
    "ual": "UAL, single members",
    "o2d2": "UAL + O2D2, single members",
    "ensemble": "ensemble (mean of UAL)",
    "ensemble_o2d2": "ensemble + O2D2",
}


def ensemble_report(tasks: list[MemberTask], prepared: Prepared) -> dict[str, Any]:
    """The rows of the paper's tables 4 and 5 on the validation pairs, and a histogram of distances."""
    scores = {name: values.astype(np.float64) for name, values in member_scores(tasks).items()}
    catalogue, pairs = prepared.catalogue, prepared.validation
    truth = catalogue.same_author(pairs)
    answers = decide(scores["ual"], scores["o2d2"])
    source = catalogue.source[pairs[:, 0]]
    by_source = {}
    if len(prepared.sources) > 1:
        for number, name in enumerate(prepared.sources):
            here = source == number
            if here.any():
                by_source[name] = {"pairs": int(here.sum()), **all_metrics(truth[here], answers[here])}
    return {
        "validation": figures(truth, scores["dml"], scores["bfs"], scores["ual"], scores["o2d2"]),
        "validation_by_source": by_source,
        "distances": histogram(truth, scores["distance"].mean(0)),
    }


def member_scores(tasks: list[MemberTask]) -> dict[str, np.ndarray]:
    """What the members say of the validation pairs: (M, P) of each score."""
    loaded = [np.load(task.folder / SCORES) for task in tasks]
    return {name: np.stack([file[name] for file in loaded]) for name in loaded[0].files}


def figures(
    truth: np.ndarray, dml: np.ndarray, bfs: np.ndarray, ual: np.ndarray, o2d2: np.ndarray
) -> dict[str, dict[str, Any]]:
    """Scores (M, P) -> {row: {metric: value}}; single members as mean, with their deviation beside."""
    singles = {"dml": dml, "bfs": bfs, "ual": ual, "o2d2": np.where(o2d2 >= 0.5, 0.5, ual)}
    rows: dict[str, dict[str, Any]] = {}
    for name, values in singles.items():
        each = [all_metrics(truth, row) for row in values]
        rows[name] = {key: float(np.mean([m[key] for m in each])) for key in each[0]}
        rows[name]["deviation"] = {key: float(np.std([m[key] for m in each])) for key in each[0]}
    rows["ensemble"] = all_metrics(truth, ual.mean(0))
    rows["ensemble_o2d2"] = all_metrics(truth, decide(ual, o2d2))
    return rows


def histogram(truth: np.ndarray, distances: np.ndarray, bins: int = 40) -> dict[str, Any]:
    """Squared LEV distance, averaged over members, of same- and different-author validation pairs."""
    edges = np.linspace(0, float(distances.max()) * 1.0001, bins + 1)
    return {
        "edges": [round(float(e), 6) for e in edges],
        "same": np.histogram(distances[truth], edges)[0].tolist(),
        "different": np.histogram(distances[~truth], edges)[0].tolist(),
    }


def figures_table(validation: dict[str, dict[str, Any]]) -> str:
    lines = ["| | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for key, title in ROWS.items():
        row = validation[key]
        cells = []
        for column in COLUMNS:
            deviation = row.get("deviation", {}).get(column)
            cells.append(f"{row[column]:.3f}" + (f" ± {deviation:.3f}" if deviation is not None else ""))
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def source_table(by_source: dict[str, dict[str, float]]) -> str:
    if not by_source:
        return ""
    lines = [
        "",
        "| ensemble + O2D2, by source | pairs | " + " | ".join(COLUMNS) + " |",
        "|---" * (len(COLUMNS) + 2) + "|",
    ]
    for name, row in by_source.items():
        lines.append(f"| {name} | {row['pairs']} | " + " | ".join(f"{row[c]:.3f}" for c in COLUMNS) + " |")
    return "\n".join(lines) + "\n"


def model_card(name: str, info: dict[str, Any], results: list[dict[str, Any]], notes: str = "") -> str:
    training = info["training"]
    settings = "\n".join(f"{key} = {orjson.dumps(value).decode()}" for key, value in training["settings"].items())
    eps = [result["eps"] for result in results]
    return f"""# Model card: {name}

{len(results)} members, trained with pan21av {training["version"]} (seed {training["seed"]}) on {training["finished"]},
{training["core_seconds"] / 60:.0f} core-minutes in all. eps of O2D2: {min(eps):.3f} to {max(eps):.3f}.

{notes.strip()}

## Data

```
{format_table(training["splits"])}
```

Corpus and preparation: SHA-256 {training["corpus"]}.

## Validation: authors never seen in training

{figures_table(info["validation"])}
{source_table(info["validation_by_source"])}
Non-responses count as in PAN's evaluator; ece is the expected calibration error of the answered trials.

## Settings

```toml
{settings}
```
"""


def picture(tasks: list[MemberTask]) -> bytes | None:
    """Losses and accuracies per epoch, authorship against topic; None without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    files = [task.folder / HISTORY for task in tasks if (task.folder / HISTORY).exists()]
    histories = [[orjson.loads(line) for line in file.read_bytes().splitlines()] for file in files]
    if not histories:
        return None
    panels = {
        "stage one: loss": {"loss": "warm-up", "dml_loss": "DML", "bfs_loss": "BFS", "ual_loss": "UAL"},
        "stage one: accuracy in training": {"accuracy": "authorship (DML)", "topic_accuracy": "topic (probe)"},
        "development": {"dev_auc_distance": "AUC of the distance", "overall": "overall (UAL)"},
    }
    figure = Figure(figsize=(13, 3.6), layout="constrained")
    for axis, (title, series) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        for key, label in series.items():
            curves = [
                [(r["epoch"], r[key]) for r in h if key in r and r["stage"] in ("warm-up", "pairs")] for h in histories
            ]
            epochs = sorted({epoch for curve in curves for epoch, _ in curve})
            if not epochs:
                continue
            values = np.array([[dict(curve).get(e, np.nan) for e in epochs] for curve in curves])
            (line,) = axis.plot(epochs, np.nanmean(values, 0), label=label, marker="." if len(epochs) < 3 else "")
            axis.fill_between(epochs, np.nanmin(values, 0), np.nanmax(values, 0), alpha=0.2, color=line.get_color())
        axis.set(title=title, xlabel="epoch")
        axis.legend(frameon=False, fontsize=8)
        axis.grid(alpha=0.3)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()
