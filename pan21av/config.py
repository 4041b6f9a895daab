"""The dimensions that rebuild a model: stored with every ensemble."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

VARIANTS = ("paper", "official")


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of one member; the defaults are the paper's (preset `paper`)."""

    char_dim: int = 10  # embedding of a character
    char_width: int = 4  # characters under one filter of the CNN
    char_filters: int = 30
    letters: int = 15  # characters of a token that are looked at
    word_dim: int = 300
    window_hidden: int = 50  # BiLSTM over the tokens of a window, per direction
    document_hidden: int = 50  # BiLSTM over the windows of a document, per direction
    window_tokens: int = 30
    window_hop: int = 26
    max_windows: int = 210
    lev_dim: int = 60  # linguistic embedding vector
    bfs_dim: int = 40
    style_dim: int = 0  # of the LEV, from frequencies of words and letter pairs (style.py); 0: as in the paper
    style_words: int = 0
    style_chars: int = 0
    strangers: int = 0  # texts that distances are measured against (strangers.py); 0: as in the paper
    variant: str = "paper"  # "official": the formulas of the authors' published program

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name.startswith(("style_", "strangers")) else 1
            if field.type == "int" and not (type(value) is int and least <= value <= 4096):
                raise ValueError(f"model setting {field.name} must be a number from {least} to 4096, not {value!r}")
        if self.style_dim >= self.lev_dim or self.style_chars > 64:
            raise ValueError("style_dim must be less than lev_dim, style_chars at most 64")
        if self.window_hop > self.window_tokens:
            raise ValueError("window_hop must not exceed window_tokens, or words would be skipped")
        if self.variant not in VARIANTS:
            raise ValueError(f"unknown model variant {self.variant!r}; known: {', '.join(VARIANTS)}")

    @property
    def max_tokens(self) -> int:
        """Tokens of a document that are read; what follows them is ignored."""
        return (self.max_windows - 1) * self.window_hop + self.window_tokens

    @property
    def style_features(self) -> int:
        return self.style_words + 1 + (self.style_chars + 1) ** 2 if self.style_dim else 0

    @property
    def lev_parts(self) -> tuple[int, ...]:
        """How many numbers of the LEV come from the encoder, and how many from style."""
        return (self.lev_dim - self.style_dim, self.style_dim) if self.style_dim else (self.lev_dim,)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ModelConfig:
        unknown = set(values) - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"unknown model settings: {', '.join(sorted(unknown))}")
        return cls(**values)


PRESETS = {"paper": ModelConfig(), "compact": ModelConfig(word_dim=100)}
