"""make pictures: what the README shows, made anew from the shipped ensemble.

reliability.png and coverage.png come from what its members said of their validation pairs,
page.png is a screenshot of `pan21av explain` on the first example (where there is a Chromium).
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from pan21av.commands.explain import explain
from pan21av.network.checkpoint import find_ensemble, read_manifest
from pan21av.plots import draw
from pan21av.vote import SCORES, PlattScaling, vote

HERE = Path(__file__).parent
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


def validation() -> None:
    ensemble = find_ensemble()
    same = np.array(json.loads((ensemble / "validation_pairs.json").read_text())["same"])
    stored = np.load(ensemble / "validation_scores.npz")
    scores = {name: stored[name].astype(np.float64) for name in SCORES}  # (M, P) each
    details = np.stack([scores[name].T for name in SCORES], 1)  # (P, 4, M), as `predict --details` writes them
    scaling = PlattScaling.from_dict(read_manifest(ensemble)["calibration"])
    with tempfile.TemporaryDirectory() as folder:
        draw(Path(folder), same, vote(scores["ual"], scores["o2d2"], scaling).answers, None, details)
        for name in ("reliability.png", "coverage.png"):
            shutil.copy(Path(folder) / name, HERE / name)


def page() -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not chromium:
        print("no Chromium here: page.png is left as it is")
        return
    first = json.loads((HERE / "pairs.jsonl").read_text("utf-8").splitlines()[0])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "page.html"
        explain(*first["pair"], path, names=("first.txt", "second.txt"))
        command = [chromium, *FLAGS, f"--user-data-dir={folder}/profile", "--window-size=1100,1400"]
        subprocess.run([*command, f"--screenshot={HERE / 'page.png'}", path.as_uri()], check=True, capture_output=True)


if __name__ == "__main__":
    validation()
    page()
