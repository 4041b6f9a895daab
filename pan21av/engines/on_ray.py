"""A Ray cluster: shards of pairs, or members to train, become Ray tasks.

Ray itself places the tasks, uses nodes that join, and tries those of a lost node again elsewhere.
Tasks rather than actors: an actor of a lost node would wait for a core of its own, while the
shards of a lost task go to whoever is free. A worker process keeps the ensemble it has loaded.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from .. import __version__
from ..data.trials import Trial
from ..errors import EnvironmentFault, InputError, PanError
from ..network.checkpoint import manifest_hash
from ..populations import PopulationTexts
from ..verdict import Verdict
from ..verifier import Verifier

try:
    import ray
except ImportError:
    raise EnvironmentFault("--engine ray needs Ray: pip install 'pan21av[ray]'") from None

Task = TypeVar("Task")
Result = TypeVar("Result")

PAIRS_PER_SHARD = 128  # half a minute of long texts on one core
SHARDS_PER_CORE = 2  # under way: one computing, one waiting
POPULATION = "population.npz"  # travels among the files of the ensemble


@contextmanager
def _cluster(address: str | None) -> Iterator[None]:
    """Connected to a cluster, or to one started on this machine; Ray's errors become ours."""
    where = address or os.environ.get("RAY_ADDRESS")
    try:
        if where and re.fullmatch(r"[^/:]+:\d+", where):  # Ray would end the process if nobody answers
            host, port = where.split(":")
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, configure_logging=False)
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise EnvironmentFault(f"no Ray cluster at {where or 'this machine'}: {reason}") from None
    try:
        yield
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        raise cause if isinstance(cause, (PanError, MemoryError)) else RuntimeError(str(cause)) from None
    except ray.exceptions.RayError as error:
        raise EnvironmentFault(f"Ray: {str(error).strip().splitlines()[0]}") from None
    finally:
        ray.shutdown()


def parse_resources(text: str | None) -> dict[str, float]:
    """ "CPU=2,GPU=0.5" -> {"num_cpus": 2.0, "num_gpus": 0.5}"""
    names = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
    try:
        given = dict(part.split("=") for part in text.split(",")) if text else {}
        return {names[name.strip()]: float(value) for name, value in given.items()}
    except (KeyError, ValueError):
        raise InputError(
            f"--resources takes CPU=, GPU= and memory= with numbers, as in CPU=2,GPU=0.5, not {text!r}"
        ) from None


def _options(device: str, cpus: float, resources: dict[str, float]) -> dict[str, Any]:
    """What one task asks for: its cores, and a GPU where the cluster has some; or what the user says."""
    gpus = 1 if device != "cpu" and ray.cluster_resources().get("GPU") else 0
    return {"num_cpus": cpus, "num_gpus": gpus, **resources, "max_retries": -1}


class Ray:
    def __init__(self, address: str | None = None, resources: str | None = None) -> None:
        self.address, self.resources = address, parse_resources(resources)

    @contextmanager
    def answering(
        self, ensemble: Path, *, pairs: int, device: str, threads: int | None, population: PopulationTexts | None = None
    ) -> Iterator[ClusterAnswering]:
        with _cluster(self.address):
            yield ClusterAnswering(ensemble, device, threads or 1, self.resources, population)

    def run_tasks(
        self, function: Callable[[Task], Result], tasks: list[Task], *, jobs: int, tick: Callable[[], None]
    ) -> Iterator[Result]:
        """Tasks find their files by path: the folders they name must be on a file system that all nodes share."""
        with _cluster(self.address):
            remote: Any = ray.remote(_run_one).options(**_options("auto", 1, self.resources))
            waiting = deque(tasks)
            under_way: list[Any] = []
            while waiting or under_way:
                while waiting and len(under_way) < jobs:
                    under_way.append(remote.remote(function, waiting.popleft(), __version__))
                done, under_way = ray.wait(under_way, timeout=0.5)
                tick()
                for reference in done:
                    yield ray.get(reference)


class ClusterAnswering:
    def __init__(
        self,
        ensemble: Path,
        device: str,
        threads: int,
        asked: dict[str, float],
        population: PopulationTexts | None = None,
    ) -> None:
        resources = ray.cluster_resources()
        nodes = sum(node["Alive"] for node in ray.nodes())
        self.options = _options(device, threads, asked)
        kind, each = ("GPU", "num_gpus") if self.options["num_gpus"] else ("CPU", "num_cpus")
        self.workers = max(1, int(resources.get(kind, 0) // max(self.options[each], 0.01)))
        self.device, self.threads = device, threads
        # The ensemble travels with the tasks, so that nodes need no common file system.
        files = {p.name: p.read_bytes() for p in ensemble.iterdir() if p.suffix in (".json", ".safetensors")}
        self.key = manifest_hash(ensemble)
        if population is not None:
            files[POPULATION] = population.to_bytes()
            self.key += population.sha256
        self.files = ray.put(files)
        share = f"{self.options[each]:g} {kind} each"
        self.description = f"a Ray cluster of {nodes} node{'s' * (nodes > 1)}, {self.workers} workers, {share}"

    def verify(self, trials: Iterator[Trial]) -> Iterator[tuple[Trial, Verdict]]:
        answer: Any = ray.remote(max_calls=0)(_answer_shard).options(**self.options)
        under_way: deque[tuple[list[Trial], Any]] = deque()

        def first() -> Iterator[tuple[Trial, Verdict]]:
            shard, reference = under_way.popleft()
            return zip(shard, ray.get(reference), strict=True)

        while shard := list(islice(trials, PAIRS_PER_SHARD)):
            arguments = (self.files, self.key, self.device, self.threads, __version__)
            under_way.append((shard, answer.remote(shard, *arguments)))
            if len(under_way) >= SHARDS_PER_CORE * self.workers:
                yield from first()
        while under_way:
            yield from first()


def _answer_shard(
    shard: list[Trial], files: dict[str, bytes], key: str, device: str, threads: int, version: str
) -> list[Verdict]:
    """What runs on a node."""
    _same_version(version)
    verifier = _verifier(_Files(files, key), device, threads)
    return [verdict for _, verdict in verifier.answer(shard)]


def _same_version(version: str) -> None:
    if version != __version__:
        raise EnvironmentFault(f"{os.uname().nodename} has pan21av {__version__}, the command was version {version}")


class _Files:
    """The files of an ensemble, told apart by their key."""

    def __init__(self, content: dict[str, bytes], key: str) -> None:
        self.content, self.key = content, key

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Files) and self.key == other.key


@lru_cache(maxsize=1)
def _verifier(files: _Files, device: str, threads: int) -> Verifier:
    with tempfile.TemporaryDirectory(prefix="pan21av-") as folder:
        for name, data in files.content.items():
            (Path(folder) / name).write_bytes(data)
        verifier = Verifier.load(folder, device=device, threads=threads)
    kept = files.content.get(POPULATION)
    return verifier if kept is None else verifier.with_population(PopulationTexts.from_bytes(kept))


def _run_one(function: Callable[[Task], Result], task: Task, version: str) -> Result:
    _same_version(version)
    return function(task)
