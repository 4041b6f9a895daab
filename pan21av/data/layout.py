"""Layout: how somebody types, apart from words.

What tokens no longer show is here: where lines and paragraphs end, which kinds of quotes, dashes and ellipses there
are, and on which sides of a sign there is a blank. A text becomes a sequence of symbols, in which all words are alike
but for capitals, and blanks stand only where they are unusual or beside a sign. Its n-grams of one to five symbols are
counted; network/ngram_part.py knows what their frequencies mean.

Here are the rules, and a plain implementation of them; counting.py has the fast one, in C.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import groupby

import numpy as np

from . import characters as chars
from .characters import BASIC, kind

WORDS = ("word", "Name", "CAPITALS", "number")
BREAKS = ("¶", "¶¶", "¶¶¶")  # ends of lines, so many together; the last stands for more, too
WIDE = "··"  # several blanks within a line, or a tab
BLANK = "·"  # on this side of a sign
SIGNS = (
    ".", ",", "!", "?", ":", ";", '"', "'", "“", "”", "‘", "’", "„", "«", "»", "`", "´", "-", "‐", "–", "—", "―", "…",
    "(", ")", "[", "]", "{", "}", "<", ">", "/", "\\", "|", "*", "_", "~", "#", "$", "£", "€", "%", "&", "+", "=", "@",
    "^", "•", "°", "©", "™", "§", "×", "−", "sign",
)  # fmt: skip
OTHER = len(SIGNS) - 1  # all that have no symbol of their own
FIRST_SIGN = len(WORDS) + len(BREAKS) + 1
SYMBOLS = (*WORDS, *BREAKS, WIDE, *(f"{a}{sign}{b}" for sign in SIGNS for a in ("", BLANK) for b in ("", BLANK)))
BITS = 8  # for each of SYMBOLS
NO_LAYOUT = np.zeros(0, dtype=np.uint8)  # the symbols of a text whose layout is not known
LENGTHS = (1, 2, 3, 4, 5)

# What a character is. A sign is SIGN + its number.
SILENT, SPACE, LINE_END, TAB, DIGIT, LOWER, UPPER, SIGN = range(8)
SPACES = "\u0020\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
LINE_ENDS = "\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"  # "\r\n" is one
INVISIBLE = "\0\u00ad\u200b\u200c\u200d\u2060\ufeff"
_SPECIAL = {
    **dict.fromkeys(SPACES, SPACE),
    **dict.fromkeys(LINE_ENDS, LINE_END),
    **dict.fromkeys(INVISIBLE, SILENT),
    "\t": TAB,
    **{sign: SIGN + number for number, sign in enumerate(SIGNS[:OTHER])},
}


def character(char: str) -> int:
    if char in _SPECIAL:
        return _SPECIAL[char]
    found = kind(char)
    if found & chars.DIGIT:
        return DIGIT
    if found & chars.ALPHA:
        return UPPER if found & chars.UPPER else LOWER
    return SIGN + OTHER


@cache
def characters() -> np.ndarray:
    """`character` of each (BASIC) uint8."""
    kinds = chars.kinds()
    found = np.full(BASIC, SIGN + OTHER, dtype=np.uint8)
    found[kinds & chars.ALPHA > 0] = LOWER
    found[kinds & (chars.ALPHA | chars.UPPER) == chars.ALPHA | chars.UPPER] = UPPER
    found[kinds & chars.DIGIT > 0] = DIGIT
    for char, special in _SPECIAL.items():
        found[ord(char)] = special
    return found


def layout(text: str) -> np.ndarray:
    """The symbols (n) uint8 of a text. White space at its ends says nothing."""
    every = [(char, character(char)) for char in text.replace("\r\n", "\n")]
    visible = [each for each in every if each[1] != SILENT]
    runs = [(group, list(run)) for group, run in groupby(visible, lambda each: _group(each[1]))]
    while runs and runs[-1][0] == SPACE:
        runs.pop()
    found: list[int] = []
    for at, (group, run) in enumerate(runs):
        if group == SPACE and found:
            found += _gap([what for _, what in run])
        elif group == DIGIT:
            found.append(WORDS.index("number"))
        elif group == LOWER:
            found.append(WORDS.index(_word([what for _, what in run])))
        elif group == SIGN:
            blanks = [side in (-1, len(runs)) or runs[side][0] == SPACE for side in (at - 1, at + 1)]
            for n, (_, what) in enumerate(run):
                before, after = blanks[0] and n == 0, blanks[1] and n == len(run) - 1
                found.append(FIRST_SIGN + 4 * (what - SIGN) + 2 * before + after)
    return np.array(found, dtype=np.uint8)


def _group(what: int) -> int:
    """Characters of one group make a run."""
    if what >= SIGN:
        return SIGN
    return {LINE_END: SPACE, TAB: SPACE, UPPER: LOWER}.get(what, what)


def _gap(run: Sequence[int]) -> list[int]:
    ends = run.count(LINE_END)
    if ends:
        return [len(WORDS) + min(ends, len(BREAKS)) - 1]
    return [FIRST_SIGN - 1] if len(run) > 1 or run[0] == TAB else []


def _word(run: Sequence[int]) -> str:
    if len(run) > 1 and LOWER not in run:
        return "CAPITALS"
    return "Name" if run[0] == UPPER else "word"


def gram_number(gram: str) -> int:
    """An n-gram as a number: its symbols, the last one lowest, and above all places its length."""
    symbols = gram.split(" ")
    number = 0
    for symbol in symbols:
        number = number << BITS | SYMBOL_NUMBERS[symbol]
    return len(symbols) << BITS * LENGTHS[-1] | number


def gram_of(number: int) -> str:
    """What gram_number made a number of."""
    length = number >> BITS * LENGTHS[-1]
    return " ".join(SYMBOLS[number >> BITS * at & (1 << BITS) - 1] for at in reversed(range(length)))


def is_gram(gram: str) -> bool:
    symbols = gram.split(" ")
    return len(symbols) in LENGTHS and all(symbol in SYMBOL_NUMBERS for symbol in symbols)


SYMBOL_NUMBERS = {symbol: number for number, symbol in enumerate(SYMBOLS)}


def gram_numbers(symbols: np.ndarray, bits: int = BITS, lengths: Sequence[int] = LENGTHS) -> np.ndarray:
    """All n-grams of a text's symbols (n), as numbers int64: gram_number, for symbols of any size."""
    found = []
    for length in lengths:
        joined = np.zeros(max(0, len(symbols) - length + 1), dtype=np.int64)
        for at in range(length):
            joined = joined << bits | symbols[at : at + len(joined)]
        found.append(joined | length << bits * lengths[-1])
    return np.concatenate(found)


def count(symbols: np.ndarray, pool: Sequence[str]) -> np.ndarray:
    """Relative frequencies (pool) float32 of n-grams in a text's symbols, over the number of symbols."""
    numbers, counts = np.unique(gram_numbers(symbols), return_counts=True)
    index = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
    found = np.array([index.get(gram_number(gram), 0) for gram in pool], dtype=np.float32)
    return found / max(1, len(symbols))
