"""Plots of an evaluation, for `evaluate -o DIR`; matplotlib is in the extra `eval`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from .forensic import Curve
from .metrics import auc, bin_of
from .vote import NON_RESPONSE, SCORES, answered, says_same, vote

SAME, DIFFERENT, GREY = "#0d6e76", "#b04814", "#8a867d"
COLOURS = (SAME, DIFFERENT, "#5b4b9a", "#7a6a00", "#333333")  # of several systems
ROOM = (-0.03, 1.03)  # around the unit square: points at its edge are not cut
BINS = 10
UAL, O2D2 = SCORES.index("ual"), SCORES.index("o2d2")


def draw(
    folder: Path,
    truth: np.ndarray,
    values: np.ndarray,
    kind: np.ndarray | None,
    details: np.ndarray | None,
    name: str = "",
    others: Mapping[str, np.ndarray] | None = None,
    curves: Mapping[str, Curve] | None = None,
) -> list[str]:
    """Write the plots into `folder`; returns their names.

    `truth` (n) bool, `values` (n), `kind` (n) of pair or None, `details` (n, 4, members) of predict --details;
    `others` are the answers (n) of further systems, compared with those of `name` where curves can be;
    `curves` those of forensic.forensic_curves, of the first.
    """
    from matplotlib.figure import Figure

    drawn = {
        "reliability.png": lambda axes: reliability(axes, truth, values, name, others),
        "roc.png": lambda axes: roc(axes, truth, values, name, others),
        "coverage.png": lambda axes: coverage(axes, truth, values, details),
    }
    if curves:
        drawn["tippett.png"] = lambda axes: tippett(axes, curves)
        drawn["det.png"] = lambda axes: det(axes, curves["det"])
        drawn["pav.png"] = lambda axes: pav(axes, curves["pav"])
    for file, paint in drawn.items():
        figure = Figure(figsize=(5.2, 4.4), layout="constrained")
        paint(figure.subplots())
        figure.savefig(folder / file, dpi=110)
    figure = Figure(figsize=(9, 4), layout="constrained")
    posteriors(figure, truth, values, kind, details)
    figure.savefig(folder / "posteriors.png", dpi=110)
    names = [*drawn, "posteriors.png"]
    if details is not None:
        figure = Figure(figsize=(9, 4), layout="constrained")
        agreement(figure, truth, values, details)
        figure.savefig(folder / "agreement.png", dpi=110)
        names.append("agreement.png")
    return names


def reliability_bins(truth: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean probability, share of one author, and number of answered trials in each bin that has any."""
    there = answered(values)
    p, same = values[there], truth[there]
    index = np.minimum((p * BINS).astype(int), BINS - 1)
    counts = np.bincount(index, minlength=BINS)
    used = counts > 0
    sums = [np.bincount(index, weights, BINS)[used] / counts[used] for weights in (p, same.astype(float))]
    return sums[0], sums[1], counts[used]


def reliability(
    axes: Any, truth: np.ndarray, values: np.ndarray, name: str = "", others: Mapping[str, np.ndarray] | None = None
) -> None:
    """What was said against what was true: points on the diagonal mean what they say."""
    axes.plot([0, 1], [0, 1], color=GREY, lw=1, ls="--")
    for number, (label, answers) in enumerate({name: values, **(others or {})}.items()):
        said, true, counts = reliability_bins(truth, answers)
        error = np.sqrt(np.maximum(true * (1 - true), 1e-9) / counts)
        colour = COLOURS[number % len(COLOURS)]
        axes.errorbar(said, true, yerror_limits(true, error), fmt="o-", color=colour, capsize=3, label=label)
        if number == 0:
            for x, y, n in zip(said, true, counts, strict=True):
                axes.annotate(f"{n:,}", (x, y), textcoords="offset points", xytext=(6, -10), fontsize=7, color=GREY)
    axes.set(title="Reliability", xlim=ROOM, ylim=ROOM)
    axes.set(xlabel="probability of one author, as answered", ylabel="share of pairs by one author")
    if others:
        axes.legend(frameon=False, fontsize=8)


