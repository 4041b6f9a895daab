"""n-grams: what a text does again and again, whatever it is about.

A text is looked at in nine views. Common words tell most; skeletons, n-grams of one to three tokens in which only
words that every kind of text has and punctuation stay as they are, tell how sentences are built; letter n-grams tell
endings and spelling; gaps between marks tell how long sentences and clauses are; shapes, n-grams of up to six tokens
in which all words are alike but for capitals, tell how somebody punctuates. The ninth is of the text as it was typed,
before it was cut into tokens: layout.py. In each view a text has relative frequencies, whose meaning
network/ngram_part.py knows.

Here are the rules, and a plain implementation of them; counting.py has the fast one, in C.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import log2
from typing import Any

import numpy as np

from . import layout
from .characters import ALPHA, BASIC, DIGIT, UPPER, kind
from .layout import NO_LAYOUT

TOKEN_VIEWS = ("words", "symbols", "pairs", "triples", "letters", "gaps", "lengths", "shapes")
VIEWS = (*TOKEN_VIEWS, "layout")

# What an uncommon word becomes in a skeleton. Longer endings come first: "station" ends in "tion".
ENDINGS = ("ing", "tion", "ness", "ment", "ful", "est", "ed", "ly", "er", "al", "s", "y", "e")
SIZES = ("short", "middle", "long")
CLASSES = (
    "<number>", "<sign>", "<CAPITALS>",
    *(f"<{case}-{size}-{ending}>" for case in ("Name", "word") for size in SIZES for ending in (*ENDINGS, "")),
)  # fmt: skip
SHORT, MIDDLE = 4, 7  # letters at most

MAX_ANCHORS = 2_000  # their pairs are looked up in a table: its size grows with their square

MARKS = ("sentence end", "comma", "quote")
GAP_BINS = 15  # two to an octave
MAX_GAP = 200
LENGTHS = 16  # the last one holds all longer words
MAX_WORD = 20  # letters of a word that n-grams are taken of
GRAM_LENGTHS = (2, 3, 4)

SIGNS = (
    ".", ",", '"', "'", "-", "--", "...", "!", "!!", "!!!", "?", "(", ")", "[", "]", ":", ";", "/", "*", "&", "+", "=",
    "~", "#", "$", "%",
)  # fmt: skip
SHAPES = ("word", "Name", "CAPITALS", "number", "I", "i", "'s", "sign", *SIGNS)
SHAPE_LENGTHS = (2, 3, 4, 5, 6)
SHAPE_BITS = 6  # for each of SHAPES


def word_class(token: str) -> int:
    """Which of CLASSES."""
    first = kind(token[0])
    if first & DIGIT:
        return 0
    if not first & ALPHA and not (token[0] == "'" and len(token) > 1):
        return 1
    if is_capitals(token):
        return 2
    low = token.lower()
    endings = (n for n, e in enumerate(ENDINGS) if len(low) > len(e) + 1 and low.endswith(e))
    ending = next(endings, len(ENDINGS))
    size = 0 if len(token) <= SHORT else 1 if len(token) <= MIDDLE else 2
    return 3 + ((not first & UPPER) * len(SIZES) + size) * (len(ENDINGS) + 1) + ending


def is_capitals(token: str) -> bool:
    """Of a token that begins with a letter."""
    rest = (kind(c) for c in token[1:])
    return len(token) > 1 and bool(kind(token[0]) & UPPER) and all(k & UPPER or not k & ALPHA for k in rest)


def shape(token: str) -> int:
    """Which of SHAPES."""
    first = kind(token[0])
    if first & DIGIT:
        return SHAPES.index("number")
    if first & ALPHA:
        if token in ("I", "i"):
            return SHAPES.index(token)
        return SHAPES.index("CAPITALS" if is_capitals(token) else "Name" if first & UPPER else "word")
    if token in SIGNS:
        return SHAPES.index(token)
    return SHAPES.index("'s" if token[0] == "'" and len(token) > 1 else "sign")


def shape_number(gram: str) -> int:
    """An n-gram of shapes as a number: its symbols, the last one lowest, and above all places its length."""
    symbols = gram.split(" ")
    number = 0
    for symbol in symbols:
        number = number << SHAPE_BITS | SHAPES.index(symbol)
    return len(symbols) << SHAPE_BITS * SHAPE_LENGTHS[-1] | number


def shape_gram(number: int) -> str:
    """What shape_number made a number of."""
    length = number >> SHAPE_BITS * SHAPE_LENGTHS[-1]
    places = (SHAPE_BITS * at for at in reversed(range(length)))
    return " ".join(SHAPES[number >> place & (1 << SHAPE_BITS) - 1] for place in places)


def letter_grams(token: str) -> list[str]:
    """Those of a word between its bounds, written "_"; none of what is no word."""
    if not kind(token[0]) & ALPHA:
        return []
    word = "_" + token.lower()[:MAX_WORD] + "_"
    return [word[at : at + n] for at in range(len(word)) for n in GRAM_LENGTHS if at + n <= len(word)]


def is_letter_gram(gram: str) -> bool:
    return len(gram) in GRAM_LENGTHS and max(map(ord, gram)) < BASIC - 1 and "\0" not in gram


def mark(token: str) -> int:
    """1 + which of MARKS; 0 for anything else."""
    if token in (".", "...") or token[0] in "!?":
        return 1
    return {",": 2, '"': 3}.get(token, 0)


def gap_bin(gap: int) -> int:
    """Of 1 to MAX_GAP tokens, the second mark included."""
    return min(GAP_BINS - 1, int(2 * log2(gap))) if gap > 0 else 0


@dataclass(frozen=True)
class Pool:
    """The n-grams that an ensemble knows. Each member reads some of them."""

    words: tuple[str, ...]  # in lower case, as are anchors and letters
    anchors: tuple[str, ...]  # words and punctuation that stay as they are in a skeleton
    pairs: tuple[str, ...]  # skeletons, symbols with a space between
    triples: tuple[str, ...]
    letters: tuple[str, ...]
    shapes: tuple[str, ...] = ()  # with a space between as well
    layout: tuple[str, ...] = ()  # likewise

    FIELDS = ("words", "anchors", "pairs", "triples", "letters", "shapes", "layout")

    def __post_init__(self) -> None:
        for name in self.FIELDS:
            entries = getattr(self, name)
            if len(set(entries)) != len(entries):
                raise ValueError(f"the n-grams list some {name} twice")
        if len(self.anchors) > MAX_ANCHORS:
            raise ValueError(f"the n-grams have more than {MAX_ANCHORS} anchors")
        if set(self.anchors) & set(CLASSES):
            raise ValueError("an anchor has the name of a class of words")
        for length, name in ((2, "pairs"), (3, "triples")):
            for entry in getattr(self, name):
                symbols = entry.split(" ")
                if len(symbols) != length or not all(symbol in self.symbol_ids for symbol in symbols):
                    raise ValueError(f"{entry!r} is no skeleton of {length} symbols")
        for entry in self.shapes:
            symbols = entry.split(" ")
            if len(symbols) not in SHAPE_LENGTHS or not set(symbols) <= set(SHAPES):
                raise ValueError(f"{entry!r} is no n-gram of shapes")
        for entry in self.layout:
            if not layout.is_gram(entry):
                raise ValueError(f"{entry!r} is no n-gram of layout")
        if not all(map(is_letter_gram, self.letters)):
            raise ValueError(f"letter n-grams have {GRAM_LENGTHS[0]} to {GRAM_LENGTHS[-1]} letters")

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        return (*self.anchors, *CLASSES)

    @cached_property
    def symbol_ids(self) -> dict[str, int]:
        return {symbol: number for number, symbol in enumerate(self.symbols)}

    @cached_property
    def views(self) -> dict[str, slice]:
        """Where the features of each view are."""
        sizes = [
            len(self.words), len(self.symbols), len(self.pairs), len(self.triples), len(self.letters),
            len(MARKS) * GAP_BINS, LENGTHS, len(self.shapes), len(self.layout),
        ]  # fmt: skip
        bounds = np.cumsum([0, *sizes]).tolist()
        return {name: slice(*ends) for name, ends in zip(VIEWS, pairwise(bounds), strict=True)}

    def __len__(self) -> int:
        return int(self.views[VIEWS[-1]].stop)

    def symbol(self, token: str) -> int:
        anchor = self.symbol_ids.get(token.lower(), len(self.anchors))
        return anchor if anchor < len(self.anchors) else len(self.anchors) + word_class(token)

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.FIELDS}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Pool:
        for name in cls.FIELDS:
            entries = values.get(name)
            if not isinstance(entries, list) or not all(isinstance(entry, str) and entry for entry in entries):
                raise ValueError(f"{name} of the n-grams must be a list of strings")
        return cls(*(tuple(values[name]) for name in cls.FIELDS))

    @cached_property
    def _ids(self) -> dict[str, dict[str, int]]:
        return {name: {f: n for n, f in enumerate(getattr(self, name))} for name in self.FIELDS}

    def found(self, tokens: Sequence[str]) -> Iterator[tuple[str, int]]:
        """Every feature of a text as (view, number in that view), as often as it is there; -1: one of no pool."""
        ids, symbols = self._ids, [self.symbol(token) for token in tokens]
        shapes = [SHAPES[shape(token)] for token in tokens]
        last = [-1] * (len(MARKS) + 1)
        for at, token in enumerate(tokens):
            yield "words", ids["words"].get(token.lower(), -1)
            yield "symbols", symbols[at]
            for view, length in (("pairs", 2), ("triples", 3)):
                if at + 1 >= length:
                    skeleton = " ".join(self.symbols[s] for s in symbols[at + 1 - length : at + 1])
                    yield view, ids[view].get(skeleton, -1)
            for length in SHAPE_LENGTHS:
                gram = " ".join(shapes[at + 1 - length : at + 1]) if at + 1 >= length else ""
                if gram in ids["shapes"]:
                    yield "shapes", ids["shapes"][gram]
            for gram in letter_grams(token):
                if gram in ids["letters"]:
                    yield "letters", ids["letters"][gram]
            which = mark(token)
            if which:
                yield "gaps", (which - 1) * GAP_BINS + gap_bin(min(at - last[which], MAX_GAP))
                last[which] = at
            if kind(token[0]) & ALPHA:
                yield "lengths", min(len(token), LENGTHS) - 1

    def count(self, tokens: Sequence[str], symbols: np.ndarray = NO_LAYOUT) -> np.ndarray:
        """Relative frequencies (features) float32 of a text, given as tokens and as symbols of its layout, each view by
        itself; letters among those of the pool, shapes over tokens."""
        counts, totals = np.zeros(len(self)), dict.fromkeys(TOKEN_VIEWS, 0)
        for view, number in self.found(tokens):
            totals[view] += 1
            if number >= 0:
                counts[self.views[view].start + number] += 1
        totals["shapes"] = len(tokens)
        for view, total in totals.items():
            counts[self.views[view]] /= max(1, total)
        counts[self.views["layout"]] = layout.count(symbols, self.layout)
        return counts.astype(np.float32)
