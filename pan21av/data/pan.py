"""PAN's files: which one of a folder is meant, what the truth says, and the names of pair kinds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files import reading
from .jsonlines import read_objects

# Same or different author, same or different topic ("fandom").
PAIR_KINDS = ("SA_SF", "SA_DF", "DA_SF", "DA_DF")
# What the paper's tables report: same-author pairs of one kind against different-author pairs of one, hardest first.
COMBINATIONS = ("SA_DF + DA_SF", "SA_SF + DA_SF", "SA_DF + DA_DF", "SA_SF + DA_DF")


def pair_kinds(same_author: np.ndarray, same_topic: np.ndarray) -> np.ndarray:
    """(n) bool each -> (n) names of PAIR_KINDS"""
    return np.array(PAIR_KINDS)[2 * ~np.asarray(same_author, dtype=bool) + ~np.asarray(same_topic, dtype=bool)]


def in_combination(kinds: np.ndarray, combination: str) -> np.ndarray:
    """Which pairs (n) belong to one of COMBINATIONS."""
    return np.isin(kinds, combination.split(" + "))


def bare_name(path: Path) -> str:
    """The name of a file without what compression added to it."""
    return path.name.removesuffix(".gz").removesuffix(".xz")


def find_file(place: str | Path, name: str) -> Path:
    """A file itself, or the one of a folder that is called `name`, or ends in _`name` or -`name`, maybe compressed."""
    place = Path(place)
    with reading(place):
        if not place.exists():
            raise InputError(f"{place} does not exist")
        if not place.is_dir():
            return place
        files = sorted(place.iterdir())
    found = [p for p in files if bare_name(p) == name] or [p for p in files if is_called(p, name)]
    if len(found) != 1:
        listed = ", ".join(p.name for p in found) or f"no {name}"
        raise InputError(f"{place} should hold one {name}, but has {listed}")
    return found[0]


def is_called(path: Path, name: str) -> bool:
    return bare_name(path) == name or bare_name(path).endswith((f"_{name}", f"-{name}"))


def find_pairs(place: str | Path) -> Path:
    """The trials that a file or folder means; in a folder without a pairs.jsonl, its only other .jsonl."""
    place = Path(place)
    with reading(place):
        files = sorted(place.iterdir()) if place.is_dir() else []
    lines = [p for p in files if bare_name(p).endswith(".jsonl") and "truth" not in p.name]
    if len(lines) < 2:
        return lines[0] if lines else find_file(place, "pairs.jsonl")
    if not any(is_called(p, "pairs.jsonl") for p in lines):
        raise InputError(f"{place} should hold one pairs.jsonl, but has {', '.join(p.name for p in lines)}")
    return find_file(place, "pairs.jsonl")


def truth_of(pairs: Path) -> Path:
    """Where PAN puts the truth of a file of pairs: x.jsonl has x-truth.jsonl."""
    name, dot, rest = pairs.name.partition(".jsonl")
    return pairs.with_name(f"{name}-truth{dot}{rest}")


@dataclass(frozen=True)
class Truth:
    """What is true of one trial."""

    same: bool
    authors: tuple[str, str] | None  # where the file names them


def read_truth(path: Path) -> Iterator[tuple[str, Truth]]:
    """(id, truth) of every line; InputError names the line that is none."""
    for number, value in read_objects(path):
        trial, same = value.get("id"), value.get("same")
        if not isinstance(trial, str) or not isinstance(same, bool):
            raise InputError(f"{path}:{number}: expected a string 'id' and a boolean 'same'")
        yield trial, Truth(same, _two_strings(value.get("authors")))


def topics_of(trial: dict[str, Any]) -> tuple[str, str] | None:
    """The topics of a trial's texts: PAN20 and 21 say fandoms, PAN22 and 23 discourse types."""
    return _two_strings(trial.get("fandoms", trial.get("discourse_type")))


def _two_strings(value: Any) -> tuple[str, str] | None:
    if isinstance(value, list) and len(value) == 2 and all(isinstance(entry, str) for entry in value):
        return value[0], value[1]
    return None
