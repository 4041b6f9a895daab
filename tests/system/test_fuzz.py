"""Mutated input lines through the reader, odd texts through a small ensemble. `make fuzz` does 100 times more."""

import json
import os
import random

import numpy as np
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import LAX_LIMITS, write_random_ensemble

from pan21av.data.answers import format_answer
from pan21av.data.jsonlines import BOM, BadLine
from pan21av.data.trials import Trial, TrialFile, parse_trial
from pan21av.verifier import Verifier

SCALE = int(os.environ.get("PAN21AV_FUZZ", "1"))
fuzz = settings(
    max_examples=20 * SCALE, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip

SEEDS = [
    b'{"id": "a", "fandoms": ["x", "y"], "pair": ["First text, words.", "Second \\"text\\" \\u00e9\\ud83d\\ude00"]}',
    b'{"id": "b", "discourse_type": ["essay", "email"], "pair": ["\\ud800", "\\n\\t \\u0000"]}',
    '{"id": "ç", "pair": ["Ünïcödé — “quotes”", "日本語"], "n": [1.5e300, null, true]}'.encode(),
]
PIECES = [
    b"{", b"}", b"[", b"]", b'"', b",", b":", b"\\", b"\\u", b"\\ud800", b"\xff", b"\x00", b"\xef\xbb\xbf", b"\r",
    b"\n", b"null", b"NaN", b"1e999", b"-", b'"id"', b'"pair"', b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b" " * 50,
    b"[" * 300,
]  # fmt: skip


def mutated(rng: random.Random) -> bytes:
    data = bytearray(rng.choice(SEEDS))
    for _ in range(rng.randint(1, 6)):
        at, end = sorted(rng.randint(0, len(data)) for _ in range(2))
        kind = rng.randrange(5)
        if kind == 0:
            data[at:at] = rng.choice(PIECES)
        elif kind == 1:
            del data[at : min(end, at + 20)]
        elif kind == 2:
            data[at:at] = data[at:end]
        elif kind == 3 and data:
            data[min(at, len(data) - 1)] = rng.randrange(256)
        else:
            data[at:at] = rng.choice(SEEDS)[: rng.randint(1, 40)]
    return bytes(data)


@fuzz
@given(st.integers(0, 2**63))
def test_lines(tmp_path, seed):
    """100 mutated lines: each is a trial, or refused in words; the whole file is inspected the same way."""
    rng = random.Random(seed)
    lines = [mutated(rng) for _ in range(100)]
    for line in lines:
        try:
            trial = parse_trial(line)
        except BadLine:
            continue
        assert isinstance(trial.id, str)
        assert trial.texts is None or all(isinstance(t, str) and t.strip() for t in trial.texts)
        assert json.loads(format_answer(trial.id, 0.25)) == {"id": trial.id, "value": 0.25}
    # A whole line first: mutations could make a file look compressed.
    content = b"\n".join([rng.choice(SEEDS), *lines])
    path = tmp_path / "pairs.jsonl"
    path.write_bytes(rng.choice([b"", BOM]) + content)
    with TrialFile(str(path), tmp_path) as file:
        found = file.inspect()
        trials = list(file.read(found.skip))
        assert list(file.read(found.skip, first=5)) == trials[5:]
    assert found.trials + len(found.skip) == sum(bool(line.strip()) for line in content.split(b"\n"))
    assert len(trials) == found.trials == len({trial.id for trial in trials})
    assert sum(trial.texts is None for trial in trials) == found.unusable


# What repairs look for, in no order that makes sense
PAGES = [
    "<p>", "</p>", "<br/>", "<DIV class='x'>", "<a href=", "<!--", "-->", "<![", "]]>", "<!", "<?", "</", ">", "&#",
    "&amp", "<script>", "</script>", "<title>", "<nl>", "<new>", "<addr1_FN>", "the", " word ", "\n", "\n\n",
    "From: me\n", "Subject: you\n", " and so on\n", "Project Gutenberg", "Title: x\n",
    "*** START OF THE PROJECT GUTENBERG EBOOK X ***", "*** END OF THIS PROJECT GUTENBERG",
    "The same long line of words, again.\n",
]  # fmt: skip
ODD = st.one_of(
    st.text(min_size=1, max_size=300),
    st.text(st.characters(categories=["Cs", "Cc", "Co", "Cn", "Mn", "Zs", "Sk"]), min_size=1, max_size=200),
    st.text("'’\"“”`-–—_.…!?*~=0123456789nt sdmrevl", min_size=1, max_size=400),
    st.builds(lambda t, n: t * n, st.text(min_size=1, max_size=5), st.integers(1, 3000)),
    st.lists(st.sampled_from(PAGES), min_size=3, max_size=60).map("".join),
    st.lists(st.sampled_from(["the", "don't", "x" * 500, "\u202e", "<b>", "&amp;", "😀", "é", "\x00"]), min_size=1).map(
        " ".join
    ),
)


@pytest.fixture(scope="module")
def verifier(tmp_path_factory):
    folder = write_random_ensemble(tmp_path_factory.mktemp("models") / "lax", limits=LAX_LIMITS)
    return Verifier.load(folder, device="cpu", threads=1)


@fuzz
@given(st.lists(st.tuples(ODD, ODD), min_size=10, max_size=10))
def test_texts(verifier, pairs):
    verdicts = list(verifier.predict(pairs))
    assert len(verdicts) == len(pairs)
    exchanged = verifier.predict([(second, first) for first, second in pairs])
    for verdict, other in zip(verdicts, exchanged, strict=True):
        assert verdict.probability == other.probability
        assert verdict.scores is None or np.isfinite(verdict.scores).all()  # else the member would have abstained
        assert orjson.loads(format_answer("x", verdict.probability))["value"] == verdict.probability


def test_the_reader_keeps_what_is_valid():
    """The mutations would prove nothing if all of them were refused."""
    rng = random.Random(0)
    kept = 0
    for _ in range(300):
        try:
            kept += isinstance(parse_trial(mutated(rng)), Trial)
        except BadLine:
            continue
    assert 10 < kept < 290
