"""Texts from files and folders as people have them: one by one, a person's, or a whole population."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..errors import InputError
from ..files import reading
from .jsonlines import read_objects
from .pan import bare_name
from .readers import read_text_file

EXPECTED = 'expected {"text": "..."} or PAN\'s {"pair": ["...", "..."]}'


def listed(folder: Path) -> list[Path]:
    """What is in a folder, hidden files left out, in the order of the names."""
    with reading(folder):
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def files_in(place: Path) -> list[Path]:
    """A file itself, or those of a folder and of its folders; InputError if there is none."""
    with reading(place):
        if not place.exists():
            raise InputError(f"{place} does not exist")
        if not place.is_dir():
            return [place]
    found = [file for entry in listed(place) for file in (files_in(entry) if entry.is_dir() else [entry])]
    if not found:
        raise InputError(f"{place} holds no files")
    return found


def read_texts(places: list[Path]) -> dict[str, str]:
    """The text of every file of files and folders, by its path."""
    return {str(file): read_text_file(file) for place in places for file in files_in(place)}


def read_people(folder: Path) -> dict[str, list[str]]:
    """A folder with one folder, or one file, a person: {name: texts}."""
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder; expected one that holds a folder, or a file, for each person")
    people: dict[str, list[str]] = {}
    for entry in listed(folder):
        name = entry.name if entry.is_dir() else entry.stem
        if name in people:
            raise InputError(f"{folder} holds {name!r} twice, as a folder and as a file or in two formats")
        people[name] = list(read_texts([entry]).values())
    if not people:
        raise InputError(f"{folder} is empty; expected a folder, or a file, for each person")
    return people


def texts_in(place: Path) -> Iterator[str]:
    """Every text of files, folders and JSON lines, whatever they hold."""
    for file in files_in(place):
        if not bare_name(file).endswith((".jsonl", ".ndjson")):
            yield read_text_file(file)
            continue
        for number, value in read_objects(file, EXPECTED):
            texts = [value["text"]] if "text" in value else value.get("pair")
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise InputError(f"{file}:{number}: {EXPECTED}")
            yield from texts
