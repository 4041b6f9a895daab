"""NLTK's tokeniser without the rest of it: the same class, and nothing left behind."""

import subprocess
import sys

import pytest

from pan21av.data.nltk_part import regexp_tokenizer


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_it_cuts_as_nltk_does():
    nltk = pytest.importorskip("nltk")
    text = "It's 3.14 -- or so, they say!"
    for pattern in (r"\w+", r"\S+", r"\d+|[a-z]+"):
        ours, theirs = regexp_tokenizer()(pattern), nltk.tokenize.RegexpTokenizer(pattern)
        assert ours.tokenize(text) == theirs.tokenize(text)
        assert list(ours.span_tokenize(text)) == list(theirs.span_tokenize(text))


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
