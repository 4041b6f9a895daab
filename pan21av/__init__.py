"""pan21av: did the same person write these two texts? A calibrated probability, or 0.5.

    from pan21av import Verifier

    Verifier.load().verify(text, other).probability

Every command is a function here as well: predict, verify, attribute, explain, embed, population, evaluate, calibrate,
info, train, report.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

try:
    __version__ = version("pan21av")  # written once, in pyproject.toml
except PackageNotFoundError:  # a tree that was never installed
    __version__ = "unknown"

__all__ = [
    "Embedding",
    "EnvironmentFault",
    "InputError",
    "PanError",
    "Verdict",
    "Verifier",
    "__version__",
    "attribute",
    "calibrate",
    "embed",
    "evaluate",
    "explain",
    "info",
    "population",
    "predict",
    "report",
    "train",
    "verify",
]

if TYPE_CHECKING:
    from .commands.attribute import attribute
    from .commands.calibrate import calibrate
    from .commands.embed import embed
    from .commands.evaluate import evaluate
    from .commands.explain import explain
    from .commands.info import info
    from .commands.population import population
    from .commands.predict import predict
    from .commands.report import report
    from .commands.verify import verify
    from .errors import EnvironmentFault, InputError, PanError
    from .network.embedding import Embedding
    from .training.run import train
    from .verdict import Verdict
    from .verifier import Verifier

_HOMES = {
    "Embedding": "network.embedding",
    "EnvironmentFault": "errors",
    "InputError": "errors",
    "PanError": "errors",
    "Verdict": "verdict",
    "Verifier": "verifier",
    "attribute": "commands.attribute",
    "calibrate": "commands.calibrate",
    "embed": "commands.embed",
    "evaluate": "commands.evaluate",
    "explain": "commands.explain",
    "info": "commands.info",
    "population": "commands.population",
    "predict": "commands.predict",
    "report": "commands.report",
    "train": "training.run",
    "verify": "commands.verify",
}


def __getattr__(name: str) -> Any:
    """Imported when first used: worker processes that only tokenise never load torch."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
