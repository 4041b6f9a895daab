"""What tests share: small networks, ensembles and settings; ../shared where it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pan21av.config import ModelConfig
from pan21av.data.counting import library
from pan21av.data.ngrams import Pool
from pan21av.data.tokeniser import DEFAULT
from pan21av.data.vocabulary import Vocabulary
from pan21av.network.checkpoint import member_files, save_ensemble
from pan21av.network.network import Network
from pan21av.network.ngram_part import NgramPart
from pan21av.training.settings import Settings, load_settings

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
HANGS = 600  # seconds after which a process that should have ended is taken to hang: no measure of speed
needs_native = pytest.mark.skipif(library() is None, reason="the native library was not built")
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the reference data in ../shared is not here")

TINY = ModelConfig(
    char_dim=3, char_width=3, char_filters=5, chars_per_token=8, word_dim=7, window_hidden=6, document_hidden=5,
    window_tokens=12, window_hop=9, max_windows=20, encoder_dim=9, bfs_dim=4,
)  # fmt: skip
# With n-grams, layout, kinds of text and a cohort.
TINY_FULL = replace(
    TINY, encoder_dim=5, ngram_dim=4, ngram_features=60, layout_dim=3, layout_features=9, kinds=3, cohort=30
)
# The same without an encoder.
TINY_LIGHT = replace(TINY_FULL, encoder_dim=0)
# Settings of a training that takes seconds.
SMALL_SETTINGS = [
    "model.word_dim=16", "model.window_hidden=12", "model.document_hidden=10", "model.encoder_dim=12",
    "model.ngram_dim=0", "model.layout_dim=0", "model.bfs_dim=6",
    "data.split=authors", "data.train_share=0.6", "data.words=300",
    "data.min_tokens=20",
    "contrastive.epochs=2", "contrastive.steps=3", "contrastive.authors=8", "contrastive.max_windows=4",
    "contrastive.min_windows=2", "pairs.epochs=2", "pairs.batch=16", "pairs.max_windows=6", "pairs.min_windows=2",
    "ngrams.words=40", "ngrams.anchors=20", "ngrams.pairs=30", "ngrams.triples=20", "ngrams.letters=40",
    "ngrams.shapes=30", "ngrams.layout=25",
    "calibration.cohort=20", "calibration.views=2", "calibration.min_tokens=20", "heads.epochs=2", "heads.batch=16",
    "abstention.epochs=3",
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


def tiny_pool() -> Pool:
    return Pool(
        tuple(WORDS),
        ("the", "of", "and", "to", "a", "in", ".", ","),
        ("of the", "in the", "the <word-short->", "<word-short-> <word-short->", "<word-short-s> the"),
        ("<word-short-> of the", "<word-short-> <word-short-> <word-short->", "the <word-short-> of"),
        ("th", "the", "_th", "_the", "he_", "_a", "_a_", "is_", "at_", "it", "_i", "as_", "hat_"),
        ("word word", "word word word", "word word .", "i word", "Name word word"),
        (
            "word", "Name", "¶", ".·", ",·", "word word", "word ,· word", ".· Name word", "word .· ¶ Name word", "··",
            "word ' word",
        ),
    )  # fmt: skip


def tiny_vocabulary() -> Vocabulary:
    return Vocabulary(tuple(WORDS), tuple("abcdefghijklmnopqrstuvwxyz.,!?'-"), ngrams=tiny_pool())


def random_network(
    n_members: int, config: ModelConfig = TINY, seed: int = 0, vocabulary: Vocabulary | None = None
) -> Network:
    """Members with random weights, spread so that their verdicts differ."""
    torch.manual_seed(seed)
    vocabulary = vocabulary or tiny_vocabulary()
    network = Network(config, n_members, vocabulary.word_rows, vocabulary.char_rows)
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.is_floating_point():
                parameter.add_(0.3 * torch.randn_like(parameter))
        if network.encoder is not None:
            network.encoder.words[:, 0] = 0
        if network.part_scale is not None:
            network.part_scale.uniform_(0.5, 2)
        if network.ngrams is not None:
            _spread_ngrams(network.ngrams, range(vocabulary.ngrams.views["layout"].start))
        if network.layout is not None:
            views = vocabulary.ngrams.views["layout"]
            _spread_ngrams(network.layout, range(views.start, views.stop))
        if network.cohort is not None:
            network.cohort.texts.uniform_(-1, 1)
    return network.requires_grad_(False).eval()


def _spread_ngrams(part: NgramPart, pool: range) -> None:
    """Each member reads other n-grams of the pool; frequencies and their spread are as of real texts."""
    features = part.index.shape[1]
    for row in part.index:
        row.copy_(pool.start + torch.randperm(len(pool))[:features].sort().values)
    part.background.uniform_(0, 0.05)
    part.mean.copy_(part.background.sqrt())
    part.scale.uniform_(5, 20)


# Of texts (data/fitness.py): they turn nothing away, but an ensemble that has limits repairs what it reads.
LAX_LIMITS = {"min_tokens": 1, "min_words": 0, "min_common": 0, "max_unknown": 1, "max_foreign": 1}
# How the names of stage two's tensors begin.
FITTED = ("o2d2.", "dml.", "bfs.", "ual.", "cohort.", "part_scale", "ngrams.kinds.")


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
