"""What came of a training: validation figures and pictures; card.py puts them into words."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

from ..data.pan import COMBINATIONS, in_combination
from ..forensic import forensic_intervals, forensic_metrics
from ..metrics import all_metrics, auc, bootstrap_intervals, interval, resamples_by_author
from ..vote import MIN_UNDECIDABLE, PlattScaling, vote
from .known_texts import known_trials
from .member import HISTORY, VALIDATION_SCORES, MemberTask
from .prepared import Prepared
from .stage1 import CONTRASTIVE, PAIRS
from .tables import figures, png

SAMPLES = 1000  # of a bootstrap
MIN_PAIRS = 60  # of a source whose figures mean something
STEPS = 256  # of probabilities that nothing but votes is made of
BOLD = 0.8  # an answer above it on different authors does harm


def member_scores(tasks: list[MemberTask]) -> dict[str, np.ndarray]:
    """What the members say of the validation pairs: (M, P) of each score, as it is stored with the ensemble."""
    loaded = [np.load(task.folder / VALIDATION_SCORES) for task in tasks]
    names = [name for name in loaded[0].files if all(name in file.files for file in loaded)]
    return {name: _as_stored(name, np.stack([file[name] for file in loaded])) for name in names}


def _as_stored(name: str, values: np.ndarray) -> np.ndarray:
    """Of texts cut short, populations and several known texts, what a vote needs: p_UAL in 256 steps, and who abstains.
    The files would otherwise be a fifth as large as all weights."""
    if not any(mark in name for mark in "@+*"):
        return values
    if name.startswith("o2d2"):
        return (~(values < MIN_UNDECIDABLE)).astype(values.dtype)
    # The middle of each step: neither certainty nor the non-response 0.5 comes of rounding.
    return np.asarray((np.minimum(np.floor(values * STEPS), STEPS - 1) + 0.5) / STEPS, dtype=values.dtype)


def known_sources(tasks: list[MemberTask], n_sources: int) -> np.ndarray:
    """(M, sources) bool: what each member is made of."""
    knows = np.zeros((len(tasks), n_sources), dtype=bool)
    for row, task in zip(knows, tasks, strict=True):
        row[list(task.sources)] = True
    return knows


def ensemble_report(
    scores: dict[str, np.ndarray], prepared: Prepared, knows: np.ndarray, calibration: PlattScaling | None = None
) -> dict[str, Any]:
    """The rows of the paper's tables 4 and 5 on the validation pairs, figures on sources that members do not know
    (`knows` (M, sources) says which they do), and a histogram of distances."""
    scores = {name: values.astype(np.float64) for name, values in scores.items()}
    catalogue, pairs = prepared.catalogue, prepared.validation
    truth, kinds, source = catalogue.same_author(pairs), catalogue.kinds(pairs), catalogue.source[pairs[:, 0]]
    author = catalogue.author[pairs]
    answers = vote(scores["ual"], scores["o2d2"], calibration).answers
    of_parts = {name.partition("_")[2]: scores[name] for name in scores if name.startswith("distance_")}
    distances = {name: members.mean(0, dtype=np.float64) for name, members in of_parts.items()}
    alone = apart(pairs)

    def row(values: np.ndarray, here: np.ndarray | slice = slice(None)) -> dict[str, Any]:
        return figures_of(truth[here], values[here], author[here])

    lengths = sorted(int(name.partition("@")[2]) for name in scores if name.startswith("ual@"))
    by_length = {}
    for n in lengths:
        by_length[f"cut to {n:,} characters"] = row(vote(scores[f"ual@{n}"], scores[f"o2d2@{n}"], calibration).answers)
    sources = {name: source == number for number, name in enumerate(prepared.sources)}
    combinations = {name: in_combination(kinds, name) for name in COMBINATIONS}
    return {
        "validation": figures(truth, scores, calibration),
        "validation_by_source": {
            name: row(answers, here) for name, here in sources.items() if here.any() and len(sources) > 1
        },
        "validation_by_kind": {name: row(answers, here) for name, here in combinations.items() if here.any()},
        "validation_by_length": by_length | {"whole texts": row(answers)},
        "validation_of_sources": _over_sources(scores, truth, source, knows, prepared.sources, calibration),
        "validation_of_known": _several_known(scores, prepared, calibration),
        "validation_of_parts": {name: auc(truth, -distance) for name, distance in distances.items()},
        # By its counts likelihood ratios are bounded: a text that comes again adds no evidence.
        "distances": histogram(truth[alone], sum(distances.values())[alone]),
    }


def _over_sources(
    scores: dict[str, np.ndarray], truth: np.ndarray, source: np.ndarray, knows: np.ndarray, names: list[str],
    calibration: PlattScaling | None,
) -> dict[str, Any]:  # fmt: skip
    """Means over sources of the figures of each: by all members, by those that know it, by those that do not; the
    last also with a population. Sources of few pairs are left out."""
    large = [n for n in range(len(names)) if (source == n).sum() >= MIN_PAIRS]
    judges = {
        "all members": np.ones_like(knows),
        "members that know the source": knows,
        "members that do not": ~knows,
    }
    table: dict[str, Any] = {}
    populations = sorted(int(name.partition("+")[2]) for name in scores if name.startswith("ual+"))
    for who, those in judges.items():
        for texts in (0, *populations):
            mark = f"+{texts}" if texts else ""
            rows = []
            for number in large:
                here, members = source == number, np.flatnonzero(those[:, number])
                members = members[: len(members) - 1 + len(members) % 2]  # an odd number, for the vote
                if len(members):
                    p_same, p_undecidable = (scores[name + mark][members][:, here] for name in ("ual", "o2d2"))
                    said = vote(p_same, p_undecidable, calibration).answers
                    bold = float((said[~truth[here]] > BOLD).mean())
                    rows.append({**all_metrics(truth[here], said), "bold": bold})
            if rows:
                title = who + (f", population of {texts}" if texts else "")
                table[title] = {"sources": len(rows)} | {key: float(np.mean([r[key] for r in rows])) for key in rows[0]}
    return table


def _several_known(
    scores: dict[str, np.ndarray], prepared: Prepared, calibration: PlattScaling | None
) -> dict[str, Any]:  # fmt: skip
    """AUC and Cllr with one to three known texts of a person, and what AUC gains over one; with 95 % intervals."""
    numbers = sorted(int(name.partition("*")[2]) for name in scores if name.startswith("ual*"))
    if not numbers:
        return {}
    trials = known_trials(prepared)
    author = prepared.catalogue.author[np.stack([trials.questioned, trials.known[:, 0]], 1)]
    samples = resamples_by_author(author, SAMPLES)
    rows: dict[str, Any] = {}
    one: list[float] = []  # AUC with one known text, of each sample
    for number in numbers:
        said = vote(scores[f"ual*{number}"], scores[f"o2d2*{number}"], calibration).answers
        drawn = [auc(trials.same[sample], said[sample]) for sample in samples]
        one = one or drawn
        intervals = {
            "auc": interval(drawn),
            "cllr": forensic_intervals(trials.same, said, samples)["cllr"],
            "gain": interval([after - before for after, before in zip(drawn, one, strict=True)]),
        }
        rows[str(number)] = {
            "trials": len(said),
            "authors": len(np.unique(author)),
            "auc": auc(trials.same, said),
            "cllr": forensic_metrics(trials.same, said)["cllr"],
            "intervals": {key: [round(limit, 4) for limit in limits] for key, limits in intervals.items()},
        }
    return rows


def figures_of(truth: np.ndarray, answers: np.ndarray, author: np.ndarray) -> dict[str, Any]:
    """Figures of some pairs by authors (P, 2), with 95 % intervals of AUC and overall."""
    intervals = {}
    if 1 < truth.sum() < len(truth) - 1:  # else a sample may well hold pairs of one kind only
        drawn = bootstrap_intervals(truth, answers, resamples_by_author(author, SAMPLES))
        intervals = {key: [round(limit, 4) for limit in drawn[key]] for key in ("auc", "overall")}
    return {"pairs": len(truth), **all_metrics(truth, answers), "intervals": intervals}


def apart(pairs: np.ndarray) -> np.ndarray:
    """(P, 2) documents -> (P) bool: pairs whose two are in no earlier one of these."""
    used: set[int] = set()
    kept = np.zeros(len(pairs), dtype=bool)
    for number, pair in enumerate(pairs.tolist()):
        if used.isdisjoint(pair):
            kept[number] = True
            used.update(pair)
    return kept


def histogram(truth: np.ndarray, distances: np.ndarray, bins: int = 40) -> dict[str, Any]:
    """Squared distance of the embeddings, averaged over members, of same- and different-author validation pairs."""
    edges = np.linspace(0, float(distances.max()) * 1.0001, bins + 1)
    return {
        "edges": [round(float(e), 6) for e in edges],
        "same": np.histogram(distances[truth], edges)[0].tolist(),
        "different": np.histogram(distances[~truth], edges)[0].tolist(),
    }


def reliability_plot(
    scores: dict[str, np.ndarray], prepared: Prepared, calibration: PlattScaling | None = None
) -> bytes | None:
    """What the ensemble says of the validation pairs against what is true; None without matplotlib."""
    try:
        from matplotlib.figure import Figure

        from ..plots import reliability
    except ImportError:
        return None
    answers = vote(scores["ual"].astype(np.float64), scores["o2d2"].astype(np.float64), calibration).answers
    figure = Figure(figsize=(5.2, 4.4), layout="constrained")
    reliability(figure.subplots(), prepared.catalogue.same_author(prepared.validation), answers)
    return png(figure)


def history_plot(tasks: list[MemberTask]) -> bytes | None:
    """Losses and accuracies per epoch, authorship against topic; None without matplotlib, or if nothing was trained."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    files = [task.folder / HISTORY for task in tasks if (task.folder / HISTORY).exists()]
    histories = [[orjson.loads(line) for line in file.read_bytes().splitlines()] for file in files]
    histories = [[r for r in history if r["stage"] in (CONTRASTIVE, PAIRS)] for history in histories]
    histories = [history for history in histories if history]
    if not histories:  # stage one of all members was reused
        return None
    panels = {
        "stage one: loss": {"loss": "contrast", "dml_loss": "DML", "bfs_loss": "BFS", "ual_loss": "UAL"},
        "stage one: accuracy in training": {"accuracy": "authorship", "topic_accuracy": "topic (probe)"},
        "development": {"dev_auc_distance": "AUC of the distance", "overall": "overall (UAL)"},
    }
    figure = Figure(figsize=(13, 3.6), layout="constrained")
    for axis, (title, series) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        for key, label in series.items():
            curves = [{r["epoch"]: r[key] for r in history if r.get(key) is not None} for history in histories]
            epochs = sorted({epoch for curve in curves for epoch in curve})
            if not epochs:
                continue
            values = np.array([[curve.get(epoch, np.nan) for epoch in epochs] for curve in curves])
            (line,) = axis.plot(epochs, np.nanmean(values, 0), label=label, marker="." if len(epochs) < 3 else "")
            axis.fill_between(epochs, np.nanmin(values, 0), np.nanmax(values, 0), alpha=0.2, color=line.get_color())
        axis.set(title=title, xlabel="epoch")
        axis.legend(frameon=False, fontsize=8)
        axis.grid(alpha=0.3)
    return png(figure)
