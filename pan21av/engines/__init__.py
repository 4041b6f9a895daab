"""Where work is done: the one seam between the commands and the machines they run on.

An engine is a module with two functions: `answering` gives something that maps pairs to verdicts,
in order, for prediction; `run_tasks` maps tasks to results, as they finish, for training. `local`
uses the cores of this machine, `ray` those of a cluster; neither knows of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import InputError

if TYPE_CHECKING:
    from ..verifier import Verdict

Pair = tuple[str, str] | None  # None: no two usable texts
NAMES = ("local", "ray")


class Answering(Protocol):
    description: str  # what computes, in words

    def answers(self, pairs: Iterator[Pair]) -> Iterator[Verdict]:
        """A verdict for every pair, in order, as they come."""


class Engine(Protocol):
    def answering(
        self, ensemble: Path, *, pairs: int, device: str, threads: int | None, address: str | None
    ) -> AbstractContextManager[Answering]:
        """`pairs` is how many there will be; `address` that of the cluster."""

    def run_tasks(
        self, function: Callable[[Any], Any], tasks: list[Any], *, jobs: int | None, tick: Callable[[], None]
    ) -> Iterator[Any]:
        """Results as tasks finish, `jobs` at a time; `tick` is called meanwhile."""


def engine(name: str) -> Engine:
    if name not in NAMES:
        raise InputError(f"--engine takes {' or '.join(NAMES)}, not {name!r}")
    module: Any = import_module(f".{name}", __name__)
    return module