def yerror_limits(share: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Standard errors (2, n) that stay within [0, 1]."""
    return np.stack([np.minimum(error, share), np.minimum(error, 1 - share)])


def roc_curve(truth: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """False and true positive rates at every threshold, ties together."""
    order = np.argsort(-values, kind="stable")
    last = np.append(np.flatnonzero(np.diff(values[order])), len(values) - 1)
    hits, alarms = np.cumsum(truth[order])[last], np.cumsum(~truth[order])[last]
    return (
        np.concatenate([[0], alarms / max(1, int((~truth).sum()))]),
        np.concatenate([[0], hits / max(1, int(truth.sum()))]),
    )


def roc(
    axes: Any, truth: np.ndarray, values: np.ndarray, name: str = "", others: Mapping[str, np.ndarray] | None = None
) -> None:
    axes.plot([0, 1], [0, 1], color=GREY, lw=1, ls="--")
    for number, (label, answers) in enumerate({name: values, **(others or {})}.items()):
        label = f"{label} AUC {auc(truth, answers):.3f}".strip()
        axes.plot(*roc_curve(truth, answers), color=COLOURS[number % len(COLOURS)], lw=2, label=label)
    axes.set(xlabel="false positive rate", ylabel="true positive rate", title="ROC", xlim=ROOM, ylim=ROOM)
    axes.legend(frameon=False, fontsize=8, loc="lower right")


def coverage_curve(doubt: np.ndarray, correct: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Share of trials answered, and accuracy on them, as the most doubtful are left out one by one."""
    order = np.argsort(doubt, kind="stable")
    n = np.arange(1, len(order) + 1)
    return n / len(order), np.cumsum(correct[order]) / n


def coverage(axes: Any, truth: np.ndarray, values: np.ndarray, details: np.ndarray | None) -> None:
    curves = {"by distance from 0.5": (-np.abs(values - NON_RESPONSE), says_same(values) == truth)}
    if details is not None:
        mean = np.nan_to_num(details[:, UAL].mean(1), nan=NON_RESPONSE)
        doubt = np.nan_to_num(details[:, O2D2].mean(1), nan=1.0)
        curves["by O2D2"] = (doubt, says_same(mean) == truth)
    for (name, (doubt, correct)), colour in zip(curves.items(), (SAME, DIFFERENT), strict=False):
        share, accuracy = coverage_curve(doubt, correct)
        axes.plot(share, accuracy, color=colour, label=name)
    there = answered(values)
    if there.any():
        accuracy = (says_same(values) == truth)[there].mean()
        axes.plot(there.mean(), accuracy, "o", color="black", label="as answered")
    axes.set(xlabel="share of trials answered", ylabel="accuracy on them", title="Coverage", xlim=(0, 1.02))
    axes.legend(frameon=False)


def posteriors(
    figure: Any, truth: np.ndarray, values: np.ndarray, kind: np.ndarray | None, details: np.ndarray | None
) -> None:
    """Histograms by kind of pair, without and with O2D2 (figure 4 of the paper)."""
    kinds = kind if kind is not None else np.where(truth, "one author", "two authors")
    panels = {"answers": values}
    if details is not None:
        panels = {"without O2D2": details[:, UAL].mean(1), "with O2D2 (as answered)": values}
    for axes, (title, p) in zip(
        np.atleast_1d(figure.subplots(1, len(panels), sharey=True)), panels.items(), strict=True
    ):
        names = sorted(set(kinds.tolist()))
        axes.hist([p[(kinds == name) & np.isfinite(p)] for name in names], bins=np.linspace(0, 1, 21), label=names,
                  histtype="step", lw=1.8)  # fmt: skip
        axes.set(title=title, xlabel="probability of one author", xlim=(0, 1))
        axes.legend(frameon=False, fontsize=8)


def agreement(figure: Any, truth: np.ndarray, values: np.ndarray, details: np.ndarray) -> None:
    """How many members side with the larger camp, and how often it is right; how many abstain."""
    usable = np.isfinite(details[:, UAL]).all(1)
    votes = says_same(details[usable, UAL]).sum(1)
    members = details.shape[2]
    camp = np.maximum(votes, members - votes)
    correct = ((votes * 2 > members) == truth[usable]).astype(float)
    counts = np.bincount(camp, minlength=members + 1)
    right = np.bincount(camp, correct, members + 1)
    used = np.flatnonzero(counts)
    left, other = figure.subplots(1, 2)
    left.bar(used, counts[used], color="#d9d5cb")
    left.set(title="Members that agree", xlabel=f"members of the larger camp, of {members}", ylabel="trials")
    twin = left.twinx()
    twin.plot(used, right[used] / counts[used], "o-", color=SAME)
    twin.set(ylim=(0, 1.05), ylabel="accuracy")
    abstaining = vote(details[usable, UAL].T, details[usable, O2D2].T).abstains.sum(0)
    other.hist(abstaining, bins=np.arange(members + 2) - 0.5, color=DIFFERENT)
    other.axvline(members / 2, color="black", lw=1, ls="--")
    other.set(title="Members that abstain", xlabel="members; beyond the line there is no answer", yscale="log")


def _with_band(axes: Any, curve: Curve, colour: str, label: str = "", **options: Any) -> None:
    axes.plot(curve.x, curve.y, color=colour, lw=2, label=label, **options)
    axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.2, lw=0, step=_step(options))


def _step(options: Mapping[str, Any]) -> str | None:
    return "post" if options.get("drawstyle") == "steps-post" else None


def tippett(axes: Any, curves: Mapping[str, Curve]) -> None:
    """How many pairs of either kind have at least a likelihood ratio; beyond the grey line they mislead."""
    axes.axvline(0, color=GREY, lw=1, ls="--")
    _with_band(axes, curves["tippett_same"], SAME, "one author")
    _with_band(axes, curves["tippett_different"], DIFFERENT, "two authors")
    axes.set(xlabel="log10 of the likelihood ratio", ylabel="share of pairs with at least as much")
    axes.set(title="Tippett plot, with 95 % limits", ylim=ROOM)
    axes.legend(frameon=False, fontsize=8)


