"""Every hyper-parameter of training, in sections: `heads.lr` on the command line, [heads] in a TOML file.

The defaults are the paper's; PRESETS says where `compact` differs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from ..config import ModelConfig
from ..data.tokeniser import DEFAULT, TOKENISERS
from ..errors import InputError
from ..network.checkpoint import NAMED
from ..network.layers import Dropout
from .drawings import DRAWINGS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class DataSettings:
    """Preparation: vocabulary, splits, fixed pairs."""

    tokeniser: str = "published"  # the program's: spaCy's English rules; or "pan21av-1", which unifies typography
    unique_texts: bool = True  # equal texts count once, whoever is named as their author
    words: int = 5000  # size of the vocabulary: the paper's
    chars: int = 300  # likewise
    lowercase: bool = False  # whether words are looked up so; characters keep their case
    vector_spread: float = 0.0  # > 0: standard deviation that word vectors are scaled to; 0: they stay as they are
    min_tokens: int = 100  # shorter documents are left out: they say little of their author
    split: str = "topics"  # "topics": authors and topics disjoint; "authors": authors only, for coarse topics
    train_share: float = 0.75  # of the topics (or authors); the rest is halved
    drawing: str = "published"  # of pairs; "balanced": within each source, for corpora of several: see drawings.py
    max_pairs: int = 0  # > 0: at most so many validation and development pairs, each
    validation_draws: int = 1  # of balanced validation pairs: with more, figures of small sources mean something
    development_pairs: int = 0  # > 0: of those, so many are looked at after every epoch
    source_share: float = 1.0  # of the sources, that a member is made of; each member has others


@dataclass(frozen=True)
class ContrastiveSettings:
    """Stage one, before pairs: every document of a batch must find its partner among all others (InfoNCE)."""

    epochs: int = 0  # the paper has none
    steps: int = 50  # batches in an epoch
    authors: int = 96  # a batch, two documents each, of one source
    min_windows: int = 8  # shortest crop; lengths vary from document to document
    max_windows: int = 32  # longest crop
    same_topic: float = 0.0  # share of batches with authors of as few topics as possible
    cross_topic: float = 0.0  # share of authors whose two documents are of different topics, if they can
    lr: float = 3e-3  # at the start
    lr_end: float = 3e-4  # reached linearly with the last step
    temperature: float = 3.0  # squared distances are divided by it
    dml_weight: float = 0.0  # of the cross-entropy of p_DML over all pairs: it gives distances one scale
    source_balance: float = 0.5  # sources are drawn with probability authors^this


@dataclass(frozen=True)
class PairSettings:
    """Stage one as in the paper: pairs, with the joint loss DML + BFS + UAL."""

    epochs: int = 35
    batch: int = 40  # pairs; this and the rates are the published program's
    lr: float = 6e-4
    lr_end: float = 2e-4
    lr_fall_epochs: int = 30  # then lr_end is reached
    clip: float = 5.0  # gradient norm of every tensor
    clip_per: str = "gate"  # of the LSTMs' tensors that of each gate's and direction's slice; "tensor": as a whole
    init: str = "published"  # initial values, gamma and alpha trained as they are; "scaled": by fan-in, in logarithms
    per_source: int = 0  # > 0: at most so many pairs of a source in an epoch
    crop_share: float = 0.5  # documents beyond the limit begin at a random window this often
    max_windows: int = 210  # longest crop
    min_windows: int = 0  # > 0: crops of random length from here on
    dml_low: float = 0.09  # margins of the DML loss
    dml_high: float = 0.91
    ual_beta: float = 0.105  # weight of the confusion matrices' entropy
    probe_reversal: float = 0.0  # > 0: the topic probe's gradient is reversed into the encoder


@dataclass(frozen=True)
class NgramSettings:
    """The pool of n-grams that the ensemble knows, and how many of them a member draws; it has all of the rest."""

    pool_words: int = 2000
    anchors: int = 300  # words and punctuation that stay as they are in skeletons
    pool_pairs: int = 3000  # skeletons of two tokens
    pool_triples: int = 5000
    pool_letters: int = 5000
    pool_shapes: int = 3000  # how somebody punctuates
    pool_layout: int = 3000  # how somebody types, where model.layout_dim says that it is read
    words: int = 700
    pairs: int = 500
    triples: int = 300
    letters: int = 700
    shapes: int = 250
    layout: int = 700


@dataclass(frozen=True)
class CalibrationSettings:
    """What stage two learns from: authors that stage one never saw, read whole and in crops."""

    cohort: int = 0  # texts that distances are normalised by
    views: int = 1  # embeddings of each document: whole, then shorter crops
    min_tokens: int = 40  # shortest crop
    draws: int = 1  # times that pairs are drawn in an epoch: embeddings cost nothing here
    per_source: int = 0  # > 0: at most so many pairs of a source in a draw
    unfamiliar: float = 0.5  # share of the pairs of a draw that are of sources that the member does not know


@dataclass(frozen=True)
class HeadSettings:
    """DML, BFS and UAL fitted anew on unseen authors: their posteriors must hold for those."""

    epochs: int = 0  # 0: they stay as stage one left them, as in the paper
    batch: int = 40  # pairs, as in stage one
    lr: float = 1e-3  # falls to a tenth
    ual_beta: float = 0.03  # weight of the confusion matrices' entropy, less than the paper's
    dropout: float = 0.0  # of UAL's hidden layer


@dataclass(frozen=True)
class AbstentionSettings:
    """O2D2."""

    epochs: int = 60  # these seven are the published program's
    batch: int = 30
    lr: float = 1e-3
    lr_end: float = 5e-4
    lr_fall_epochs: int = 100  # then lr_end is reached; 0: with the last epoch
    clip: float = 5.0  # gradient norm of every tensor; 0: any
    dropout: float = 0.25
    eps_min: float = 0.05  # a posterior that near to a half counts as undecidable; chosen on validation pairs
    eps_max: float = 0.15  # the paper's range
    eps_steps: int = 5  # candidates tried side by side
    strange: float = 0.0  # what a kind of text that is surely strange adds to the logit, twice: see O2D2
    share: float = 0.0  # > 0: of pairs of familiar sources, that a member abstains on, at every length


WORDS = {
    "data.split": ("topics", "authors"), "data.drawing": DRAWINGS, "data.tokeniser": TOKENISERS,
    "dropout.per": ("pair", "batch"), "pairs.clip_per": ("gate", "tensor"), "pairs.init": ("published", "scaled"),
}  # fmt: skip
MINIMA = {
    "data.words": 1, "data.chars": 1, "data.validation_draws": 1, "contrastive.steps": 1, "contrastive.authors": 2,
    "pairs.batch": 1, "calibration.views": 1, "calibration.min_tokens": 1, "calibration.draws": 1, "heads.batch": 1,
    "abstention.batch": 1, "abstention.eps_steps": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    # What stage one depends on
    model: ModelConfig = field(default_factory=ModelConfig)
    data: DataSettings = field(default_factory=DataSettings)
    dropout: Dropout = field(default_factory=lambda: Dropout(0.0, 0.2, 0.1, 0.1, 0.2, per="pair"))
    contrastive: ContrastiveSettings = field(default_factory=ContrastiveSettings)
    pairs: PairSettings = field(default_factory=PairSettings)
    ngrams: NgramSettings = field(default_factory=NgramSettings)
    # What stage two depends on besides
    calibration: CalibrationSettings = field(default_factory=CalibrationSettings)
    heads: HeadSettings = field(default_factory=HeadSettings)
    abstention: AbstentionSettings = field(default_factory=AbstentionSettings)

    STAGE_ONE = ("model", "data", "dropout", "contrastive", "pairs", "ngrams")

    def __post_init__(self) -> None:
        for name, known in WORDS.items():
            section, _, key = name.partition(".")
            value = getattr(getattr(self, section), key)
            if value not in known:
                raise ValueError(f"{name} must be {' or '.join(known)}, not {value!r}")
        for name, least in MINIMA.items():
            section, _, key = name.partition(".")
            if getattr(getattr(self, section), key) < least:
                raise ValueError(f"{name} must be at least {least}")
        if self.calibration.cohort == 1:
            raise ValueError("calibration.cohort must be 0 or at least 2: no author is in their own cohort")
        if self.model.cohort:
            raise ValueError("model.cohort follows from the corpus; set calibration.cohort")
        if self.model.kinds:
            raise ValueError("model.kinds follows from the corpus; see data.source_share")
        if self.model.ngram_features:
            raise ValueError("model.ngram_features follows from the corpus; see [ngrams]")
        if self.model.layout_features:
            raise ValueError("model.layout_features follows from the corpus; see [ngrams]")
        if not self.heads.epochs and (self.model.ngram_dim or not self.model.encoder_dim):
            raise ValueError("model.ngram_dim needs heads.epochs: the scores of stage one know the encoder only")
        if not 0 < self.data.source_share <= 1:
            raise ValueError("data.source_share must be above 0 and at most 1")
        if bool(self.calibration.cohort) != bool(self.heads.epochs):
            raise ValueError("calibration.cohort and heads.epochs go together: scores that begin anew read a cohort")
        for section in ("contrastive", "pairs"):
            if getattr(self, section).min_windows > getattr(self, section).max_windows:
                raise ValueError(f"{section}.min_windows must not exceed {section}.max_windows")

    @property
    def stage_one(self) -> dict[str, Any]:
        """Stage one of another run can be reused if these are equal."""
        return {name: asdict(getattr(self, name)) for name in self.STAGE_ONE}

    @property
    def stage_one_epochs(self) -> int:
        return self.contrastive.epochs + self.pairs.epochs if self.model.encoder_dim else 0

    @property
    def epochs(self) -> int:
        """Of both stages."""
        return self.stage_one_epochs + self.heads.epochs + self.abstention.epochs

    def to_dict(self) -> dict[str, dict[str, Any]]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Settings:
        """As stored with an ensemble, maybe by a version that had not all of the names."""
        return cls().updated(values)

    def updated(self, values: Mapping[str, Any]) -> Settings:
        """With some settings of some sections changed; unknown names and wrong types are refused."""
        changed = {}
        for name, entries in values.items():
            section = getattr(self, name, None) if name in {f.name for f in fields(self)} else None
            if section is None or not isinstance(entries, Mapping):
                known = ", ".join(f.name for f in fields(self))
                raise ValueError(f"unknown section {name!r}; known: {known}")
            changed[name] = _updated(name, section, entries)
        return replace(self, **changed)


def _updated(name: str, section: Any, entries: Mapping[str, Any]) -> Any:
    known = {f.name: getattr(section, f.name) for f in fields(section)}
    values = {}
    for key, value in entries.items():
        if key not in known:
            raise ValueError(f"unknown setting '{name}.{key}'; known: {', '.join(known)}")
        if isinstance(known[key], float) and type(value) is int:
            value = float(value)
        if type(value) is not type(known[key]):
            raise ValueError(f"{name}.{key} must be {type(known[key]).__name__}, not {value!r}")
        values[key] = value
    return replace(section, **values)


SHIPPED = NAMED / "default.toml"
# Suits a CPU: a smaller encoder, begun by contrast, n-grams beside it, scores fitted to authors it never saw.
_COMPACT = Settings(
    model=ModelConfig(word_dim=100, ngram_dim=256, layout_dim=64, bfs_dim=100),
    data=DataSettings(
        tokeniser=DEFAULT,
        unique_texts=False,
        lowercase=True,
        vector_spread=0.3,
        drawing="balanced",
        max_pairs=4000,
        validation_draws=8,
        development_pairs=4000,
    ),
    dropout=Dropout(words=0.1),
    contrastive=ContrastiveSettings(epochs=10, steps=32, max_windows=40, dml_weight=0.3, lr_end=2e-4),
    pairs=PairSettings(epochs=2, max_windows=48, min_windows=8, per_source=400, clip_per="tensor", init="scaled"),
    calibration=CalibrationSettings(cohort=600, views=3, draws=8, per_source=80),
    heads=HeadSettings(epochs=8, batch=400),
    abstention=AbstentionSettings(epochs=10, batch=60, lr_fall_epochs=0, clip=0.0, strange=2.5, share=0.12),
)
PRESETS = {
    "paper": Settings(),
    "compact": _COMPACT,
    # The n-grams alone: minutes instead of hours.
    "light": replace(_COMPACT, model=replace(_COMPACT.model, encoder_dim=0)),
}


def load_settings(preset: str = "default", toml: Path | None = None, assignments: Iterable[str] = ()) -> Settings:
    """A preset, then a TOML file over it, then `section.name=value` assignments over both.

    "default" is the shipped ensemble's recipe: a TOML file, over the preset "compact".
    """
    shipped = preset == "default"
    settings = PRESETS["compact" if shipped else preset]
    if shipped and toml is None:
        toml = SHIPPED
    if toml is not None:
        try:
            settings = settings.updated(tomllib.loads(toml.read_text("utf-8")))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValueError) as error:
            raise InputError(f"{toml}: {error}") from None
    changes: dict[str, dict[str, Any]] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        section, dot, key = name.strip().partition(".")
        if not (equals and dot):
            raise InputError(f"--set takes section.name=value, as in heads.lr=1e-3, not {assignment!r}")
        try:
            value = tomllib.loads(f"value = {text}")["value"]
        except tomllib.TOMLDecodeError:
            value = text  # a bare word is a string
        changes.setdefault(section, {})[key] = value
    try:
        return settings.updated(changes)
    except ValueError as error:
        raise InputError(str(error)) from None
