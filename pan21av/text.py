"""From raw text to tokens to windows.

The recipe has a name, stored with every ensemble: weights trained on one way of cutting text
must not meet another. Change what `tokenise` returns, and it needs a new name.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# NLTK would load SciPy, where that is installed, for statistics that we do not use: 1.3 s of every start.
_hidden = [name for name in ("scipy", "sklearn", "matplotlib") if name not in sys.modules]
sys.modules.update(dict.fromkeys(_hidden))  # type: ignore[arg-type]
try:
    from nltk.tokenize.regexp import RegexpTokenizer
finally:
    for _name in _hidden:
        del sys.modules[_name]

RECIPE = "pan21av-1"
# The authors' weights expect text that is tokenised already: tokens separated by spaces.
RECIPE_SPACES = "spaces"
RECIPES = (RECIPE, RECIPE_SPACES)

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
_DASHES = re.compile(r"-{2,}")
_DOTS = re.compile(r"\.(?: ?\.)+")
_REPEATED = re.compile(r"(\S)\1{3,}")  # "sooooo", "!!!!!!" -> three of it
_DOUBLED_QUOTE = re.compile(r"''")
# PAN's fan fiction lost its apostrophes to double quotes: don"t, she"ll.
_QUOTED_CONTRACTION = re.compile(r"(?i)(?<=[^\W\d_])\"(?=(?:t|s|m|d|re|ve|ll)\b)")

_TOKENS = RegexpTokenizer(
    r"(?i:[^\W\d_]+?(?=n't\b)|n't\b|'(?:s|m|d|re|ve|ll)\b)"  # did|n't, she|'ll, as in the Penn Treebank
    r"|[^\W\d_]+"  # letters of any script
    r"|\d+(?:[.,:]\d+)*"
    r"|\.\.\.|--"
    r"|!+|\?+|\*+|~+|=+"  # runs that carry tone or layout
    r"|\S"
)


def normalise(text: str) -> str:
    """Unify quotes, dashes and ellipses; shorten runs; leave single spaces."""
    text = unicodedata.normalize("NFKC", text.translate(_UNIFIED)).translate(_UNIFIED)
    text = _DOUBLED_QUOTE.sub('"', text)
    text = _QUOTED_CONTRACTION.sub("'", text)
    text = _DASHES.sub(" -- ", text)
    text = _DOTS.sub(" ... ", text)
    text = _REPEATED.sub(r"\1\1\1", text)
    return " ".join(text.split())


def tokenise(text: str, limit: int | None = None, recipe: str = RECIPE) -> list[str]:
    """The tokens of `text`, at most `limit`."""
    if recipe == RECIPE_SPACES:
        return text.split()[:limit]
    if limit is not None:
        # No text needs more than this; it keeps a 50 MB "text" from costing a minute.
        text = text[: 64 * limit]
    return _TOKENS.tokenize(normalise(text))[:limit]


def token_spans(text: str, recipe: str = RECIPE) -> list[tuple[int, int]]:
    """Where the tokens of a normalised text begin and end in it."""
    if recipe == RECIPE_SPACES:
        return [match.span() for match in re.finditer(r"\S+", text)]
    return list(_TOKENS.span_tokenize(text))


@dataclass(frozen=True)
class Tokens:
    """One document: its distinct tokens, and for every position which of them stands there."""

    types: list[str]
    ids: np.ndarray  # (positions) int32, into types

    @classmethod
    def of(cls, tokens: Sequence[str]) -> Tokens:
        index: dict[str, int] = {}
        ids = [index.setdefault(token, len(index)) for token in tokens]
        return cls(list(index), np.array(ids, dtype=np.int32))


def tokenise_all(texts: Sequence[str], limit: int | None = None, recipe: str = RECIPE) -> list[Tokens]:
    """What a worker process does; it lives here so that the worker need not load torch."""
    return [Tokens.of(tokenise(text, limit, recipe)) for text in texts]


def window_spans(tokens: int, size: int, hop: int, limit: int) -> list[tuple[int, int]]:
    """(start, length) of the overlapping windows over `tokens` tokens, at most `limit`.

    Every token up to the limit is covered. As in the published program a window begins at every
    hop, so the last may hold only tokens that the one before it holds as well.
    """
    return [(start, min(size, tokens - start)) for start in range(0, min(tokens, limit * hop), hop)]