RATES = (0.001, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.99)  # marked on the axes of a DET curve


def probit(rates: np.ndarray) -> np.ndarray:
    """Rates as normal deviates; those of 0 and 1 as of the ends of the axes."""
    normal = NormalDist()
    return np.array([normal.inv_cdf(min(max(float(rate), RATES[0]), RATES[-1])) for rate in rates])


def det(axes: Any, curve: Curve) -> None:
    """Both kinds of errors (detection error trade-off): a straight line where the scores are normal."""
    ends = probit(np.array([RATES[0], RATES[-1]]))
    axes.plot(ends, ends, color=GREY, lw=1, ls="--")
    _with_band(axes, Curve(*map(probit, (curve.x, curve.y, np.nan_to_num(curve.low), np.nan_to_num(curve.high)))), SAME)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(probit(np.array(RATES)), [f"{100 * rate:g}" for rate in RATES], fontsize=7)
    axes.set(xlabel="false alarms, % of pairs by two authors", ylabel="misses, % of pairs by one author")
    axes.set(title="DET curve, with 95 % limits", xlim=ends, ylim=ends)


def pav(axes: Any, curve: Curve) -> None:
    """What isotonic regression makes of the answers, at even odds: on the diagonal they mean what they say."""
    axes.plot([0, 1], [0, 1], color=GREY, lw=1, ls="--")
    _with_band(axes, curve, SAME, drawstyle="steps-post")
    axes.set(title="Reliability by PAV, with 95 % limits", xlim=ROOM, ylim=ROOM)
    axes.set(xlabel="probability of one author, as answered", ylabel="probability after PAV, at even odds")


def accuracies(axes: Any, histories: Sequence[Sequence[Mapping[str, Any]]]) -> bool:
    """Authorship and topic accuracy by epoch, mean and deviation over members (figure 3 of the paper); whether there
    was anything to draw."""
    drawn = False
    for key, label, colour in (("accuracy", "authorship", SAME), ("topic_accuracy", "topic", DIFFERENT)):
        curves = [{r["epoch"]: r[key] for r in history if r.get(key) is not None} for history in histories]
        epochs = sorted({epoch for curve in curves for epoch in curve})
        if not epochs:
            continue
        values = np.array([[curve.get(epoch, np.nan) for epoch in epochs] for curve in curves if curve])
        mean, spread = np.nanmean(values, 0), np.nanstd(values, 0)
        axes.errorbar(epochs, mean, spread, color=colour, marker=".", capsize=2, label=label)
        drawn = True
    shares = [r["topic_share"] for history in histories for r in history if r.get("topic_share") is not None]
    if shares:
        axes.axhline(max(np.mean(shares), 1 - np.mean(shares)), color=GREY, ls="--", lw=1, label="topic, by chance")
    axes.set(title="Accuracy in training", xlabel="epoch", ylabel="accuracy")
    axes.legend(frameon=False, fontsize=8)
    return drawn


def confidence_bins(truth: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean confidence, accuracy and number of trials in each bin (k / 10, (k + 1) / 10] of confidence that has any;
    non-responses are decisions for two authors at 0.5."""
    confidence, correct = np.maximum(values, 1 - values), says_same(values) == truth
    index = bin_of(confidence, BINS)
    counts = np.bincount(index, minlength=BINS)
    used = counts > 0
    sums = [np.bincount(index, weights, BINS)[used] / counts[used] for weights in (confidence, correct.astype(float))]
    return sums[0], sums[1], counts[used]


def confidence_and_posteriors(figure: Any, truth: np.ndarray, answers: Mapping[str, np.ndarray]) -> None:
    """Of each system accuracy against confidence, and below it histograms of its answers (figure 4 of the paper)."""
    above, below = np.atleast_2d(figure.subplots(2, len(answers)))
    for axes, histogram, (name, values) in zip(above, below, answers.items(), strict=True):
        confidence, right, counts = confidence_bins(truth, values)
        axes.plot([0.5, 1], [0.5, 1], color=GREY, lw=1, ls="--")
        axes.bar(confidence, right, width=0.06, color=SAME, alpha=0.6)
        for x, y, n in zip(confidence, right, counts, strict=True):
            axes.annotate(f"{n:,}", (x, y), ha="center", va="bottom", fontsize=7)
        axes.set(title=name, xlabel="confidence", ylabel="accuracy", xlim=(0.45, 1.05), ylim=(0, 1.08))
        histogram.hist([values[truth], values[~truth]], bins=np.linspace(0, 1, 21), color=[SAME, DIFFERENT],
                       label=["one author", "two authors"], histtype="step", lw=1.6)  # fmt: skip
        histogram.set(xlabel="probability of one author", ylabel="pairs", xlim=(0, 1))
        histogram.legend(frameon=False, fontsize=8)
