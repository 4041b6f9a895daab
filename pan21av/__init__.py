"""pan21av: did the same person write these two texts? A calibrated probability, or 0.5.

from pan21av import Verifier
Verifier.load().verify(text, other).probability
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["PanError", "Verdict", "Verifier", "__version__"]

if TYPE_CHECKING:
    from .errors import PanError
    from .verifier import Verdict, Verifier

_HOMES = {"PanError": "errors", "Verdict": "verifier", "Verifier": "verifier"}


def __getattr__(name: str) -> Any:
    """Imported when first used: worker processes that only tokenise never load torch."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
