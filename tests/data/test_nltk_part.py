"""NLTK's tokeniser without the rest of it: the same class, and nothing left behind."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from pan21av.data import nltk_part
from pan21av.data.nltk_part import regexp_tokenizer


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_it_cuts_as_nltk_does():
    """Loaded by itself, in a process that has no NLTK yet."""
    code = (
        "from pan21av.data.nltk_part import regexp_tokenizer; ours = regexp_tokenizer(); import nltk; "
        'theirs = nltk.tokenize.RegexpTokenizer; text = "It\'s 3.14 -- or so, they say!"; '
        "patterns = [r'\\w+', r'\\S+', r'\\d+|[a-z]+']; "
        "print(ours is theirs, [ours(p).tokenize(text) == theirs(p).tokenize(text) and "
        "list(ours(p).span_tokenize(text)) == list(theirs(p).span_tokenize(text)) for p in patterns])"
    )
    assert run(code) == "False [True, True, True]"


def test_a_tokeniser_travels_by_its_name():
    code = "import pickle; from pan21av.data.tokeniser import TOKENISERS; "
    code += "print([pickle.loads(pickle.dumps(t)) is t for t in TOKENISERS.values()])"
    assert run(code) == "[True, True, True]"


def test_a_version_that_needs_more_of_itself(monkeypatch):
    """Then it is loaded as a whole."""
    asked = []

    def fails_once(name):
        asked.append(name)
        if len(asked) == 1:
            raise ImportError("cannot import name 'data' from 'nltk'")
        return SimpleNamespace(RegexpTokenizer="found")

    monkeypatch.setattr(nltk_part.importlib, "import_module", fails_once)
    assert regexp_tokenizer() == "found"
    assert asked == ["nltk.tokenize.regexp"] * 2


def test_nothing_else_is_loaded_and_nothing_stays():
    found = run(
        "import sys; from pan21av.data.tokeniser import TOKENISERS; "
        "print([m for m in sys.modules if m.split('.')[0] in ('nltk', 'scipy', 'sklearn', 'matplotlib', 'torch')])"
    )
    assert found == "[]"


@pytest.mark.parametrize("first", ["import nltk", "import pan21av.data.tokeniser"])
def test_nltk_itself_can_be_loaded_before_and_after(first):
    code = f"{first}; import pan21av.data.tokeniser; import nltk; import nltk.tokenize.regexp as r; "
    code += "print(nltk.tokenize.RegexpTokenizer is r.RegexpTokenizer, nltk.tokenize.word_tokenize.__module__)"
    assert run(code) == "True nltk.tokenize"
