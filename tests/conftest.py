from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent))

import generate

from pan21av.checkpoint import member_files, save_ensemble
from pan21av.cli import main
from pan21av.config import ModelConfig
from pan21av.model import Members
from pan21av.text import RECIPE
from pan21av.vocabulary import Vocabulary

SHARED = Path(__file__).resolve().parents[2] / "shared"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the reference data in ../shared is not here")

TINY = ModelConfig(
    char_dim=3, char_width=3, char_filters=5, letters=8, word_dim=7, window_hidden=6, document_hidden=5,
    window_tokens=12, window_hop=9, max_windows=20, lev_dim=9, bfs_dim=4,
)  # fmt: skip
# Settings of a training that takes seconds.
SMALL = [
    "word_dim=16", "window_hidden=12", "document_hidden=10", "lev_dim=12", "bfs_dim=6", "split=authors", "words=300",
    "min_tokens=20", "warmup_epochs=2", "warmup_steps=3", "warmup_authors=8", "warmup_windows=4",
    "warmup_min_windows=2", "epochs=2", "crop_windows=6", "crop_min_windows=2", "head_epochs=2",
    "crops=2", "o2d2_epochs=3", "batch_pairs=16",
]  # fmt: skip
WORDS = [
    "the",
    "of",
    "and",
    "to",
    "a",
    "in",
    "that",
    "it",
    "is",
    "was",
    "i",
    "for",
    "on",
    "you",
    "he",
    "be",
    "with",
    "as",
    "by",
    "at",
    "have",
    "are",
    "this",
    "not",
    "but",
    "had",
    "his",
    "they",
]


def tiny_vocabulary() -> Vocabulary:
    return Vocabulary(tuple(WORDS), tuple("abcdefghijklmnopqrstuvwxyz.,!?'-"))


def random_members(
    count: int, config: ModelConfig = TINY, seed: int = 0, vocabulary: Vocabulary | None = None
) -> Members:
    """Members with random weights, spread so that their verdicts differ."""
    torch.manual_seed(seed)
    vocabulary = vocabulary or tiny_vocabulary()
    members = Members(config, count, vocabulary.word_rows, vocabulary.char_rows)
    with torch.no_grad():
        for parameter in members.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        members.encoder.words[:, 0] = 0
    return members.requires_grad_(False).eval()


def write_random_ensemble(folder: Path, count: int = 3, config: ModelConfig = TINY, half: bool = False, **info) -> Path:
    members = random_members(count, config)
    states = [{name: tensor[m] for name, tensor in members.state_dict().items()} for m in range(count)]
    save_ensemble(
        folder, config=config, recipe=RECIPE, vocabulary=tiny_vocabulary(),
        members=[member_files(state, half=half) for state in states], info=info,
    )  # fmt: skip
    return folder


@pytest.fixture(scope="session")
def tiny_ensemble(tmp_path_factory) -> Path:
    """Three members with random weights, small enough to answer at once."""
    return write_random_ensemble(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def small_corpus(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "documents.jsonl"
    generate.write(path, generate.documents(60, each=4, topics=8, sentences=10))
    return path


def weights(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.safetensors"))}


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    for name in ("PAN21AV_MODELS", "inputDataset", "outputDir", "TIRA_INPUT_DATASET", "TIRA_OUTPUT_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def process(tmp_path):
    """Runs the real command in a process of its own, from an empty directory."""

    def run(*args, env=None, **options):
        return subprocess.run(
            [sys.executable, "-m", "pan21av", *map(str, args)],
            capture_output=True, cwd=tmp_path, env={**os.environ, **(env or {})}, timeout=300, **options,
        )  # fmt: skip

    return run


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Runs the command in this process: no seconds lost on starting Python and torch."""
    monkeypatch.chdir(tmp_path)

    def run(*args):
        result = CliRunner().invoke(main, [str(a) for a in args])
        return SimpleNamespace(returncode=result.exit_code, stdout=result.stdout_bytes, stderr=result.stderr_bytes)

    return run
