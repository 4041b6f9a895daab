"""Reading and writing files: faults of the machine become one clear line, and nothing is left half-written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import EnvironmentFault, InputError


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """What the operating system refuses in this block is a fault of the environment."""
    try:
        yield
    except OSError as error:
        raise EnvironmentFault(f"{error.filename or path}: {error.strerror or error}") from None


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """The same for writing: full disks, read-only folders, quotas."""
    try:
        yield
    except OSError as error:
        raise EnvironmentFault(f"cannot write {path}: {error.strerror or error}") from None


def output_folder(path: str | os.PathLike[str]) -> Path:
    """The folder that a command writes into, which may not be there yet."""
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; the output goes into a folder")
    return folder


def part_of(path: Path) -> Path:
    """Where a file is while it is being written; never ends in .jsonl, of which TIRA takes exactly one."""
    return path.with_name(path.name + ".part")


def replace_folder(building: Path, folder: Path) -> None:
    """Put a folder that is ready in the place of an old one, which is gone only then."""
    old = folder.with_name(f".{folder.name}.old")
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)  # of a run that was killed just before it removed this
        folder.rename(old)
    building.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def write_whole(path: Path, data: bytes) -> None:
    """All of the file or nothing: other processes, and later runs, never see a part of it."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            part_of(path).write_bytes(data)
            part_of(path).replace(path)
        except OSError:
            part_of(path).unlink(missing_ok=True)
            raise
