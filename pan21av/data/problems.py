"""PAN's problems of 2013 to 2015: a folder for each, with texts known to be by one author and an unknown one."""

from __future__ import annotations

import json
import re
from pathlib import Path

from ..errors import InputError
from ..files import reading
from .gather import listed
from .pan import bare_name
from .readers import read_text_file

UNKNOWN, KNOWN = re.compile(r"unknown.*\.\w+", re.IGNORECASE), re.compile(r"known.*\.\w+", re.IGNORECASE)


def find_problems(place: Path) -> list[Path]:
    """The folders of problems in a folder, in the order of their names; [] if it is none of the kind, or holds JSON
    lines, which then are what is meant. InputError names folders beside them that are no problems.
    """
    with reading(place):
        if not place.is_dir():
            return []
    entries = listed(place)
    folders = [entry for entry in entries if entry.is_dir()]
    if any(bare_name(entry).endswith(".jsonl") for entry in entries):
        return []
    wrong = [folder.name for folder in folders if not all(_texts(folder, kind) for kind in (KNOWN, UNKNOWN))]
    if len(wrong) == len(folders):
        return []
    if wrong:
        raise InputError(
            f"{place} holds problems, but not all of its folders have known*.txt and unknown.txt: "
            + ", ".join(wrong[:5])
        )
    return folders


def problem_line(folder: Path) -> bytes:
    """A problem as a line of trials: its id is the folder's name."""
    unknown = _texts(folder, UNKNOWN)
    if len(unknown) != 1:
        raise InputError(f"{folder} should hold one unknown text, but has {', '.join(p.name for p in unknown)}")
    known = [read_text_file(path) for path in _texts(folder, KNOWN)]
    # Not orjson: a file may hold lone surrogates.
    return json.dumps({"id": folder.name, "questioned": read_text_file(unknown[0]), "known": known}).encode() + b"\n"


def _texts(folder: Path, kind: re.Pattern[str]) -> list[Path]:
    return [path for path in listed(folder) if kind.fullmatch(path.name)]
