"""The dimensions that rebuild a network: stored with every ensemble."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

VARIANTS = ("paper", "published")
MAX_SIZE = 4096
# Positions of the character filters that the kernel can tell apart: it keeps the place of a maximum in 8 bits.
MAX_CHAR_POSITIONS = 256
MAY_BE_ZERO = ("encoder_dim", "ngram_dim", "ngram_features", "layout_dim", "layout_features", "kinds", "cohort")


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
    encoder_dim: int = 60  # the part of the linguistic embedding vector (LEV) that comes from the encoder; 0: none
    ngram_dim: int = 0  # the part that comes from n-grams (network/ngram_part.py); 0: none, as in the paper
    ngram_features: int = 0  # n-grams that a member reads
    layout_dim: int = 0  # the part that comes from layout, n-grams of a text as it was typed; 0: none, as in the paper
    layout_features: int = 0  # of these n-grams, that a member reads
    kinds: int = 0  # kinds of text that a member knows, by their n-grams (network/kinds.py); 0: none are told apart
    bfs_dim: int = 40
    cohort: int = 0  # texts that distances are normalised by (network/cohort.py); 0: none, as in the paper
    variant: str = "paper"  # "published": the formulas of the authors' program, which differ from the paper's

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name in MAY_BE_ZERO else 1
            if field.type == "int" and not (type(value) is int and least <= value <= MAX_SIZE):
                raise ValueError(f"model.{field.name} must be a number from {least} to {MAX_SIZE}, not {value!r}")
        if self.kinds and not self.ngram_dim:
            raise ValueError("model.kinds are told apart by n-grams: it needs model.ngram_dim")
        if self.layout_dim and not self.ngram_dim:
            raise ValueError("model.layout_dim stands beside n-grams: it needs model.ngram_dim")
        if not self.lev_dim:
            raise ValueError("model.encoder_dim and model.ngram_dim must not both be 0")
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
    def lev_dim(self) -> int:
        return self.encoder_dim + self.counted_dim

    @property
    def counted_dim(self) -> int:
        """Numbers of the LEV that come from frequencies: of layout, then of n-grams."""
        return self.layout_dim + self.ngram_dim

    @property
    def projected_dim(self) -> int:
        """Numbers of a document before its parts are made comparable: the LEV's, and how strange its kind is."""
        return self.lev_dim + (1 if self.kinds else 0)

    @property
    def lev_parts(self) -> tuple[int, ...]:
        """How many numbers of the LEV come from each of its parts, n-grams last."""
        return tuple(dim for dim in (self.encoder_dim, self.layout_dim, self.ngram_dim) if dim)

    @property
    def part_names(self) -> tuple[str, ...]:
        """Of the same parts."""
        named = {"encoder": self.encoder_dim, "layout": self.layout_dim, "ngrams": self.ngram_dim}
        return tuple(name for name, dim in named.items() if dim)

    @property
    def of_layout(self) -> ModelConfig:
        """The sizes of the layout part, which is an n-gram part of other n-grams."""
        return replace(self, ngram_dim=self.layout_dim, ngram_features=self.layout_features, layout_dim=0, kinds=0)

    @property
    def encoder_alone(self) -> ModelConfig:
        """What stage one trains by gradients."""
        return replace(
            self, ngram_dim=0, ngram_features=0, layout_dim=0, layout_features=0, kinds=0, cohort=0,
            bfs_dim=min(self.bfs_dim, self.encoder_dim),
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ModelConfig:
        unknown = set(values) - {field.name for field in fields(cls)}
        if unknown:
            raise ValueError(f"unknown model settings: {', '.join(sorted(unknown))}")
        return cls(**values)
