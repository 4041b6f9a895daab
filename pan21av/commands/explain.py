"""`pan21av explain`: one pair of texts to one self-contained page."""

from __future__ import annotations

import os
from pathlib import Path

from ..data.trials import TrialFile
from ..errors import InputError
from ..files import write_whole
from ..verdict import TEXTS, Verdict
from .page import render
from .population import load_verifier


def explain(
    first: str,
    second: str,
    output: str | os.PathLike[str],
    *,
    names: tuple[str, str] = TEXTS,
    prior: float | None = None,
    population: str | os.PathLike[str] | None = None,
    models: str | os.PathLike[str] | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> Verdict:
    """Write a page on one pair to `output`; it needs no network, and texts in it are data, never markup. `prior` is
    the probability of one author before the texts were read, if not a half."""
    verifier = load_verifier(models, device, threads, population)
    verdict = verifier.verify(first, second)
    page = render(verifier, verdict, (first, second), names, prior)
    write_whole(Path(output), page.encode("utf-8", "replace"))
    return verdict


def find_trial(source: str, trial: str) -> tuple[str, str]:
    """The texts of one trial of a pairs.jsonl."""
    with TrialFile(source, Path(".")) as trials:
        skip = trials.inspect().skip
        for entry in trials.read(skip):
            if entry.id == trial:
                if entry.texts is None:
                    raise InputError(f"{trials.name}: the trial {trial!r} lacks two usable texts")
                if len(entry.texts) > 2:
                    raise InputError(f"{trials.name}: the trial {trial!r} has several known texts; a page shows two")
                return entry.texts[0], entry.texts[1]
        raise InputError(f"{trials.name} holds no trial {trial!r}")
