"""From raw text to tokens.

A tokeniser has a name, stored with every ensemble: weights trained on one way of cutting text must not meet another.
Change what `tokenise` returns, and it needs a new name (tests/data/golden_tokens.json tells).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Protocol

import numpy as np

from . import published
from .counting import layout_of
from .layout import NO_LAYOUT
from .nltk_part import regexp_tokenizer
from .repair import repair

RegexpTokenizer = regexp_tokenizer()

UNREADABLE = "\ufffd"  # stands for a text in which nothing counts as a token
CHARS_PER_PIECE, MAX_PIECE = 1 << 14, 1 << 16  # matched at a time
CHARS_PER_TOKEN = 64  # no text needs more; it keeps a "text" of 50 MB from costing a minute
CHARS_REPAIRED_PER_TOKEN = 2 * CHARS_PER_TOKEN  # some of it may be mark-up

WORDS_REMEMBERED, MAX_REMEMBERED = 50_000, 40  # with their tokens, and of so many characters: about 15 MB

_UNIFIED = str.maketrans(
    {
        **dict.fromkeys("“”„‟«»″〝〞", '"'),
        **dict.fromkeys("‘’‚‛`´′ʼ", "'"),
        **dict.fromkeys("–—―‒−⸺", "--"),
        "‐": "-",
        "‑": "-",
        "…": "...",
        "\u00ad": None,  # soft hyphen
        "\u200b": None,  # zero-width space
        "\ufeff": None,
        "\x00": " ",
        "_": " ",  # emphasis in plain-text books, never part of a word
    }
)
# Patterns begin with what they are about, and not with what comes before it: so most of a text is skipped.
_DASHES = re.compile(r"--+")
_DOTS = re.compile(r"\.(?: ?\.)+")
_REPEATED = re.compile(r"(\S)\1{3,}")  # "sooooo", "!!!!!!" -> three of it
_DOUBLED_QUOTE = re.compile(r"''")
# PAN's fan fiction lost its apostrophes to double quotes: don"t, she"ll.
_QUOTED_CONTRACTION = re.compile(r"(?i)\"(?<=[^\W\d_]\")(?=(?:t|s|m|d|re|ve|ll)\b)")

_TOKENS = RegexpTokenizer(
    r"(?i:[^\W\d_]+?(?=n't\b)|n't\b|'(?:s|m|d|re|ve|ll)\b)"  # did|n't, she|'ll, as in the Penn Treebank
    r"|[^\W\d_]+"  # letters of any script
    r"|\d+(?:[.,:]\d+)*"
    r"|\.\.\.|--"
    r"|!+|\?+|\*+|~+|=+"  # runs that carry tone or layout
    r"|\S"
)
_SPACED = RegexpTokenizer(r"\S+")


def unify(text: str) -> str:
    """Unify quotes, dashes and ellipses; shorten runs; leave single spaces."""
    text = unicodedata.normalize("NFKC", text.translate(_UNIFIED)).translate(_UNIFIED)
    text = _DOUBLED_QUOTE.sub('"', text)
    text = _QUOTED_CONTRACTION.sub("'", text)
    text = _DASHES.sub(" -- ", text)
    text = _DOTS.sub(" ... ", text)
    if any(4 * char in text for char in set(text)):  # few texts have any, and looking at every place takes long
        text = _REPEATED.sub(r"\1\1\1", text)
    return single_spaced(text)


def single_spaced(text: str) -> str:
    return " ".join(text.split())


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """(start, piece) of a normalised text, cut at spaces, which no token holds; without any, after MAX_PIECE.

    NLTK gives every match five seconds, and a text of some megabytes, or a busy machine, may need more.
    """
    start = 0
    while start < len(text):
        limit = start + MAX_PIECE
        space = text.find(" ", start + CHARS_PER_PIECE, limit)
        end = min(limit, len(text)) if space < 0 else space
        yield start, text[start:end]
        start = end


@dataclass(frozen=True)
class Tokens:
    """One document: its distinct tokens, and for every position which of them stands there."""

    types: list[str]
    ids: np.ndarray  # (positions) int32, into types
    notes: dict[str, str] = field(default_factory=dict)  # what a reader should know: {kind: words}
    texts: tuple[int, ...] = ()  # tokens of each of the texts that it was joined from
    layout: np.ndarray = field(default_factory=lambda: NO_LAYOUT)  # (symbols) uint8; see layout.py

    @classmethod
    def of(cls, tokens: Sequence[str], notes: dict[str, str] | None = None, layout: np.ndarray = NO_LAYOUT) -> Tokens:
        types = list(dict.fromkeys(tokens))
        index = {token: number for number, token in enumerate(types)}
        ids = np.fromiter(map(index.__getitem__, tokens), np.int32, len(tokens))
        return cls(types, ids, notes or {}, layout=layout)

    @property
    def words(self) -> list[str]:
        """The tokens themselves, one after the other."""
        return [self.types[i] for i in self.ids.tolist()]

    @classmethod
    def join(cls, texts: Sequence[Tokens]) -> Tokens:
        """Several texts by one author as one document, without their notes."""
        if len(texts) == 1:
            return texts[0]
        index: dict[str, int] = {}
        ids = [np.array([index.setdefault(t, len(index)) for t in text.types], dtype=np.int32) for text in texts]
        joined = np.concatenate([local[text.ids] for local, text in zip(ids, texts, strict=True)])
        typed = np.concatenate([text.layout for text in texts])
        return cls(list(index), joined, texts=tuple(len(text.ids) for text in texts), layout=typed)


class Rules(Protocol):
    """Where tokens begin and end, as NLTK's tokenisers say it."""

    def tokenize(self, text: str) -> list[str]: ...
    def span_tokenize(self, text: str) -> Iterable[tuple[int, int]]: ...


