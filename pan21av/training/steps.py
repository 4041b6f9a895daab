"""Checkpoints: a training may be killed after any epoch and between any two steps of one, and then goes on as if it
had not been."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from ..files import write_whole

SECONDS = 240  # between two checkpoints


class Due:
    """Whether a checkpoint is due."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self) -> bool:
        now = time.monotonic()
        if now - self._last < SECONDS:
            return False
        self._last = now
        return True


class Checkpoint:
    """What is learnt and counted, in a file that is read without running anything in it."""

    MODULES: ClassVar[tuple[str, ...]]  # have a state_dict
    VALUES: ClassVar[tuple[str, ...]]  # numbers, tensors, and lists and dictionaries of these

    def save(self, path: Path) -> None:
        content = {name: getattr(self, name).state_dict() for name in self.MODULES}
        write_tensors(path, content | {name: getattr(self, name) for name in self.VALUES})

    def load(self, path: Path, device: torch.device) -> None:
        content = torch.load(path, map_location=device, weights_only=True)
        for name in self.MODULES:
            getattr(self, name).load_state_dict(content[name])
        for name in self.VALUES:
            setattr(self, name, content.get(name))  # None: a version that wrote the file knew nothing of it


def write_tensors(path: Path, content: Any) -> None:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_whole(path, buffer.getvalue())


class Steps:
    """What the steps of an epoch have measured. Whenever a checkpoint is due, `save` is given what `resumed` takes to
    go on: these records and the state of the random numbers; all else that a step leaves to the next is learnt."""

    def __init__(
        self, save: Callable[[dict[str, Any]], None] | None = None, resumed: dict[str, Any] | None = None
    ) -> None:
        self.records: list[dict[str, float]] = list(resumed["records"]) if resumed else []
        self._save, self._resumed, self._due = save, resumed, Due()

    def begin(self, rng: np.random.Generator) -> int:
        """Once the epoch has drawn what it draws at its start; returns how many steps are done already."""
        self._rng = rng
        if self._resumed:
            rng.bit_generator.state = self._resumed["numpy"]
            torch.set_rng_state(self._resumed["torch"].cpu())
            if self._resumed["cuda"]:
                torch.cuda.set_rng_state_all([state.cpu() for state in self._resumed["cuda"]])
        return len(self.records)

    def add(self, record: dict[str, float]) -> None:
        """At the end of a step."""
        self.records.append(record)
        if self._save is not None and self._due():
            cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
            numbers = {"numpy": self._rng.bit_generator.state, "torch": torch.get_rng_state(), "cuda": cuda}
            self._save({"records": self.records, **numbers})
