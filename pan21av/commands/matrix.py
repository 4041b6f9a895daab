"""The page of `attribute`: a matrix of all comparisons, then the people ranked for every text. Names are data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from .. import __version__
from ..verdict import CAUTION, PROPOSITIONS, Verdict, bounds_words
from ..verifier import Verifier
from .page import fill

if TYPE_CHECKING:
    from .attribute import Attribution


def render(verifier: Verifier, found: Sequence[Attribution], known: Mapping[str, Sequence[str]]) -> str:
    """The whole page."""
    subject = found[0].questioned if len(found) == 1 else f"these {len(found)} texts"
    words = found[0].words if len(found) == 1 else _summary(found)
    texts = sum(map(len, known.values()))
    population = f" Judged with {verifier.population.words}." if verifier.population else ""
    return fill(
        "matrix.html",
        title=escape(f"Who wrote {subject}?"),
        subject=escape(subject),
        words=escape(words[0].upper() + words[1:]),
        caution=escape(CAUTION),
        matrix=_matrix(found, list(known)),
        ranked="".join(map(_ranked, found)),
        propositions=escape(
            f"A likelihood ratio (LR) compares: {PROPOSITIONS[0]}; {PROPOSITIONS[1]}. "
            + bounds_words(verifier.ratio_bounds)
        ),
        provenance=escape(
            f"pan21av {__version__}, ensemble {verifier.ensemble.name}, {verifier.network.n_members} members. "
            f"{len(known)} people, {texts} known texts.{population}"
        ),
    )


def _summary(found: Sequence[Attribution]) -> str:
    attributed = sum(attribution.author is not None for attribution in found)
    return f"{attributed} of {len(found)} texts attributed to somebody"


def _matrix(found: Sequence[Attribution], people: list[str]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in people)
    rows = []
    for attribution in found:
        verdicts = {candidate.name: candidate.verdict for candidate in attribution.candidates}
        cells = "".join(_cell(verdicts[name], best=name == attribution.author) for name in people)
        name = escape(attribution.questioned).replace("/", "/<wbr>")  # a path may be broken there
        rows.append(f"<tr><td>{name}</td>{cells}</tr>")
    return (
        f'<table class="matrix"><thead><tr><th>questioned text</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _cell(verdict: Verdict, *, best: bool) -> str:
    if verdict.decision is None:
        return f'<td title="{escape(verdict.words)}">–</td>'
    side = "same" if verdict.decision else "different"
    weight = 2 * abs(verdict.probability - 0.5)
    return (
        f'<td class="{side}{" best" if best else ""}" style="--w:{weight:.2f}" title="{escape(verdict.words)}">'
        f"{verdict.probability:.2f}</td>"
    )


def _ranked(attribution: Attribution) -> str:
    rows = []
    for candidate in attribution.candidates:
        verdict = candidate.verdict
        ratio = "–" if verdict.log10_lr is None else f"{verdict.log10_lr:+.2f}"
        notes = "".join(f"<br>{escape(str(note))}" for note in verdict.notes)
        rows.append(
            f"<tr><td>{escape(candidate.name)}</td><td>{verdict.probability:.3f}</td><td>{ratio}</td>"
            f'<td>{escape(verdict.words)}<span class="soft">{notes}</span></td></tr>'
        )
    return (
        f"<section><h2>{escape(attribution.questioned)}</h2><p>{escape(attribution.words)}</p>"
        '<div class="wide" tabindex="0"><table class="ranked"><thead><tr><th>person</th><th>probability</th>'
        f"<th>log<sub>10</sub> LR</th><th>in words</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        "</section>"
    )
