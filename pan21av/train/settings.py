"""Every hyper-parameter of training in one place, settable by name."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ..config import PRESETS, ModelConfig
from ..encoder import Dropout

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


STAGE_TWO = ("strangers", "head_", "unfamiliar", "sharpen", "crops", "draws", "o2d2_", "eps_")  # names begin like that


@dataclass(frozen=True)
class TrainSettings:
    """The defaults are the paper's; `presets` below says where `compact` differs."""

    model: ModelConfig = field(default_factory=ModelConfig)

    # preparation
    words: int = 5000  # size of the vocabulary
    chars: int = 300
    lowercase: bool = True
    min_tokens: int = 100  # shorter documents are left out
    split: str = "topics"  # "topics": authors and topics disjoint; "authors": authors only
    train_share: float = 0.75  # of the topics (or authors); the rest is halved
    max_pairs: int = 4000  # validation and development pairs, each
    development_pairs: int = 4000  # of those, looked at after every epoch

    # stage one, warm-up: every pair in a batch contrasted with every other
    warmup_epochs: int = 0
    warmup_steps: int = 50  # batches in a warm-up epoch
    warmup_authors: int = 96  # a batch, two documents each, of one source
    warmup_windows: int = 32  # longest crop
    warmup_min_windows: int = 8  # shortest crop; lengths vary from batch to batch
    warmup_same_topic: float = 0.0  # share of batches with authors of as few topics as possible
    warmup_cross_topic: float = 0.0  # share of authors whose two documents are of different topics, if they can
    warmup_lr: float = 3e-3
    warmup_lr_end: float = 3e-4
    warmup_temperature: float = 3.0
    warmup_dml: float = 0.0  # weight of cross-entropy of p_DML over all pairs of the batch
    source_balance: float = 0.5  # sources are drawn with probability authors^this

    # stage one, pairs: DML + BFS + UAL
    epochs: int = 35
    batch_pairs: int = 40
    lr: float = 6e-4
    lr_end: float = 2e-4
    lr_fall_epochs: int = 30
    clip: float = 5.0  # gradient norm of every tensor
    crop_share: float = 0.5  # documents beyond the limit begin at a random window this often
    crop_windows: int = 210  # longest crop in pair training
    crop_min_windows: int = 0  # > 0: crops of random length from here on
    drop_words: float = 0.0
    drop_cnn: float = 0.2
    drop_lstm: float = 0.1
    drop_attention: float = 0.1
    drop_metric: float = 0.2
    dml_low: float = 0.09  # margins of the DML loss
    dml_high: float = 0.91
    ual_beta: float = 0.105  # weight of the confusion matrices' entropy
    probe_reversal: float = 0.0  # > 0: the topic probe's gradient is reversed into the encoder

    # stage two
    head_epochs: int = 0  # > 0: BFS and UAL begin anew on calibration authors, from their moments
    head_lr: float = 1e-3
    unfamiliar: float = 0.5  # share of its pairs for which the strangers of their source do not count
    sharpen: float = 1.0  # factor on UAL's logits: the mean of members that differ is less certain than each of them
    crops: int = 1  # embeddings of each calibration and validation document: whole, then shorter crops
    draws: int = 1  # times that pairs are drawn in an epoch of stage two
    o2d2_epochs: int = 60
    o2d2_batch: int = 30
    o2d2_lr: float = 1e-3
    o2d2_lr_end: float = 5e-4
    o2d2_dropout: float = 0.25
    eps_low: float = 0.05
    eps_high: float = 0.15
    eps_steps: int = 5

    amp: bool = False  # mixed precision, on a GPU

    def __post_init__(self) -> None:
        if self.split not in ("topics", "authors"):
            raise ValueError(f"split must be topics or authors, not {self.split!r}")
        for name in ("words", "chars", "warmup_steps", "warmup_authors", "batch_pairs", "o2d2_batch", "crops"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.model.strangers and not self.head_epochs:
            raise ValueError("strangers need head_epochs: scores must learn to use them")
        for low, high in (("warmup_min_windows", "warmup_windows"), ("crop_min_windows", "crop_windows")):
            if getattr(self, low) > getattr(self, high):
                raise ValueError(f"{low} must not exceed {high}")

    @property
    def dropout(self) -> Dropout:
        return Dropout(self.drop_words, self.drop_cnn, self.drop_lstm, self.drop_attention, self.drop_metric)

    @property
    def stage_one(self) -> dict[str, Any]:
        """The settings that stage one depends on: all but those of stage two."""
        return {name: value for name, value in self.to_dict().items() if not name.startswith(STAGE_TWO)}

    @property
    def stage_one_epochs(self) -> int:
        return self.warmup_epochs + self.epochs

    def to_dict(self) -> dict[str, Any]:
        """Flat: model sizes beside the rest, as a TOML file would have them."""
        values = asdict(self)
        return {**values.pop("model"), **values}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainSettings:
        return cls().updated(values)

    def updated(self, values: Mapping[str, Any]) -> TrainSettings:
        """With some settings changed; unknown names and wrong types are refused."""
        model_names = {f.name for f in fields(ModelConfig)}
        known = {f.name for f in fields(self)} - {"model"} | model_names
        model: dict[str, Any] = {}
        rest: dict[str, Any] = {}
        for name, value in values.items():
            if name not in known:
                raise ValueError(f"unknown setting {name!r}; known: {', '.join(sorted(known))}")
            current = getattr(self.model if name in model_names else self, name)
            if isinstance(current, float) and type(value) is int:
                value = float(value)
            if type(value) is not type(current):
                raise ValueError(f"setting {name} must be {type(current).__name__}, not {value!r}")
            (model if name in model_names else rest)[name] = value
        return replace(self, model=replace(self.model, **model), **rest)


PRESET_SETTINGS = {
    "paper": TrainSettings(),
    # Suits a CPU: a contrastive warm-up instead of pairs, scores from authors it never saw.
    "compact": TrainSettings(
        model=PRESETS["compact"],
        warmup_epochs=24,
        warmup_dml=0.3,
        epochs=0,
        crop_windows=48,
        crop_min_windows=8,
        drop_words=0.1,
        drop_cnn=0.0,
        drop_lstm=0.0,
        drop_attention=0.0,
        drop_metric=0.0,
        head_epochs=20,
        ual_beta=0.03,
        crops=3,
        draws=8,
        o2d2_batch=60,
    ),
}


def load_settings(preset: str, toml: Path | None = None, assignments: Iterable[str] = ()) -> TrainSettings:
    """A preset, then a TOML file over it, then `name=value` assignments over both."""
    values: dict[str, Any] = {}
    if toml is not None:
        try:
            values = tomllib.loads(toml.read_text("utf-8"))
            PRESET_SETTINGS[preset].updated(values)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValueError) as error:
            raise ValueError(f"{toml}: {error}") from None
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise ValueError(f"--set takes name=value, not {assignment!r}")
        try:
            values[name.strip()] = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            values[name.strip()] = text  # a bare word is a string
    return PRESET_SETTINGS[preset].updated(values)
