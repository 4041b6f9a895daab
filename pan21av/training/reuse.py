"""Members of an earlier ensemble, or their stage one, instead of training them again."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from ..network.checkpoint import FORMAT, MANIFEST, STAGES
from .member import MemberTask, finish, keep_stage_one
from .settings import Settings
from .stage1 import CHECKPOINT
from .tables import HISTORY_FILE, SCORES_FILE


def reuse(
    tasks: list[MemberTask], ensemble: Path, identity: dict[str, Any], vocabulary: str
) -> tuple[int, int]:  # fmt: skip
    """Take over finished members from an ensemble of the same settings, seed and corpus, or their stage one
    if only settings of stage two differ; how many of either. `vocabulary`: SHA-256 of the one they must know."""
    try:
        info = orjson.loads((ensemble / MANIFEST).read_bytes())
        training = info["training"]
        if any(training[key] != identity[key] for key in ("seed", "corpus")):
            return 0, 0
        theirs = Settings.from_dict(training["settings"])
        whole = theirs == tasks[0].settings and info["format"] == FORMAT
        if not whole and not _same_stage_one(theirs, tasks[0].settings):
            return 0, 0
        # What a text is repaired to may have changed since, and with it the documents.
        if info["vocabulary"]["sha256"] != vocabulary:
            return 0, 0
        scores = np.load(ensemble / SCORES_FILE)
        kept = ensemble / HISTORY_FILE
        histories = orjson.loads(kept.read_bytes()) if kept.exists() else []
        members = stages = 0
        for row, (task, entry) in enumerate(zip(tasks, info["members"], strict=False)):
            if task.finished or entry["seed"] != task.seed or (task.folder / CHECKPOINT).exists():
                continue
            files = {stage: (ensemble / entry[stage]["file"]).read_bytes() for stage in STAGES}
            if any(hashlib.sha256(files[stage]).hexdigest() != entry[stage]["sha256"] for stage in STAGES):
                continue
            history = histories[row] if row < len(histories) else []
            keep_stage_one(task, files["stage1"], entry.get("seconds_stage_one", entry["seconds"]), history)
            if whole:
                result = {key: value for key, value in entry.items() if key not in STAGES}
                finish(task, files["stage2"], {name: scores[name][row] for name in scores.files}, result)
            members, stages = members + whole, stages + (not whole)
        return members, stages
    except (OSError, KeyError, ValueError, TypeError, AttributeError):
        return 0, 0  # no ensemble there, or none of ours


def _same_stage_one(theirs: Settings, ours: Settings) -> bool:
    """Where scores are stage one's own (heads.epochs 0), its file holds them too."""
    return theirs.stage_one == ours.stage_one and bool(theirs.heads.epochs) == bool(ours.heads.epochs)
