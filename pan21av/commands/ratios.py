"""What `predict --details` adds for people who report evidence: a likelihood ratio for every answer."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from ..data.answers import ANSWERS
from ..data.jsonlines import read_objects
from ..files import write_whole
from ..network.checkpoint import read_manifest
from ..verdict import Verdict, validated_bounds

RATIOS = "ratios.csv"


def write_ratios(folder: Path, ensemble: Path) -> None:
    """id, probability, log10_lr, words of every answer of a folder, made from the answers alone."""
    bounds = validated_bounds(read_manifest(ensemble))
    table = io.StringIO(newline="")
    writer = csv.writer(table)
    writer.writerow(["id", "probability", "log10_lr", "words"])
    for _, answer in read_objects(folder / ANSWERS):
        verdict = Verdict(answer["value"], 0, 0, 0, bounds=bounds)
        ratio = "" if verdict.log10_lr is None else f"{verdict.log10_lr:.4f}"
        writer.writerow([answer["id"], answer["value"], ratio, verdict.words])
    write_whole(folder / RATIOS, table.getvalue().encode("utf-8", "surrogatepass"))
