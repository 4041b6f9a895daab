"""Answers out: written as they come, resumed after a broken run, moved into place when all are there."""

from __future__ import annotations

import errno
import fcntl
import io
import json
import logging
import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson

from ..errors import EnvironmentFault
from ..files import part_of, write_whole, writing
from ..vote import NON_RESPONSE

log = logging.getLogger("pan21av")

ANSWERS = "answers.jsonl"  # the only file here that may end in .jsonl: TIRA takes exactly one
IDENTITY = "resume.json"  # which run the .part files belong to
DETAILS = "details.npy"


def format_answer(trial: str, value: float) -> bytes:
    answer = {"id": trial, "value": value}
    try:
        return orjson.dumps(answer) + b"\n"
    except TypeError:  # a lone surrogate in the id
        return json.dumps(answer).encode() + b"\n"


class AnswerFile:
    """`with AnswerFile(folder) as out`: locked against other runs; `out.start(...)`, `out.write(...)`, `out.finish()`.

    Left without `finish`, by whatever way, the .part files stay for the next run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.final, self.path = folder, folder / ANSWERS, part_of(folder / ANSWERS)
        self.details_path = part_of(folder / DETAILS)
        self.count = self.non_responses = 0  # answers written, those of an earlier run included

    def __enter__(self) -> AnswerFile:
        with writing(self.path):
            self.made = not self.folder.exists()
            self.folder.mkdir(parents=True, exist_ok=True)
            self.stream = self._locked()
        self.details: BinaryIO | None = None
        return self

    def _locked(self) -> BinaryIO:
        while True:
            stream = self.path.open("a+b")
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                    stream.close()
                    raise EnvironmentFault(f"another run is writing into {self.folder}") from None
                log.warning("%s cannot be locked (%s): see that no other run writes there", self.path, error.strerror)
                return stream
            # Another run may have moved the file into place between our opening and locking it.
            if self.path.exists() and os.path.samestat(os.fstat(stream.fileno()), self.path.stat()):
                return stream
            stream.close()

    def start(
        self, identity: dict[str, Any], ids: Iterable[str], step: int, details: tuple[int, int, int] | None = None
    ) -> int:
        """Keep what an earlier run of the same `identity` wrote, in whole multiples of `step` answers.

        Returns the number of answers kept. `ids` are those of all trials.
        With `details`, float32 rows of every answer are written as well, as a NumPy array of that shape.
        """
        kept, size, silent = 0, 0, 0
        with writing(self.path):
            if self.stream.seek(0, os.SEEK_END):
                if self._read_identity() == identity:
                    most = self._detailed(details) if details else None
                    kept, size, silent = self._valid(islice(ids, most), step)
                    log.info("going on after %d answers of an earlier run", kept)
                else:
                    log.info("%s is of another input or ensemble: starting anew", self.path)
            self.stream.truncate(size)
            self.stream.seek(size)
        write_whole(self.folder / IDENTITY, orjson.dumps(identity, option=orjson.OPT_INDENT_2))
        if details:
            self._open_details(kept, details)
        self.count, self.non_responses = kept, silent
        return kept

    def _detailed(self, shape: tuple[int, int, int]) -> int:
        """Answers whose details an earlier run has written."""
        path = self.details_path
        written = path.stat().st_size - len(_npy_header(shape)) if path.exists() else 0
        return max(0, written // (shape[1] * shape[2] * 4))

    def _read_identity(self) -> Any:
        try:
            return orjson.loads((self.folder / IDENTITY).read_bytes())
        except (OSError, orjson.JSONDecodeError):
            return None

    def _valid(self, ids: Iterable[str], step: int) -> tuple[int, int, int]:
        """(answers, bytes, non-responses) of the longest valid beginning, cut to a multiple of `step`."""
        self.stream.seek(0)
        best = (0, 0, 0)
        count = size = silent = 0
        for trial, line in zip(ids, self.stream, strict=False):
            try:
                answer = json.loads(line)
                value = answer["value"]
                valid = line.endswith(b"\n") and answer["id"] == trial and isinstance(value, float) and 0 <= value <= 1
            except (ValueError, TypeError, KeyError):
                break
            if not valid:
                break
            count, size, silent = count + 1, size + len(line), silent + (value == NON_RESPONSE)
            if count % step == 0:
                best = (count, size, silent)
        return best

    def _open_details(self, kept: int, shape: tuple[int, int, int]) -> None:
        path = self.details_path
        with writing(path):
            header = _npy_header(shape)
            self.details = path.open("r+b" if kept else "w+b")
            self.details.write(header)
            self.details.truncate(len(header) + kept * shape[1] * shape[2] * 4)
            self.details.seek(0, os.SEEK_END)

    def write(self, trial: str, value: float, details: np.ndarray | None = None) -> None:
        with writing(self.path):
            self.stream.write(format_answer(trial, value))
        if self.details is not None and details is not None:
            with writing(self.details_path):
                self.details.write(np.ascontiguousarray(details, dtype="<f4").tobytes())
        self.count += 1
        self.non_responses += value == NON_RESPONSE

    def flush(self) -> None:
        """After this even a killed run keeps what was written."""
        with writing(self.path):
            if self.details is not None:
                self.details.flush()
            self.stream.flush()

    def finish(self) -> None:
        """All answers are there: sync them and move them into place."""
        with writing(self.final):
            if self.details is not None:
                _sync(self.details)
                self.details_path.replace(self.folder / DETAILS)
            _sync(self.stream)
            self.path.replace(self.final)
            (self.folder / IDENTITY).unlink(missing_ok=True)
            folder = os.open(self.folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with writing(self.path):
            try:
                if self.details is not None:
                    self.details.close()
            finally:
                self.stream.close()
            # Nothing was written: leave no empty file behind, nor a folder that was not there before.
            if kind is not None and self.path.exists() and not self.path.stat().st_size:
                self.path.unlink()
                if self.made and not any(self.folder.iterdir()):
                    self.folder.rmdir()


def _sync(stream: BinaryIO) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def _npy_header(shape: tuple[int, ...]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return buffer.getvalue()
