"""`pan21av attribute`: who of several people wrote a text, or none of them?"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files import write_whole
from ..verdict import PROPOSITIONS, Verdict, bounds_words
from .population import load_verifier


@dataclass(frozen=True)
class Candidate:
    name: str
    verdict: Verdict  # on the questioned text against all of the person's texts


@dataclass(frozen=True)
class Attribution:
    """One questioned text, and the people who may have written it, the likeliest first."""

    questioned: str  # its name
    candidates: tuple[Candidate, ...]

    @property
    def author(self) -> str | None:
        """The likeliest, if likelier than not; None: none of them."""
        return self.candidates[0].name if self.candidates[0].verdict.decision else None

    @property
    def words(self) -> str:
        if self.author is not None:
            return f"{self.author} rather than another person: {self.candidates[0].verdict.words}"
        silent = all(candidate.verdict.decision is None for candidate in self.candidates)
        return "cannot tell" if silent else "none of them"

    def to_dict(self, prior: float | None = None) -> dict[str, Any]:
        people = []
        for candidate in self.candidates:
            entry: dict[str, Any] = {"name": candidate.name, **candidate.verdict.to_dict()}
            if prior is not None:
                entry["posterior"] = candidate.verdict.posterior(prior)
            people.append(entry)
        return {"questioned": self.questioned, "author": self.author, "candidates": people}


def attribute(
    questioned: Mapping[str, str],
    known: Mapping[str, Sequence[str]],
    *,
    output: str | os.PathLike[str] | None = None,
    population: str | os.PathLike[str] | None = None,
    models: str | os.PathLike[str] | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> list[Attribution]:
    """Every text of `questioned` {name: text} against every person of `known` {name: texts}, each judged alone: it may
    be none of them. With `output` also a page with all comparisons."""
    if not questioned or not known:
        raise InputError("attribute needs a questioned text, and somebody who may have written it")
    verifier = load_verifier(models, device, threads, population)
    people = list(known)
    pairs = ((text, tuple(known[name])) for text in questioned.values() for name in people)
    verdicts = verifier.predict(pairs)
    found = []
    for name in questioned:
        candidates = [Candidate(person, next(verdicts)) for person in people]
        candidates.sort(key=lambda candidate: (-candidate.verdict.probability, candidate.name))
        found.append(Attribution(name, tuple(candidates)))
    if output is not None:
        from .matrix import render

        write_whole(Path(output), render(verifier, found, known).encode("utf-8", "replace"))
    return found


def report_dict(found: Sequence[Attribution], prior: float | None = None) -> dict[str, Any]:
    """For JSON."""
    return {
        "propositions": list(PROPOSITIONS),
        "prior": prior,
        "attributions": [attribution.to_dict(prior) for attribution in found],
    }


def format_attributions(found: Sequence[Attribution], prior: float | None = None) -> str:
    """Tables for a terminal."""
    lines = []
    for attribution in found:
        lines.append(f"{attribution.questioned}: {attribution.words}")
        width = max(len(candidate.name) for candidate in attribution.candidates)
        for rank, candidate in enumerate(attribution.candidates, 1):
            verdict = candidate.verdict
            ratio = "" if verdict.log10_lr is None else f"{verdict.log10_lr:+.2f}"
            cells = [f"{rank:4}  {candidate.name:{width}}", f"p {verdict.probability:.3f}", f"log10 LR {ratio:>5}"]
            if prior is not None and (posterior := verdict.posterior(prior)) is not None:
                cells.append(f"with prior {prior:g}: {posterior:.3f}")
            lines.append("  ".join([*cells, verdict.words]))
            lines += [f"      Note: {note}." for note in verdict.notes]
    every = (candidate.verdict for attribution in found for candidate in attribution.candidates)
    bounds = next((verdict.bounds for verdict in every if verdict.bounds), None)
    lines.append(
        "Each person is judged alone, so it may be none of them. A ratio compares: "
        f"{PROPOSITIONS[0]}; {PROPOSITIONS[1]}. {bounds_words(bounds)}"
    )
    return "\n".join(lines)
