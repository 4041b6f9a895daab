"""`pan21av info`: which ensemble would answer, and on what."""

from __future__ import annotations

import os
from typing import Any

from .. import __version__
from ..network.checkpoint import find_ensemble, read_manifest
from ..runtime.device import choose_device, describe
from ..runtime.parallel import usable_cores

CARD = "MODEL_CARD.md"


def info(*, models: str | os.PathLike[str] | None = None, device: str = "auto") -> dict[str, Any]:
    """Facts of an ensemble, from its manifest, and what this machine would compute on."""
    folder = find_ensemble(models)
    manifest = read_manifest(folder)
    training = manifest.get("training", {})
    figures = manifest.get("validation", {}).get("ensemble_o2d2")
    splits = training.get("splits", {})
    return {
        "pan21av": __version__,
        "ensemble": manifest.get("name"),
        "folder": str(folder),
        "members": len(manifest["members"]),
        "tokeniser": manifest["tokeniser"],
        "trained": training.get("finished"),
        "documents": splits.get("training", {}).get("documents"),
        "authors": splits.get("training", {}).get("authors"),
        "validation": figures and {key: figures[key] for key in ("auc", "overall", "ece", "non_responses")},
        "validation_pairs": _validation_pairs(manifest),
        "calibration": manifest.get("calibration"),
        "card": str(folder / CARD) if (folder / CARD).exists() else None,
        "computing": describe(choose_device(device), usable_cores()),
    }


def _validation_pairs(manifest: dict[str, Any]) -> int | None:
    """What the figures rest on: a handful of pairs proves little."""
    distances = manifest.get("distances")
    return sum(distances["same"]) + sum(distances["different"]) if isinstance(distances, dict) else None


def format_info(facts: dict[str, Any]) -> str:
    """About ten lines for a terminal."""
    lines = [
        f"pan21av     {facts['pan21av']}",
        f"ensemble    {facts['ensemble']}, in {facts['folder']}",
        f"members     {facts['members']}",
        f"tokeniser   {facts['tokeniser']}",
    ]
    if facts["trained"]:
        lines.append(f"trained     {facts['trained']}")
    if facts["documents"]:
        lines.append(f"on          {facts['documents']:,} documents by {facts['authors']:,} authors")
    if facts["validation"]:
        figures = facts["validation"]
        lines.append(
            f"validation  AUC {figures['auc']:.3f}, overall {figures['overall']:.3f}, calibration error "
            f"{100 * figures['ece']:.1f} %, non-responses {100 * figures['non_responses']:.1f} %"
            + (f", of {facts['validation_pairs']:,} pairs" if facts["validation_pairs"] else "")
        )
    fitted = facts["calibration"]
    if fitted and "from" in fitted:  # on somebody's own pairs, after training
        lines.append(
            f"calibrated  logits x {fitted['scale']:.3f} {fitted['shift']:+.3f}, on {fitted['pairs']:,} pairs by "
            f"{fitted['authors']:,} authors: Cllr {fitted['before']['cllr']:.3f} -> {fitted['after']['cllr']:.3f}"
        )
    if facts["card"]:
        lines.append(f"card        {facts['card']}")
    return "\n".join([*lines, f"computing   {facts['computing']}"])
