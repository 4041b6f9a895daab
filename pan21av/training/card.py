"""The model card, made of what ensemble.json says and of the trainer's own notes on use and limits."""

from __future__ import annotations

from typing import Any

from .prepare import format_table

COLUMNS = {
    "auc": "AUC", "c@1": "c@1", "f_05_u": "F0.5u", "F1": "F1", "brier": "Brier", "overall": "overall", "ece": "ECE",
    "ece_answered": "ECE answered", "ece_p": "ECE of p", "non_responses": "non-resp.",
}  # fmt: skip
STEPS = {
    "dml": "DML, single members",
    "bfs": "BFS, single members",
    "ual": "UAL, single members",
    "o2d2": "UAL + O2D2, single members",
    "ensemble": "ensemble (mean of UAL)",
    "ensemble_o2d2": "ensemble + O2D2",
}
OVER_SOURCES = """Means over the sources that have 60 validation pairs or more. Members are made of some of the sources
only, so each source is also judged as an unfamiliar kind of text, by the members that never read it; a population is
that many other texts of the source, unlabelled.

"""
PARTS = {
    "by kind of pair, and by length of both texts": ("validation_by_kind", "validation_by_length"),
    "by source": ("validation_by_source",),
}


def _table(title: str, rows: dict[str, list[str]], *columns: str) -> str:
    head = [title, *columns, *COLUMNS.values()]
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head))]
    return "\n".join([*lines, *("| " + " | ".join([name, *cells]) + " |" for name, cells in rows.items())])


def _steps(validation: dict[str, dict[str, Any]]) -> str:
    rows = {}
    for key, title in STEPS.items():
        deviation = validation[key].get("deviation", {})
        rows[title] = [
            f"{validation[key][c]:.3f}" + (f" ± {deviation[c]:.3f}" if c in deviation else "") for c in COLUMNS
        ]
    return _table("", rows)


def _part(title: str, parts: dict[str, dict[str, Any]]) -> str:
    rows = {}
    for name, figures in parts.items():
        intervals = figures["intervals"]
        rows[name] = [f"{figures['pairs']:,}"] + [
            f"{figures[c]:.3f}" + (" ({:.2f}-{:.2f})".format(*intervals[c]) if c in intervals else "") for c in COLUMNS
        ]
    return _table(title, rows, "pairs")


def _over_sources(table: dict[str, dict[str, Any]]) -> str:
    if not table:
        return ""
    columns = {**COLUMNS, "bold": "two authors > 0.8"}
    head = ["judged by", "sources", *columns.values()]
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head))]
    for name, row in table.items():
        lines.append("| " + " | ".join([name, str(row["sources"]), *(f"{row[c]:.3f}" for c in columns)]) + " |")
    return OVER_SOURCES + "\n".join(lines) + "\n\n"


def _of_known(rows: dict[str, dict[str, Any]]) -> str:
    if not rows:
        return ""
    first = next(iter(rows.values()))
    lines = [
        f"Several known texts of a person, read together: {first['trials']:,} trials by {first['authors']} validation "
        "authors of four texts or more (95 % intervals by author):\n",
        "| known texts | AUC | gain over one | Cllr |",
        "| --- | --- | --- | --- |",
    ]
    for number, row in rows.items():
        limits = {key: "({:.3f} to {:.3f})".format(*ends) for key, ends in row["intervals"].items()}
        gain = "" if row is first else f"{row['auc'] - first['auc']:+.3f} {limits['gain']}"
        lines.append(f"| {number} | {row['auc']:.3f} {limits['auc']} | {gain} | {row['cllr']:.3f} {limits['cllr']} |")
    return "\n".join(lines) + "\n\n"


def _of_parts(parts: dict[str, float]) -> str:
    if not parts:
        return ""
    said = ", ".join(f"{name} {value:.3f}" for name, value in parts.items())
    return f"\nAUC of the members' mean distance alone, by part of the embedding: {said}.\n"


def model_card(info: dict[str, Any], notes: str = "") -> str:
    """`info` is ensemble.json."""
    training = info["training"]
    eps = [member["eps"] for member in info["members"]]
    parts = {title: {k: v for key in keys for k, v in info[key].items()} for title, keys in PARTS.items()}
    tables = "\n\n".join(_part(title, rows) for title, rows in parts.items() if rows)
    return f"""# Model card: {info["name"]}

{len(eps)} members, trained with pan21av {training["version"]} (seed {training["seed"]}),
finished {training["finished"]}, {training["core_seconds"] / 60:.0f} core-minutes in all.

{notes.strip()}

## Data

```
{format_table(training["splits"])}
```

## Validation: authors never seen in training

Ensemble + O2D2, with 95 % intervals of AUC and overall:

{tables}

{_over_sources(info["validation_of_sources"])}{_of_known(info.get("validation_of_known", {}))}What each step adds:

{_steps(info["validation"])}
{_of_parts(info["validation_of_parts"])}
Kinds: SA / DA same or different authors, SF / DF same or different topic; the paper reports SA_DF + DA_SF.
Non-responses count as in PAN's evaluator; ECE is the expected calibration error over bins of confidence, in which a
non-response counts as "two authors" with confidence 0.5, as in the paper; "ECE answered" is that of the answered
trials, "ECE of p" theirs over bins of the probability itself. Intervals are of bootstrap samples of authors. The
paper's own tables and figures are in REPORT.md.

![Reliability on the validation pairs](reliability.png)

## Provenance

Settings and seed are in ensemble.json, under `training`; so is the SHA-256 of the corpus and of all that its
preparation depends on: {training["corpus"]}. O2D2's eps, chosen per member on validation pairs: {min(eps):.3f} to
{max(eps):.3f}.
"""
