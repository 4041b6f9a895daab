"""What tests share: small networks, ensembles and settings; ../shared where it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pan21av.config import ModelConfig
from pan21av.data.tokeniser import DEFAULT
from pan21av.data.vocabulary import Vocabulary
from pan21av.network.checkpoint import member_files, save_ensemble
from pan21av.network.network import Network
from pan21av.training.settings import Settings, load_settings

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
HANGS = 600  # seconds after which a process that should have ended is taken to hang: no measure of speed
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the reference data in ../shared is not here")

TINY = ModelConfig(
    char_dim=3, char_width=3, char_filters=5, chars_per_token=8, word_dim=7, window_hidden=6, document_hidden=5,
    window_tokens=12, window_hop=9, max_windows=20, lev_dim=9, bfs_dim=4,
)  # fmt: skip
# With frequencies and a cohort.
TINY_FULL = replace(TINY, lda_dim=4, lda_words=6, lda_chars=3, cohort=30)
# Settings of a training that takes seconds.
SMALL_SETTINGS = [
    "model.word_dim=16", "model.window_hidden=12", "model.document_hidden=10", "model.lev_dim=12", "model.bfs_dim=6",
    "data.split=authors", "data.train_share=0.6", "data.words=300", "data.min_tokens=20",
    "contrastive.epochs=2", "contrastive.steps=3", "contrastive.authors=8", "contrastive.max_windows=4",
    "contrastive.min_windows=2", "pairs.epochs=2", "pairs.batch=16", "pairs.max_windows=6", "pairs.min_windows=2",
    "calibration.views=2", "calibration.min_windows=2", "heads.epochs=2", "heads.batch=16", "abstention.epochs=3",
]  # fmt: skip
WORDS = [
    "the", "of", "and", "to", "a", "in", "that", "it", "is", "was", "i", "for", "on", "you", "he", "be", "with", "as",
    "by", "at", "have", "are", "this", "not", "but", "had", "his", "they",
]  # fmt: skip


def small(*more: str, preset: str = "compact") -> Settings:
    """Settings of a training that takes seconds, with some changed."""
    return load_settings(preset, None, [*SMALL_SETTINGS, *more])


def set_options(*assignments: str) -> list[str]:
    """The same on a command line."""
    return [part for assignment in (*SMALL_SETTINGS, *assignments) for part in ("--set", assignment)]


def prose(seed: int, words: int = 80) -> str:
    """A text of its own for every seed."""
    return " ".join(np.random.default_rng(seed).choice(WORDS, words)) + "."


def tiny_vocabulary() -> Vocabulary:
    return Vocabulary(tuple(WORDS), tuple("abcdefghijklmnopqrstuvwxyz.,!?'-"))


def random_network(
    n_members: int, config: ModelConfig = TINY, seed: int = 0, vocabulary: Vocabulary | None = None
) -> Network:
    """Members with random weights, spread so that their verdicts differ."""
    torch.manual_seed(seed)
    vocabulary = vocabulary or tiny_vocabulary()
    network = Network(config, n_members, vocabulary.word_rows, vocabulary.char_rows)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        network.encoder.words[:, 0] = 0
        if network.cohort is not None:
            network.cohort.levs.uniform_(-1, 1)
    return network.requires_grad_(False).eval()


# Of texts (data/fitness.py): they turn nothing away, but an ensemble that has limits repairs what it reads.
LAX_LIMITS = {"min_tokens": 1, "min_words": 0, "min_common": 0, "max_unknown": 1, "max_foreign": 1}
FITTED = ("o2d2.", "dml.", "bfs.", "ual.", "cohort.")  # how the names of stage two's tensors begin


def write_random_ensemble(folder: Path, count: int = 3, config: ModelConfig = TINY, half: bool = False, **info) -> Path:
    state = random_network(count, config).state_dict()
    members = [{name: tensor[m] for name, tensor in state.items()} for m in range(count)]
    save_ensemble(
        folder, config=config, tokeniser=DEFAULT, vocabulary=tiny_vocabulary(),
        members=[member_files(member, FITTED, half=half) for member in members], info=info,
    )  # fmt: skip
    return folder


def weights(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.safetensors"))}
