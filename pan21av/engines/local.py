"""The cores of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TypeVar

from ..data.trials import Trial
from ..errors import EnvironmentFault
from ..populations import PopulationTexts
from ..runtime.parallel import worker_pool
from ..verdict import Verdict
from ..verifier import Verifier

Task = TypeVar("Task")
Result = TypeVar("Result")

FEW_PAIRS = 32
CORES_PER_TOKENISER = 8  # encoding costs that much more than tokenising


class Local:
    @contextmanager
    def answering(
        self, ensemble: Path, *, pairs: int, device: str, threads: int | None, population: PopulationTexts | None = None
    ) -> Iterator[LocalAnswering]:
        verifier = Verifier.load(ensemble, device=device, threads=threads)
        if population is not None:
            verifier = verifier.with_population(population)
        # Worker processes tokenise ahead; not worth starting for a few pairs.
        few = pairs <= FEW_PAIRS
        with nullcontext() if few else worker_pool(-(-verifier.threads // CORES_PER_TOKENISER)) as tokenisers:
            yield LocalAnswering(verifier, tokenisers)

    def run_tasks(
        self, function: Callable[[Task], Result], tasks: list[Task], *, jobs: int, tick: Callable[[], None]
    ) -> Iterator[Result]:
        with worker_pool(jobs) as pool:
            pending: set[Future[Result]] = {pool.submit(function, task) for task in tasks}
            try:
                while pending:
                    done, pending = wait(pending, timeout=0.5, return_when=FIRST_COMPLETED)
                    tick()
                    for future in done:
                        yield future.result()
            except BrokenProcessPool:
                raise EnvironmentFault(
                    "a training process was killed, perhaps for want of memory; run the same command again to go on, "
                    "with fewer --jobs if need be"
                ) from None
            except BaseException:
                # Do not wait for an epoch to end: the work folder resumes.
                for process in list((pool._processes or {}).values()):
                    process.terminate()
                raise


class LocalAnswering:
    def __init__(self, verifier: Verifier, tokenisers: ProcessPoolExecutor | None) -> None:
        self.verifier, self.tokenisers = verifier, tokenisers
        self.description = verifier.description

    def verify(self, trials: Iterator[Trial]) -> Iterator[tuple[Trial, Verdict]]:
        return self.verifier.answer(trials, pool=self.tokenisers)
