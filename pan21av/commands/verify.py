"""`pan21av verify`: a text, and one or several by one person, to one verdict."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..verdict import Verdict
from .population import load_verifier


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
