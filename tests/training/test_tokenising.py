"""Tokenising resumes: killed at any moment and started again, preparation leaves the same bytes."""

import json
import multiprocessing
import os
import random
import signal
from pathlib import Path

import generated_corpus
import numpy as np
import pytest

from pan21av.data.layout import layout
from pan21av.errors import InputError
from pan21av.training import tokenising
from pan21av.training.corpus import Document
from pan21av.training.prepare import prepare
from pan21av.training.tokenising import JOURNAL, LAYOUT, TOKENS, Tokenised, tokenise


@pytest.fixture(autouse=True)
def in_place(monkeypatch):
    """In this process, which is forked and killed, and with an entry in the journal for every 16 documents."""
    monkeypatch.setattr(tokenising, "ordered_map", lambda f, jobs, pool, ahead: ((i, f(a)) for i, a in jobs))
    monkeypatch.setattr(tokenising, "TASKS_PER_ENTRY", 1)


def documents(count=100):
    docs = generated_corpus.documents(count // 4, each=4, topics=8, sentences=4)
    return [
        Document(d["author"], d["topic"], "w" if n % 9 == 0 else "", "ab"[n % 2], d["text"]) for n, d in enumerate(docs)
    ]


def run(folder, docs, corpus="this one", min_tokens=5, layout=True):
    return tokenise(
        iter(docs), folder, corpus=corpus, tokeniser="pan21av-1", layout=layout, min_tokens=min_tokens, workers=1
    )


def contents(found, folder):
    return (
        (folder / TOKENS).read_bytes(), (folder / LAYOUT).read_bytes(), list(found.types), list(found.authors),
        list(found.topics), list(found.works), list(found.sources), found.labels, found.offsets, found.layout_offsets,
        found.read,
    )  # fmt: skip


def stop_after(docs, count):
    yield from docs[:count]
    raise KeyboardInterrupt


@pytest.mark.parametrize("read", [0, 5, 16, 50, 99])
def test_what_was_read_is_not_read_again(tmp_path, monkeypatch, read):
    docs = documents()
    docs[3] = Document("x", "t", "", "a", "short")
    docs[20] = Document("y", "t", "", "a", "a lone \ud800 surrogate is in this text, which is long enough")
    expected = contents(run(tmp_path / "whole", docs), tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "part", stop_after(docs, read))
    tokenised = []
    encode = tokenising.encode_all
    monkeypatch.setattr(tokenising, "encode_all", lambda texts, **how: tokenised.extend(texts) or encode(texts, **how))
    assert contents(run(tmp_path / "part", docs), tmp_path / "part") == expected
    assert tokenised == [document.text for document in docs[read // 16 * 16 :]], "only the last entry's worth again"
    assert json.loads((tmp_path / "part" / JOURNAL).read_bytes().splitlines()[-1])["read"] == len(docs)


@pytest.mark.parametrize("damage", ["torn line", "no line end", "files beyond", "all of it"])
def test_what_was_half_written_is_cut_off(tmp_path, damage):
    docs = documents(60)
    expected = contents(run(tmp_path / "whole", docs), tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "part", stop_after(docs, 40))
    journal = tmp_path / "part" / JOURNAL
    if damage == "torn line":
        journal.write_bytes(journal.read_bytes()[:-50])
    elif damage == "no line end":
        journal.write_bytes(journal.read_bytes()[:-1])
    elif damage == "all of it":
        journal.write_bytes(b"\0" * 100)
    for name in (TOKENS, LAYOUT):
        with (tmp_path / "part" / name).open("ab") as out:
            out.write(b"\1\2\3")
    assert contents(run(tmp_path / "part", docs), tmp_path / "part") == expected


def test_of_another_corpus_nothing_is_taken(tmp_path):
    docs = documents(60)
    run(tmp_path / "part", docs[::-1], corpus="another")
    (tmp_path / "part" / "vectors.npy").write_bytes(b"of another")
    found = contents(run(tmp_path / "part", docs), tmp_path / "part")
    assert found == contents(run(tmp_path / "whole", docs), tmp_path / "whole")
    assert {path.name for path in (tmp_path / "part").iterdir()} == {JOURNAL, TOKENS, LAYOUT}


def test_layout_is_that_of_the_texts(tmp_path):
    """As they are typed, whatever the tokeniser makes of them; those that are too short leave nothing."""
    texts = [
        "One  two,\n\nthree four five!",
        "Too short.",
        "\tone — “two” … three's\nfour\tfive",
        "six seven 8 NINE ten",
    ]
    found = run(tmp_path / "part", [Document("a", "t", "", "", text) for text in texts])
    symbols = (tmp_path / "part" / LAYOUT).read_bytes()
    assert len(found.layout_offsets) == len(found.offsets) == 1 + 3
    for text, first, last in zip(texts[:1] + texts[2:], found.layout_offsets, found.layout_offsets[1:], strict=False):
        assert symbols[first:last] == layout(text).tobytes()
    assert len(symbols) == found.layout_offsets[-1]


def test_where_layout_is_not_read_none_is_kept(tmp_path):
    docs = documents(20)
    found, whole = run(tmp_path / "without", docs, layout=False), run(tmp_path / "with", docs)
    assert (tmp_path / "without" / LAYOUT).read_bytes() == b""
    assert found.layout_offsets == [0] * (1 + len(docs))
    assert whole.layout_offsets[-1] > 0
    assert (tmp_path / "without" / TOKENS).read_bytes() == (tmp_path / "with" / TOKENS).read_bytes()


def test_documents_that_are_too_short_leave_all_sets(tmp_path):
    texts = ["word " * 99, "word " * 100, "word " * 101]
    found = run(tmp_path / "part", [Document("a", "t", "", "", text) for text in texts], min_tokens=100)
    assert np.diff(found.offsets).tolist() == [100, 101]
    with pytest.raises(InputError, match="no document has 200 tokens or more"):
        run(tmp_path / "none", [Document("a", "t", "", "", text) for text in texts], min_tokens=200)


# ---- killed ----

FILES = (
    "tokens.i32", "layout.u8", "documents.npz", "vocab.json", "type_words.npy", "type_chars.npy", "types.txt",
    "manifest.json",
)  # fmt: skip


def killed(monkeypatch, moment, work):
    """Run `work` in a forked process that is killed at its so many-th moment; whether it was killed."""

    def counting(function):
        def wrapped(*args, **options):
            nonlocal moment
            moment -= 1
            if moment == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **options)

        return wrapped

    def child():
        # Before a document is taken, before any of the files is on disk, before every later file, before each renaming.
        monkeypatch.setattr(Tokenised, "add", counting(Tokenised.add))
        monkeypatch.setattr(os, "fsync", counting(os.fsync))
        for name in ("save", "savez"):
            monkeypatch.setattr(np, name, counting(getattr(np, name)))
        for name in ("write_bytes", "rename", "unlink"):
            monkeypatch.setattr(Path, name, counting(getattr(Path, name)))
        work()

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return process.exitcode != 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_killed_at_random_moments_it_ends_with_the_same_bytes(corpus, tmp_path, monkeypatch, seed):
    """Again and again, until a run comes through."""

    def work():
        prepare([corpus.file], tmp_path / "out", corpus.settings, vectors=corpus.vectors, workers=1)

    rng, kills = random.Random(seed), 0
    while killed(monkeypatch, rng.choice([rng.randrange(1, 250), rng.randrange(1, 30), rng.randrange(1, 12)]), work):
        kills += 1
        assert kills < 100
    assert kills
    for name in FILES:
        assert (tmp_path / "out" / name).read_bytes() == (corpus.prepared.folder / name).read_bytes(), name
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "vectors.npy"), corpus.prepared.vectors)
    assert not (tmp_path / "out" / JOURNAL).exists()
