"""The dimensions that rebuild a network: stored with every ensemble."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

VARIANTS = ("paper", "published")
MAX_SIZE = 4096
MAX_LDA_CHARS = 64  # their pairs are features: the number grows with its square
# Positions of the character filters that the kernel can tell apart: it keeps the place of a maximum in 8 bits.
MAX_CHAR_POSITIONS = 256
MAY_BE_ZERO = ("lda_dim", "lda_words", "lda_chars", "cohort")


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of one member; the defaults are the paper's (preset `paper`)."""

    char_dim: int = 10  # embedding of a character
    char_width: int = 4  # characters under one filter of the CNN
    char_filters: int = 30
    chars_per_token: int = 15  # that are looked at
    word_dim: int = 300
    window_hidden: int = 50  # BiLSTM over the tokens of a window, per direction
    document_hidden: int = 50  # BiLSTM over the windows of a document, per direction
    window_tokens: int = 30
    window_hop: int = 26
    max_windows: int = 210
    lev_dim: int = 60  # linguistic embedding vector, both parts together
    bfs_dim: int = 40
    lda_dim: int = 0  # the part of the LEV that comes from frequencies (network/lda.py); 0: none, as in the paper
    lda_words: int = 0
    lda_chars: int = 0
    cohort: int = 0  # texts that distances are normalised by (network/cohort.py); 0: none, as in the paper
    variant: str = "paper"  # "published": the formulas of the authors' program, which differ from the paper's

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name in MAY_BE_ZERO else 1
            if field.type == "int" and not (type(value) is int and least <= value <= MAX_SIZE):
                raise ValueError(f"model.{field.name} must be a number from {least} to {MAX_SIZE}, not {value!r}")
        if self.lda_dim >= self.lev_dim:
            raise ValueError("model.lda_dim must be less than model.lev_dim")
        if self.lda_chars > MAX_LDA_CHARS:
            raise ValueError(f"model.lda_chars must be at most {MAX_LDA_CHARS}")
        if self.chars_per_token + self.char_width - 1 > MAX_CHAR_POSITIONS:
            raise ValueError(f"model.chars_per_token + char_width must be at most {MAX_CHAR_POSITIONS + 1}")
        if self.window_hop > self.window_tokens:
            raise ValueError("model.window_hop must not exceed window_tokens, or words would be skipped")
        if self.variant not in VARIANTS:
            raise ValueError(f"unknown model variant {self.variant!r}; known: {', '.join(VARIANTS)}")

    def tokens_in(self, windows: int) -> int:
        """Tokens that so many windows cover."""
        return (windows - 1) * self.window_hop + self.window_tokens

    @property
    def max_tokens(self) -> int:
        """Tokens of a document that are read; what follows them is ignored."""
        return self.tokens_in(self.max_windows)

    @property
    def lda_features(self) -> int:
        return self.lda_words + 1 + (self.lda_chars + 1) ** 2 if self.lda_dim else 0

    @property
    def lev_parts(self) -> tuple[int, ...]:
        """How many numbers of the LEV come from the encoder, and how many from frequencies."""
        return (self.lev_dim - self.lda_dim, self.lda_dim) if self.lda_dim else (self.lev_dim,)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ModelConfig:
        unknown = set(values) - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"unknown model settings: {', '.join(sorted(unknown))}")
        return cls(**values)