class _Cut(dict[str, list[str]]):
    """What a pattern makes of words. It looks at nothing beyond a space, and most words come again."""

    def __init__(self, pattern: Rules) -> None:
        self.pattern = pattern

    def __missing__(self, word: str) -> list[str]:
        tokens = self.pattern.tokenize(word)
        if len(word) <= MAX_REMEMBERED:
            if len(self) >= WORDS_REMEMBERED:
                self.clear()
            self[word] = tokens
        return tokens


@dataclass(frozen=True)
class Tokeniser:
    """`normalise` a text, then cut it where the pattern says."""

    name: str
    normalise: Callable[[str], str]
    pattern: Rules
    mends: bool = True  # texts are repaired before, for ensembles that have limits of a text

    def __reduce__(self) -> tuple[Callable[[str], Tokeniser], tuple[str]]:
        """By name: NLTK's class, loaded by itself (nltk_part.py), could not be found again."""
        return find_tokeniser, (self.name,)

    @cached_property
    def _cut(self) -> _Cut:
        return _Cut(self.pattern)

    def tokenise(self, text: str, limit: int | None = None) -> list[str]:
        """The tokens of `text`, at most `limit`."""
        if limit is not None:
            text = text[: CHARS_PER_TOKEN * limit]
        tokens: list[str] = []
        for _, piece in _pieces(self.normalise(text)):
            tokens += chain.from_iterable(map(self._cut.__getitem__, piece.split(" ")))
            if limit is not None and len(tokens) >= limit:
                break
        return tokens[:limit]

    def spans(self, normalised: str) -> list[tuple[int, int]]:
        """Where the tokens of a normalised text begin and end in it."""
        return [
            (start + first, start + last)
            for start, piece in _pieces(normalised)
            for first, last in self.pattern.span_tokenize(piece)
        ]

    def encode(self, text: str, limit: int | None = None, *, mend: bool = False, layout: bool = False) -> Tokens:
        """The document as the network will read it: never empty, and with `mend` without what is not the author's;
        `layout` says whether it reads that, too."""
        read, notes = self.repaired(text, limit) if mend else (text, {})
        tokens, share = self.tokenise(read, None if limit is None else limit + 1), 1.0
        if limit is not None and len(tokens) > limit:
            share = self._share_read(read, limit)
            of_all = share * min(1.0, CHARS_REPAIRED_PER_TOKEN * (limit + 1) / len(text))
            notes["cut"] = f"only its beginning was read: {limit:,} tokens, {of_all:.0%} of it"
        typed = NO_LAYOUT
        if layout:
            end = round(share * len(read))
            typed = layout_of(read[: end if limit is None else min(end, CHARS_PER_TOKEN * (limit + 1))])
        return Tokens.of(tokens[:limit] or [UNREADABLE], notes, typed)

    @staticmethod
    def repaired(text: str, limit: int | None = None) -> tuple[str, dict[str, str]]:
        """As much of a text as so many tokens can need, without what is not its author's, and notes on that."""
        return repair(text if limit is None else text[: CHARS_REPAIRED_PER_TOKEN * (limit + 1)])

    def _share_read(self, text: str, limit: int) -> float:
        """About how much of a text its first tokens are: as many characters as come before the last of them."""
        seen = CHARS_PER_TOKEN * (limit + 1)  # as in `encode`
        normalised = self.normalise(text[:seen])
        end = self.spans(normalised)[limit - 1][1]
        return end / max(1, len(normalised)) * min(1.0, seen / len(text))


DEFAULT = "pan21av-1"
PUBLISHED = "published"  # what the authors' program does to a text, and nothing else
SPACES = "spaces"  # for texts that are tokenised already: tokens separated by spaces
TOKENISERS = {
    DEFAULT: Tokeniser(DEFAULT, unify, _TOKENS),
    PUBLISHED: Tokeniser(PUBLISHED, published.normalise, published.EnglishRules(), mends=False),
    SPACES: Tokeniser(SPACES, single_spaced, _SPACED),
}


def find_tokeniser(name: str) -> Tokeniser:
    if name not in TOKENISERS:
        raise ValueError(f"unknown tokeniser {name!r}; this version knows {', '.join(TOKENISERS)}")
    if name == PUBLISHED:
        published.check_spacy()
    return TOKENISERS[name]


def encode_all(
    texts: Sequence[str], tokeniser: str = DEFAULT, limit: int | None = None, mend: bool = False, layout: bool = False
) -> list[Tokens]:
    """What a worker process does; named by strings and numbers, so that little travels and torch is not loaded."""
    return [find_tokeniser(tokeniser).encode(text, limit, mend=mend, layout=layout) for text in texts]


def encode_documents(
    documents: Sequence[Sequence[str]], tokeniser: str = DEFAULT, limit: int | None = None, mend: bool = False,
    layout: bool = False,
) -> list[list[Tokens]]:  # fmt: skip
    """The same for documents of one text or several; the limit is that of each text."""
    return [encode_all(texts, tokeniser, limit, mend, layout) for texts in documents]
