"""Where work is done: the one seam between the commands and the machines they run on.

An engine has two methods: `answering` gives something that maps pairs to verdicts, in order, for
prediction; `run_tasks` maps tasks to results, as they finish, for training. `local` uses the cores
of this machine, `ray` those of a cluster; neither knows of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import InputError

if TYPE_CHECKING:
    from ..verifier import Verdict

Pair = tuple[str, str] | None  # None: no two usable texts


class Answering(Protocol):
    description: str  # what computes, in words

    def answers(self, pairs: Iterator[Pair]) -> Iterator[Verdict]:
        """A verdict for every pair, in order, as they come."""


class Engine(Protocol):
    def answering(
        self, ensemble: Path, *, pairs: int, device: str, threads: int | None
    ) -> AbstractContextManager[Answering]:
        """`pairs` is how many there will be."""

    def run_tasks(
        self, function: Callable[[Any], Any], tasks: list[Any], *, jobs: int, tick: Callable[[], None]
    ) -> Iterator[Any]:
        """Results as tasks finish, at most `jobs` at a time; `tick` is called meanwhile."""


def find_engine(name: str, address: str | None = None, resources: str | None = None) -> Engine:
    """`address` and `resources` (what one task asks for) are those of a cluster. Ray is loaded only if asked for."""
    if name == "local":
        from .local import Local

        return Local()
    if name == "ray":
        from .ray import Ray

        return Ray(address, resources)
    raise InputError(f"--engine takes local or ray, not {name!r}")
