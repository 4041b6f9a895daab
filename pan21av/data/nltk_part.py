"""NLTK's RegexpTokenizer without the rest of NLTK.

`import nltk` loads all of it, and SciPy where that is installed: a tenth of every start, and most of that of a worker
that does nothing but tokenise. So the two packages on the way to the module are stood in for while it is loaded, and
whoever imports NLTK afterwards finds it untouched (another thread that does so meanwhile would not).
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

PACKAGES = ("nltk", "nltk.tokenize")
MODULE = "nltk.tokenize.regexp"


def regexp_tokenizer() -> Any:
    """The class; a program that has loaded NLTK already has it from there."""
    try:
        with _stand_ins():
            return importlib.import_module(MODULE).RegexpTokenizer
    except (ImportError, AttributeError):  # a version that needs more of itself
        return importlib.import_module(MODULE).RegexpTokenizer


@contextmanager
def _stand_ins() -> Iterator[None]:
    if PACKAGES[0] in sys.modules:
        yield
        return
    spec = importlib.util.find_spec(PACKAGES[0])  # loads nothing
    if spec is None or spec.submodule_search_locations is None:
        yield  # not installed: the import will say so
        return
    (place,) = list(spec.submodule_search_locations)[:1]
    try:
        for name in PACKAGES:
            module = ModuleType(name)
            module.__path__ = [place + "".join(f"/{part}" for part in name.split(".")[1:])]
            sys.modules[name] = module
        yield
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGES[0]]:
            del sys.modules[name]
