"""What came of a training: validation figures, model card, picture."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import orjson

from ..ensemble import decide
from ..evaluate import resamples
from ..metrics import all_metrics, pan_metrics
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
    parts: dict[str, dict[str, np.ndarray]] = {"source": {}, "kind": {}}
    if len(prepared.sources) > 1:
        parts["source"] = {name: source == number for number, name in enumerate(prepared.sources)}
    same_topic = catalogue.same_topic(pairs)
    for name in ("SA_SF + DA_SF", "SA_DF + DA_SF", "SA_SF + DA_DF", "SA_DF + DA_DF"):
        parts["kind"][name] = np.where(
            truth, same_topic == name.startswith("SA_SF"), same_topic == name.endswith("DA_SF")
        )
    tables = {
        f"validation_by_{by}": {name: row(truth[here], answers[here]) for name, here in chosen.items() if here.any()}
        for by, chosen in parts.items()
    }
    lengths = {int(name.partition("@")[2]) for name in scores if "@" in name}
    tables["validation_by_length"] = {
        f"cut to {n:,} characters": row(truth, decide(scores[f"ual@{n}"], scores[f"o2d2@{n}"])) for n in sorted(lengths)
    } | {"whole texts": row(truth, answers)}
    return {
        "validation": figures(truth, scores["dml"], scores["bfs"], scores["ual"], scores["o2d2"]),
        **tables,
        "distances": histogram(truth, scores["distance"].mean(0)),
    }


def row(truth: np.ndarray, answers: np.ndarray, samples: int = 1000) -> dict[str, Any]:
    """Figures of some pairs, with 95 % intervals of AUC and overall."""
    intervals = {}
    if 1 < truth.sum() < len(truth) - 1:  # else a sample may well hold pairs of one kind only
        drawn = [pan_metrics(truth[rows], answers[rows]) for rows in resamples(len(truth), samples, seed=0)]
        for key in ("auc", "overall"):
            low, high = np.nanpercentile([d[key] for d in drawn], [2.5, 97.5])
            intervals[key] = [round(float(low), 4), round(float(high), 4)]
    return {"pairs": len(truth), **all_metrics(truth, answers), "intervals": intervals}


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


def part_table(title: str, rows: dict[str, dict[str, Any]]) -> str:
    if not rows:
        return ""
    lines = [f"| {title} | pairs | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 2) + "|"]
    for name, figures in rows.items():
        cells = []
        for column in COLUMNS:
            interval = figures["intervals"].get(column)
            cells.append(f"{figures[column]:.3f}" + (f" ({interval[0]:.2f}-{interval[1]:.2f})" if interval else ""))
        lines.append(f"| {name} | {figures['pairs']} | " + " | ".join(cells) + " |")
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

Ensemble + O2D2, with 95 % intervals of AUC and overall:

{part_table("by source", info["validation_by_source"])}
{part_table("by length", info["validation_by_length"])}
{part_table("by kind of pair", info["validation_by_kind"])}
![Reliability on the validation pairs](reliability.png)

Kinds: SA / DA same or different authors, SF / DF same or different topic.
Non-responses count as in PAN's evaluator; ece is the expected calibration error of the answered trials.

## Settings

```toml
{settings}
```
"""


def reliability_picture(tasks: list[MemberTask], prepared: Prepared) -> bytes | None:
    """What the ensemble says of the validation pairs against what is true; None without matplotlib."""
    try:
        from matplotlib.figure import Figure

        from ..pictures import reliability
    except ImportError:
        return None
    scores = member_scores(tasks)
    answers = decide(scores["ual"].astype(np.float64), scores["o2d2"].astype(np.float64))
    figure = Figure(figsize=(5.2, 4.4), layout="constrained")
    reliability(figure.subplots(), prepared.catalogue.same_author(prepared.validation), answers)
    return _png(figure)


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def picture(tasks: list[MemberTask]) -> bytes | None:
    """Losses and accuracies per epoch, authorship against topic; None without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    files = [task.folder / HISTORY for task in tasks if (task.folder / HISTORY).exists()]
    histories = [[orjson.loads(line) for line in file.read_bytes().splitlines()] for file in files]
    histories = [h for h in histories if any(r["stage"] in ("warm-up", "pairs") for r in h)]
    if not histories:  # stage one of all members was taken over
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
    return _png(figure)
