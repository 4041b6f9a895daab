"""`pan21av calibrate`: an ensemble whose answers mean what they say on a population of one's own."""

from __future__ import annotations

import os
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from ..data.pan import Truth, find_file, read_truth
from ..data.trials import TrialFile
from ..errors import InputError
from ..files import output_folder
from ..network.checkpoint import derive_ensemble, find_ensemble, read_manifest
from ..recalibration import Recalibration, recalibrate
from ..runtime.progress import Progress
from ..verifier import Verifier
from ..vote import PlattScaling
from .info import CARD

SHOWN = 3  # ids named in an error


def calibrate(
    input: str,
    truth: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    models: str | os.PathLike[str] | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> Recalibration:
    """Fit a shift and scale of an ensemble's answers on labelled pairs, and write the ensemble that has them to
    `output`. The truth must name the authors.

    Nothing is written if it does not help: `verdict` of what is returned then says why.
    """
    folder, base = output_folder(output), find_ensemble(models)
    if folder.exists():
        raise InputError(f"{folder} exists already: name another folder for the calibrated ensemble")
    shipped = read_manifest(base).get("calibration") or asdict(PlattScaling())
    if "from" in shipped:
        raise InputError(f"{base} was calibrated before: start from the ensemble that it was made of")
    labels = _labels(find_file(Path(truth), "truth.jsonl"))
    ids, values = _answers(input, labels, Verifier.load(base, device=device, threads=threads))
    same = np.array([labels[trial].same for trial in ids])
    found = recalibrate(same, values, np.array([labels[trial].authors for trial in ids]))
    if not found.verdict:
        card = base / CARD
        extra = {CARD: card.read_bytes() + _section(found, base).encode()} if card.is_file() else {}
        entry = _entry(found, base) | asdict(found.calibration.after(PlattScaling.from_dict(shipped)))
        derive_ensemble(base, folder, {"calibration": entry}, extra)
    return found


def _labels(path: Path) -> dict[str, Truth]:
    labels = dict(read_truth(path))
    if nameless := [trial for trial, entry in labels.items() if entry.authors is None]:
        raise InputError(
            f"{path} does not name the authors of {len(nameless):,} trials ({', '.join(nameless[:SHOWN])}), and "
            'without {"authors": ["...", "..."]} no pair can be judged by a fit that did not see its authors'
        )
    return labels


def _answers(source: str, labels: dict[str, Truth], verifier: Verifier) -> tuple[list[str], np.ndarray]:
    """What the ensemble says of every trial."""
    with TrialFile(source, Path(".")) as trials:
        inspected = trials.inspect()
        if inspected.faults:
            raise InputError(f"{trials.name}: {inspected.report}; {trials.expected}")
        if unknown := [trial.id for trial in trials.read() if trial.id not in labels]:
            raise InputError(f"the truth lacks {len(unknown):,} trials of {trials.name}: {', '.join(unknown[:SHOWN])}")
        if not inspected.trials:
            raise InputError(f"{trials.name} holds no trials; {trials.expected}")
        ids, values = [], []
        with Progress(inspected.trials, "pairs", 0) as bar:
            for trial, verdict in verifier.answer(trials.read()):
                ids.append(trial.id)
                values.append(verdict.probability)
                bar.advance()
    return ids, np.array(values)


def _entry(found: Recalibration, base: Path) -> dict[str, Any]:
    """What ensemble.json says of it."""
    return {
        "strength": found.strength,
        "pairs": found.pairs,
        "authors": found.authors,
        "made": date.today().isoformat(),
        "from": str(read_manifest(base).get("name")),
        "before": {name: figure.value for name, figure in found.before.items()},
        "after": {name: figure.value for name, figure in found.after.items()},
    }


def _section(found: Recalibration, base: Path) -> str:
    """Of the model card, whose other figures are those of the ensemble as it was."""
    return (
        f"\n## Calibrated on a population\n\nAll figures above are of the ensemble `{base.name}`. The logits of its "
        f"answers were then multiplied by {found.calibration.scale:.3f} and moved by {found.calibration.shift:+.3f}, "
        f"fitted on {found.pairs:,} pairs by {found.authors:,} authors of one population. On these, out of fold:\n\n"
        f"| | before | after |\n|---|---|---|\n"
        f"| Cllr | {found.before['cllr']} | {found.after['cllr']} |\n"
        f"| ECE | {found.before['ece']} | {found.after['ece']} |\n"
    )


def format_recalibration(found: Recalibration, output: str | os.PathLike[str]) -> str:
    """A few lines for a terminal."""
    lines = [
        f"pairs   {found.pairs:,}, of them {found.same:,} by one author and {found.non_responses:,} non-responses; "
        f"{found.authors:,} authors",
        f"        {'before':24}after, out of fold",
        f"Cllr    {found.before['cllr']!s:24}{found.after['cllr']}, lower in {100 * found.surely:.0f} % of samples",
        f"ECE     {found.before['ece']!s:24}{found.after['ece']}",
        f"logits  x {found.calibration.scale:.3f} {found.calibration.shift:+.3f}, shrinkage {found.strength:g}",
    ]
    end = f"nothing was written: {found.verdict}" if found.verdict else f"-> {output}"
    return "\n".join([*lines, end])
