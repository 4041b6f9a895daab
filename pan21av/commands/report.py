"""`pan21av report`: the paper's tables and figures, made again from what a training stored with its ensemble."""

from __future__ import annotations

import os
from pathlib import Path

from ..files import output_folder, write_whole
from ..network.checkpoint import find_ensemble, read_manifest
from ..training.tables import Stored, Table, paper_tables, report_files


def report(
    models: str | os.PathLike[str] | None = None, *, output: str | Path | None = None
) -> dict[str, Table]:  # fmt: skip
    """Write REPORT.md, figure3.png and figure4.png into `output`, by default the ensemble's own folder.

    Returns the tables unrounded: "1", "2 and 3", "4 and 5".
    """
    folder = find_ensemble(models)
    stored = Stored.read(folder, read_manifest(folder))
    files = report_files(stored)
    place = output_folder(output) if output is not None else folder
    for name, data in files.items():
        write_whole(place / name, data)
    return paper_tables(stored)
