"""`pan21av verify`: a text, and one or several by one person, to one verdict."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from typing import Any

from ..verdict import CAUTION, PROPOSITIONS, Verdict, three_figures
from .population import load_verifier

TERMINAL = 80  # columns


def format_verdict(verdict: Verdict, prior: float | None = None, known: Sequence[str] = ()) -> str:
    """Some lines for a terminal; `known` are names for "known text 1", "known text 2" and so on."""
    lines = [f"{_capital(verdict.words)} (probability of one author: {three_figures(verdict.probability)})."]
    lines.append(textwrap.fill(verdict.ratio_words, TERMINAL))
    if prior is not None and (posterior := verdict.posterior(prior)) is not None:
        lines.append(f"With a prior probability of {prior:g} that of one author becomes {three_figures(posterior)}.")
    lines.append(CAUTION)
    names = {f"known text {number}": name for number, name in enumerate(known, 1)}
    lines += [f"Note: {names.get(note.where, note.where)}: {note.words}." for note in verdict.notes]
    if verdict.scores is None:
        return "\n".join([*lines, "No member was asked."])
    lines.append(
        f"Of {verdict.abstained + verdict.same + verdict.different} members {verdict.abstained} abstained, "
        f"{verdict.same} said same, {verdict.different} different."
    )
    return "\n".join([*lines, f"{_capital(verdict.kind)}."] if verdict.kind else lines)


def verdict_dict(verdict: Verdict, prior: float | None = None) -> dict[str, Any]:
    """For JSON."""
    more = {} if prior is None else {"prior": prior, "posterior": verdict.posterior(prior)}
    return {**verdict.to_dict(), "propositions": list(PROPOSITIONS), **more}


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]


def verify(
    questioned: str,
    known: str | Sequence[str],
    *,
    population: str | os.PathLike[str] | None = None,
    models: str | os.PathLike[str] | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> Verdict:
    """Compare a text with another, or with several that one person wrote. It loads the ensemble for this one answer:
    for more of them keep a `Verifier`. `population` is a file or folder of other texts of that kind."""
    return load_verifier(models, device, threads, population).verify(questioned, known)
