"""How the authors' program reads a text: a dozen replacements, then spaCy's English rules; case is kept.

spaCy is loaded when the first text is read. It keeps every string it has met, so what it has learnt is thrown away from
time to time: the memory of a run does not grow with its texts.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ..errors import EnvironmentFault

MAX_WORD = 256  # characters between white space that spaCy gets at once: its time grows with their square
MAX_KNOWN = 100_000  # words remembered

_REPLACEMENTS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r'"', "'"),
        (r"''+", " ' ' "),
        (r"--+", " -- "),
        (r"\.\.+", " .. "),
        (r"!!+", " !! "),
        (r",,+", " ,, "),
        (r",'", ", '"),
        (r",~~+", " ~~ "),
        (r"(.)\1\1\1+", r"\1\1\1"),  # not of newlines
        # The sign comes first, and only then what is before it: so the search is two or three times as fast.
        (r"([!?\-:,])(?<=[a-zA-Z].)(?=[a-zA-Z])", r" \1 "),
        (r"([!?.\-:,()])(?<=[a-zA-Z].)", r" \1"),
        (r"([!?.\-:,()])(?=[a-zA-Z])", r"\1 "),
    ]
]
_WORD = re.compile(r"\S+")


def normalise(text: str) -> str:
    """The program's replacements, in its order."""
    for pattern, replacement in _REPLACEMENTS:
        text = pattern.sub(replacement, text)
    return text


def check_spacy() -> None:
    """EnvironmentFault if it is missing; it is not loaded."""
    if importlib.util.find_spec("spacy") is None:
        raise EnvironmentFault("the tokeniser \"published\" needs spaCy: pip install 'pan21av[published]'")


def _load_english() -> Callable[[str], Any]:
    """The tokeniser of a blank English pipeline: rules alone, no model."""
    # spaCy would load torch, where that is installed, for models that we do not use: seconds and memory of a worker.
    hidden = [name for name in ("torch", "cupy", "tensorflow", "mxnet") if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        from spacy.lang.en import English
    except ImportError:
        check_spacy()
        raise
    finally:
        for name in hidden:
            del sys.modules[name]
    tokenizer: Callable[[str], Any] = English().tokenizer
    return tokenizer


class EnglishRules:
    """spaCy's English rules, word by word: they never look across white space, and most words have been met before."""

    def __init__(self) -> None:
        self._known: dict[str, list[str]] = {}
        self._cut: Callable[[str], Any] | None = None

    def _tokens(self, word: str) -> list[str]:
        """Of what stands between white space: together they are the word."""
        found = self._known.get(word)
        if found is None:
            if self._cut is None or len(self._known) >= MAX_KNOWN:
                self._known, self._cut = {}, _load_english()
            parts = [word[at : at + MAX_WORD] for at in range(0, len(word), MAX_WORD)]
            found = self._known[word] = [token.text for part in parts for token in self._cut(part)]
        return found

    def tokenize(self, text: str) -> list[str]:
        return [token for word in text.split() for token in self._tokens(word)]

    def span_tokenize(self, text: str) -> Iterator[tuple[int, int]]:
        for word in _WORD.finditer(text):
            at = word.start()
            for token in self._tokens(word.group()):
                yield at, at + len(token)
                at += len(token)
