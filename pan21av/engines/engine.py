"""An engine has two methods: `answering` gives something that maps trials to verdicts, in order, for prediction;
`run_tasks` maps tasks to results, as they finish, for training. `local` uses the cores of this machine, `on_ray`
those of a cluster; neither knows of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from ..data.trials import Trial
from ..errors import InputError
from ..populations import PopulationTexts
from ..verdict import Verdict


class Answering(Protocol):
    description: str  # what computes, in words

    def verify(self, trials: Iterator[Trial]) -> Iterator[tuple[Trial, Verdict]]:
        """Every trial with its verdict, in order, as they come."""


class Engine(Protocol):
    def answering(
        self, ensemble: Path, *, pairs: int, device: str, threads: int | None, population: PopulationTexts | None = None
    ) -> AbstractContextManager[Answering]:
        """`pairs` is how many there will be; `population` what they are judged with."""

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
        from .on_ray import Ray

        return Ray(address, resources)
    raise InputError(f"--engine takes local or ray, not {name!r}")
