"""`pan21av verify`: one pair of texts to one verdict."""

from __future__ import annotations

import os

from ..verdict import Verdict
from ..verifier import Verifier


def verify(
    first: str,
    second: str,
    *,
    models: str | os.PathLike[str] | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> Verdict:
    """Compare two texts. It loads the ensemble for this one answer: for more of them keep a `Verifier`."""
    return Verifier.load(models, device=device, threads=threads).verify(first, second)
