"""What a character is, as far as n-grams and layout care."""

from __future__ import annotations

from functools import cache

import numpy as np

ALPHA, DIGIT, UPPER = 1, 2, 4
BASIC = 0x10000  # characters beyond are neither letters nor digits here: an n-gram has 16 bits for each


def kind(char: str) -> int:
    if ord(char) >= BASIC:
        return 0
    return ALPHA * char.isalpha() | DIGIT * char.isdigit() | UPPER * char.isupper()


@cache
def kinds() -> np.ndarray:
    """`kind` of every character (BASIC) uint8; a call for each would be a tenth of a second of a start."""
    chars = np.arange(BASIC, dtype=np.uint32).view("U1")
    found = ALPHA * np.char.isalpha(chars) | DIGIT * np.char.isdigit(chars) | UPPER * np.char.isupper(chars)
    return found.astype(np.uint8)
