"""Trials in: PAN's JSON lines or a table, checked as a whole before any of them is answered."""

from __future__ import annotations

import hashlib
import reprlib
import stat
import sys
import tempfile
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..errors import EnvironmentFault, InputError
from ..files import reading
from .jsonlines import BadLine, numbered_lines, opened, parse_object
from .pan import bare_name, find_pairs
from .problems import find_problems, problem_line
from .tables import COLUMNS, SUFFIXES, table_lines

EXPECTED = 'expected {"id": "...", "pair": ["first text", "second text"]}'
STANDARD_INPUT = "-"
SHOWN = 5  # lines named for each kind of fault


@dataclass(frozen=True)
class Trial:
    id: str
    # The first is questioned, the others are known to be by one author; of a pair it does not matter which is which.
    texts: tuple[str, ...] | None  # None: no two usable texts, to be answered with 0.5


def parse_trial(line: bytes | BadLine | None) -> Trial:
    """The trial of one line; BadLine if it has no JSON object with a string id."""
    if isinstance(line, BadLine):
        raise line
    value = parse_object(line)
    trial = value.get("id")
    if not isinstance(trial, str):
        raise BadLine("without a string id")
    if isinstance(value.get("known"), list):
        return Trial(trial, usable_texts([value.get("questioned"), *value["known"]]))
    pair = value.get("pair")
    return Trial(trial, usable_texts(pair) if isinstance(pair, list) and len(pair) == 2 else None)


def usable_texts(texts: list[Any]) -> tuple[str, ...] | None:
    if len(texts) < 2 or not all(isinstance(text, str) and text.strip() for text in texts):
        return None
    return tuple(texts)


def trial_of(number: int, pair: tuple[str, str | Sequence[str]] | None) -> Trial:
    """The trial of a pair that a Python program asks about; InputError if it is none."""
    if pair is None:
        return Trial(str(number), None)
    texts: list[str] = []
    if isinstance(pair, (tuple, list)) and len(pair) == 2:
        questioned, known = pair
        texts = [questioned, *(known if isinstance(known, (tuple, list)) else [known])]
    if len(texts) < 2 or not all(isinstance(text, str) for text in texts):
        raise InputError(f"pair {number} is not two strings, but {reprlib.repr(pair)}")
    return Trial(str(number), usable_texts(texts))


@dataclass(frozen=True)
class Inspection:
    """What one pass over the whole input found."""

    trials: int  # to be answered
    unusable: int  # of those, without two usable texts
    skip: frozenset[int]  # numbers of lines that are no trials
    faults: dict[str, list[int]]  # what is wrong with those lines -> their numbers
    sha256: str  # of the lines: the same trials have the same

    @property
    def report(self) -> str:
        """All faults: how many of each kind, where the first ones are, what was expected."""
        lines = []
        for fault, numbers in self.faults.items():
            more = ", ..." if len(numbers) > SHOWN else ""
            noun = "line" if len(numbers) == 1 else "lines"
            lines.append(f"{len(numbers)} {noun} {fault} ({noun} {', '.join(map(str, numbers[:SHOWN]))}{more})")
        return "; ".join(lines)


class TrialFile:
    """The trials of a file, read twice: once to inspect it all, once to answer. Use it as a context.

    A table, which `columns` (id and two texts) or the name of the file tell, is read as the JSON lines that it stands
    for, so that all else is the same. The file stays open, so that one that is removed meanwhile can still be read.
    What can be read only once (standard input, a pipe) is first copied to an unnamed file in `spool`; so are the
    problems of a folder.
    """

    def __init__(self, source: str, spool: Path, columns: Sequence[str] | None = None) -> None:
        self.spool, self.problems = spool, [] if source == STANDARD_INPUT else find_problems(Path(source))
        self.path = None if source == STANDARD_INPUT else Path(source) if self.problems else find_pairs(source)
        self.name = str(self.path or "standard input")
        if columns is None and self.path is not None and bare_name(self.path).lower().endswith(SUFFIXES):
            columns = COLUMNS
        self.columns = columns

    @property
    def expected(self) -> str:
        """What a line should be like."""
        return EXPECTED if self.columns is None else f"expected rows of {', '.join(self.columns)} in UTF-8"

    def _lines(self) -> Iterator[tuple[int, bytes | BadLine | None]]:
        self.stream.seek(0)
        if self.columns is None:
            return numbered_lines(self.stream)
        return table_lines(self.stream, self.columns, self.name)

    def __enter__(self) -> TrialFile:
        with ExitStack() as stack:
            if self.path is None:
                self.stream = stack.enter_context(self._copied(_pieces(sys.stdin.buffer)))
            elif self.problems:
                self.stream = stack.enter_context(self._copied(map(problem_line, self.problems)))
            else:
                with reading(self.path):
                    regular = stat.S_ISREG(self.path.stat().st_mode)
                if regular:
                    self.stream = stack.enter_context(opened(self.path))
                else:
                    with self.path.open("rb") as pipe:
                        self.stream = stack.enter_context(self._copied(_pieces(pipe)))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stack.__exit__(*exception)

    def _copied(self, pieces: Iterator[bytes]) -> BinaryIO:
        try:
            copy = tempfile.TemporaryFile(dir=self.spool)  # noqa: SIM115, the caller closes it
            copy.writelines(pieces)
            return copy
        except OSError as error:
            raise EnvironmentFault(f"cannot copy {self.name} to {self.spool}: {error.strerror}") from None

    def inspect(self) -> Inspection:
        """Read everything once; nothing but the lines' numbers and hashes of their ids is kept."""
        digest = hashlib.sha256()
        faults: dict[str, list[int]] = {}
        ids, places = array("Q"), array("Q")
        unusable = 0
        for number, line in self._lines():
            digest.update(line if isinstance(line, bytes) else b"")
            digest.update(b"\n")
            try:
                trial = parse_trial(line)
            except BadLine as error:
                faults.setdefault(str(error), []).append(number)
                continue
            ids.append(_hash(trial.id))
            places.append(number)
            unusable += trial.texts is None
        if repeated := self._repeated(np.array(ids), np.array(places)):
            faults["with an id that came before"] = repeated
        skip = frozenset(number for numbers in faults.values() for number in numbers)
        if repeated:  # some of them may have been unusable: count again, which hardly ever happens
            unusable = sum(trial.texts is None for trial in self.read(skip))
        return Inspection(len(ids) - len(repeated), unusable, skip, faults, digest.hexdigest())

    @staticmethod
    def _repeated(ids: np.ndarray, places: np.ndarray) -> list[int]:
        """Lines whose id came before. 64-bit hashes: among 10 million ids a false alarm has odds of 1 : 370,000."""
        order = np.argsort(ids, kind="stable")
        again = order[1:][ids[order][1:] == ids[order][:-1]]
        return sorted(int(number) for number in places[again])

    def read(self, skip: frozenset[int] = frozenset(), first: int = 0) -> Iterator[Trial]:
        """The trials in order, from number `first` on, without the lines in `skip`."""
        count = 0
        for number, line in self._lines():
            if number in skip:
                continue
            count += 1
            if count <= first:
                continue
            try:
                yield parse_trial(line)
            except BadLine:
                raise EnvironmentFault(f"{self.name} changed while it was read (line {number})") from None


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    while piece := stream.read(1 << 20):
        yield piece


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
