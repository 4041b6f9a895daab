"""Pairs in a CSV or TSV file, with a header, as the JSON lines that they stand for."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import orjson

from ..errors import InputError
from .jsonlines import BOM, MAX_LINE_BYTES, BadLine

COLUMNS = ("id", "text1", "text2")
SUFFIXES = (".csv", ".tsv")
_DELIMITERS = "\t,;"  # spreadsheets write the last where a comma is the decimal sign
_NOT_UTF8 = re.compile("[\udc80-\udcff]")  # what `surrogateescape` makes of bytes


def parse_columns(names: str) -> tuple[str, str, str]:
    """ "id,text1,text2" -> the names of three columns."""
    columns = tuple(name.strip() for name in names.split(","))
    if len(set(columns)) != 3 or len(columns) != 3 or not all(columns):
        raise InputError(f"--columns takes the names of three columns, as in {','.join(COLUMNS)}, not {names!r}")
    return columns[0], columns[1], columns[2]


def table_lines(stream: BinaryIO, columns: Sequence[str], name: str) -> Iterator[tuple[int, bytes | BadLine]]:
    """(number of its first line, trial as a JSON line) of every row; BadLine for one that is none.

    What separates columns is told by the header: it is the sign that makes the names come out.
    """
    lines = _text_lines(stream)
    skipped, header = _header(lines)
    delimiter, found = _separated(header, columns, name)
    places = [found.index(column) for column in columns]
    csv.field_size_limit(MAX_LINE_BYTES)
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        number = skipped + rows.line_num + 1
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield number, BadLine(f"not a row of a table, {error}")
            continue
        if any(field.strip() for field in row):
            yield number, _json_line(row, places, len(found))


def _json_line(row: list[str], places: list[int], width: int) -> bytes | BadLine:
    if len(row) != width:
        return BadLine(f"with another number of columns than the header's {width}")
    trial, first, second = (row[place] for place in places)
    if any(map(_NOT_UTF8.search, (trial, first, second))):
        return BadLine("not UTF-8")
    if not trial.strip():
        return BadLine("without an id")
    return orjson.dumps({"id": trial, "pair": [first, second]})


def _text_lines(stream: BinaryIO) -> Iterator[str]:
    first = True
    while line := stream.readline(MAX_LINE_BYTES):
        yield (line.removeprefix(BOM) if first else line).decode("utf-8", "surrogateescape")
        first = False


def _header(lines: Iterator[str]) -> tuple[int, str]:
    """How many lines were read, and the first that is not blank."""
    return next(((number, line) for number, line in enumerate(lines, 1) if line.strip()), (0, ""))


def _separated(header: str, columns: Sequence[str], name: str) -> tuple[str, list[str]]:
    """What separates the columns, and their names."""
    found: list[str] = []
    for delimiter in _DELIMITERS:
        try:
            names = [field.strip() for field in next(csv.reader([header], delimiter=delimiter), [])]
        except csv.Error:
            continue
        if set(columns) <= set(names):
            return delimiter, names
        found = max(found, names, key=len)
    there = ", ".join(entry[:30] for entry in found[:10]) or "no header"
    raise InputError(f"{name} has no columns {', '.join(columns)}, but {there}; --columns names them: id, texts")
