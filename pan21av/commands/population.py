"""`pan21av population`: texts of a kind to a file that other commands take; and what their --population means."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from ..data.gather import texts_in
from ..errors import InputError
from ..network.checkpoint import Ensemble, find_ensemble, load_ensemble
from ..populations import PopulationTexts, load_population, project_population
from ..verifier import Verifier

log = logging.getLogger("pan21av")

KEPT = ".npz"


def population(
    input: str | os.PathLike[str], output: str | os.PathLike[str], *, models: str | os.PathLike[str] | None = None
) -> PopulationTexts:
    """Keep the population of `input` (a folder of files, or JSON lines) in the file `output`, for one ensemble."""
    path = Path(output)
    if path.suffix != KEPT:
        raise InputError(f"a population is kept in a {KEPT} file, not in {path}")
    found = find_population(input, load_ensemble(find_ensemble(models)))
    found.save(path)
    return found


def find_population(place: str | os.PathLike[str], ensemble: Ensemble) -> PopulationTexts:
    """That of a file or folder of texts, or one that was kept."""
    path = Path(place)
    if path.suffix == KEPT and path.is_file():
        found = load_population(path, ensemble)
    else:
        found = project_population(ensemble, texts_in(path))
    log.info("judged with %s of %s", found.words, path)
    return found


def load_verifier(
    models: str | os.PathLike[str] | None,
    device: str,
    threads: int | None,
    population: str | os.PathLike[str] | None = None,
) -> Verifier:
    verifier = Verifier.load(models, device=device, threads=threads)
    return verifier if population is None else verifier.with_population(find_population(population, verifier.ensemble))
