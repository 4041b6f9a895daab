"""Trials in, answers out: PAN's JSON lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from .errors import EnvironmentFault, InputError


@dataclass(frozen=True)
class Trial:
    id: str
    texts: tuple[str, str] | None  # None: no two usable texts, to be answered with 0.5


def find_pairs(source: str) -> Path | None:
    """The file that `-i` means: itself, or the pairs.jsonl of a directory; None for standard input."""
    if source == "-":
        return None
    path = Path(source)
    if path.is_dir():
        found = sorted(p for p in path.iterdir() if p.name == "pairs.jsonl" or p.name.endswith("_pairs.jsonl"))
        found = found or sorted(p for p in path.iterdir() if p.suffix == ".jsonl" and "truth" not in p.name)
        if len(found) != 1:
            listed = ", ".join(p.name for p in found) or "no .jsonl file"
            raise InputError(f"{path} should hold one pairs.jsonl, but has {listed}")
        return found[0]
    if not path.exists():
        raise InputError(f"{path} does not exist")
    return path


@contextmanager
def _opened(path: Path | None) -> Iterator[BinaryIO]:
    if path is None:
        yield sys.stdin.buffer
        return
    try:
        stream = path.open("rb")
    except OSError as error:
        raise EnvironmentFault(f"{path}: {error.strerror}") from None
    with stream:
        yield stream


def read_trials(path: Path | None) -> Iterator[Trial]:
    """The trials of a file (None: standard input) in order; InputError names the line."""
    name = path or "standard input"
    seen: set[str] = set()
    with _opened(path) as stream:
        for number, line in enumerate(stream, 1):
            line = line.removeprefix(b"\xef\xbb\xbf").strip()
            if not line:
                continue
            trial = parse_trial(line, f"{name}:{number}")
            if trial.id in seen:
                raise InputError(f"{name}:{number}: the id {trial.id!r} occurs twice")
            seen.add(trial.id)
            yield trial


def parse_trial(line: bytes, where: str) -> Trial:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        value = _loads_surrogates(line, where, error)
    if not isinstance(value, dict):
        raise InputError(f"{where}: expected a JSON object with id and pair")
    trial = value.get("id")
    if not isinstance(trial, str):
        raise InputError(f"{where}: 'id' must be a string")
    return Trial(trial, usable_texts(value.get("pair")))


def _loads_surrogates(line: bytes, where: str, error: orjson.JSONDecodeError) -> Any:
    """orjson refuses lone surrogates ("\\ud800"), which the standard library reads."""
    import json

    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise InputError(f"{where}: not JSON: {error}") from None


def usable_texts(pair: Any) -> tuple[str, str] | None:
    if not (isinstance(pair, list) and len(pair) == 2):
        return None
    first, second = pair
    if not (isinstance(first, str) and isinstance(second, str) and first.strip() and second.strip()):
        return None
    return first, second


def format_answer(trial: str, value: float) -> bytes:
    try:
        return orjson.dumps({"id": trial, "value": value}) + b"\n"
    except TypeError:  # a lone surrogate in the id
        import json

        return json.dumps({"id": trial, "value": value}).encode() + b"\n"
