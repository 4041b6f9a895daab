"""From texts to token ids on disk, once: what is kept, what is reused, and what a batch of it holds."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import generate
import generated_corpus
import numpy as np
import pytest

from pan21av.data.layout import layout
from pan21av.data.tokeniser import DEFAULT, find_tokeniser
from pan21av.data.vocabulary import PAD, UNKNOWN, Vocabulary
from pan21av.errors import InputError
from pan21av.training import tokenising
from pan21av.training.corpus import read_corpus
from pan21av.training.prepare import prepare
from pan21av.training.prepared import CALIBRATE, TRAIN, VALIDATE, Prepared, Span
from pan21av.training.published_drawing import PUBLISHED
from pan21av.training.settings import load_settings
from pan21av.training.word_vectors import read_vectors


@pytest.fixture
def in_place(monkeypatch):
    """Tokenise in this process: no seconds lost on starting others."""
    monkeypatch.setattr(tokenising, "ordered_map", lambda f, jobs, pool, ahead: ((i, f(a)) for i, a in jobs))


# ---- what is there ----


def test_tokens_are_those_of_the_documents(corpus):
    made = corpus.prepared
    assert len(made.split) == len(corpus.documents) - 1  # without the short one
    assert made.sources == ["a", "b"]
    tokeniser = find_tokeniser(DEFAULT)
    for number in (0, 100, 239):
        tokens = tokeniser.tokenise(corpus.documents[number]["text"])
        words, chars = made.vocabulary.ids(tokens, made.model.chars_per_token)
        types = made.tokens[made.offsets[number] : made.offsets[number + 1]]
        np.testing.assert_array_equal(made.type_words[types], words)
        np.testing.assert_array_equal(made.type_chars[types], chars)
        assert made.length(number) == len(tokens)


def test_catalogue_and_splits(corpus):
    made, docs = corpus.prepared, corpus.documents[:-1]
    catalogue = made.catalogue
    for column, key in ((catalogue.author, "author"), (catalogue.topic, "topic"), (catalogue.source, "source")):
        names = [d[key] for d in docs]
        assert len(set(zip(column.tolist(), names, strict=True))) == len(set(names)) == len(set(column.tolist()))
    assert set(catalogue.work.tolist()) == {-1}
    splits = [made.documents(split) for split in (TRAIN, CALIBRATE, VALIDATE)]
    assert sorted(np.concatenate(splits).tolist()) == list(range(len(docs)))
    authors = [set(catalogue.author[documents]) for documents in splits]
    assert all(authors)
    assert len(set.union(*authors)) == sum(map(len, authors)), "an author is in two of them"
    assert set(made.validation.flatten()) <= set(splits[2])
    assert set(made.development.flatten()) <= set(splits[1]) | set(splits[2])
    table = made.table["validation"]
    assert table["documents"] == len(splits[2])
    assert sum(table[kind] for kind in ("SA_SF", "SA_DF", "DA_SF", "DA_DF")) == len(made.validation)


def test_batches_hold_the_documents_asked_for(corpus):
    made = corpus.prepared
    batch = made.batch([Span(3, 10, 40), Span(7, 0, 10_000)], made.model)
    read = batch.words[batch.windows.ids.long()].numpy()
    start = made.offsets[3] + 10
    np.testing.assert_array_equal(read[:40], made.type_words[made.tokens[start : start + 40]])
    end = made.offsets[7] + made.tokens_read()[7]
    np.testing.assert_array_equal(read[40:], made.type_words[made.tokens[made.offsets[7] : end]])
    assert len(batch.documents) == 2
    assert batch.tokens.tolist() == [40, made.tokens_read()[7]]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no list of what is mapped")
def test_tokens_that_were_read_take_no_memory(corpus):
    """Mapped pages would count as a member's."""
    made = Prepared.load(corpus.prepared.folder, corpus.settings.model)
    made.batch([Span(d, 0, 10_000) for d in range(20)], made.model)
    mapped = Path("/proc/self/maps").read_text()
    assert str(made.folder / "type_chars.npy") in mapped, "those are looked up at random"
    for name in ("tokens.i32", "layout.u8"):
        assert str(made.folder / name) not in mapped


def test_a_span_ends_with_its_document_or_with_what_is_read(corpus):
    made, limit = corpus.prepared, corpus.prepared.model.max_tokens
    lengths = np.diff(made.offsets)
    assert lengths.min() < limit < lengths.max(), "the corpus has both kinds"
    short, long = int(lengths.argmin()), int(lengths.argmax())

    def expected(document, first, last):
        return made.tokens[made.offsets[document] : made.offsets[document + 1]][first:last]

    for span, last in (
        (Span(short, 0, 10_000), lengths[short]),
        (Span(short, 7, 5), 12),
        (Span(short, lengths[short] - 3, 50), lengths[short]),
        (Span(long, 0, 10_000), limit),
        (Span(long, 2, 10_000), min(2 + limit, lengths[long])),
        (Span(long, lengths[long] - 4, 10_000), lengths[long]),
    ):
        np.testing.assert_array_equal(made.tokens_of(span), expected(span.document, span.first, last))
    np.testing.assert_array_equal(made.tokens_read(), [min(int(n), limit) for n in lengths])


def test_layout_of_a_span_is_as_large_a_part_as_its_tokens(corpus, tmp_path):
    """By hand: documents of 10, 300, 10 and 5 tokens, and of 20, 100, 3 and no symbols, which are numbered here."""
    (tmp_path / "layout.u8").write_bytes(bytes([*range(20), *range(100), *range(3)]))
    offsets, layout_offsets = np.array([0, 10, 310, 320, 325]), np.array([0, 20, 120, 123, 123])
    made = replace(corpus.prepared, folder=tmp_path, offsets=offsets, layout_offsets=layout_offsets)
    limit = made.model.max_tokens
    assert 150 < limit < 200
    for span, first, last in (
        (Span(0, 0, 10), 0, 20),
        (Span(0, 0, 10_000), 0, 20),
        (Span(0, 2, 3), 4, 10),
        (Span(0, 9, 5), 18, 20),
        (Span(1, 0, 150), 0, 50),
        (Span(1, 0, 10_000), 0, limit // 3),
        (Span(1, 3, 10_000), 1, (limit + 3) // 3),
        (Span(1, 270, 10_000), 90, 100),
        (Span(2, 0, 3), 0, 0),
        (Span(2, 3, 4), 0, 2),
        (Span(2, 7, 3), 2, 3),
        (Span(3, 0, 5), 0, 0),
    ):
        assert made.layout_of(span).tolist() == list(range(first, last)), span


def test_layout_is_that_of_the_documents(corpus):
    made = corpus.prepared
    symbols = (made.folder / "layout.u8").read_bytes()
    assert len(symbols) == made.layout_offsets[-1]
    for number in (0, 100, 239):
        first, last = made.layout_offsets[number : number + 2]
        assert symbols[first:last] == layout(corpus.documents[number]["text"]).tobytes()


def test_without_a_layout_part_no_layout_is_kept(corpus, in_place, tmp_path):
    """And all else is as it was."""
    settings = corpus.settings.updated({"model": {"layout_dim": 0}})
    made = prepare([corpus.file], tmp_path / "out", settings, vectors=corpus.vectors, workers=1)
    assert (made.folder / "layout.u8").read_bytes() == b""
    assert not made.layout_offsets.any()
    pool = corpus.prepared.vocabulary.ngrams
    assert pool.layout
    assert made.vocabulary.ngrams == replace(pool, layout=())
    for file in ("tokens.i32", "type_words.npy", "type_chars.npy", "types.txt"):
        assert (made.folder / file).read_bytes() == (corpus.prepared.folder / file).read_bytes(), file
    spans = [Span(3, 10, 40), Span(7, 0, 10_000)]
    mine, theirs = (each.batch(spans, each.model).ngrams for each in (made, corpus.prepared))
    np.testing.assert_array_equal(mine, theirs[:, : pool.views["layout"].start])


def test_ngrams_are_of_what_is_read(corpus):
    """A document beyond the limit counts as far as it is read, a crop by itself; by the plain rules of data/ngrams."""
    made, limit = corpus.prepared, corpus.prepared.model.max_tokens
    lengths = np.diff(made.offsets)
    spans = [Span(int(lengths.argmin()), 0, limit), Span(int(lengths.argmax()), 0, 10_000), Span(5, 11, 40)]
    batch = made.batch(spans, made.model)
    tokeniser, pool = find_tokeniser(DEFAULT), made.vocabulary.ngrams
    assert batch.ngrams.shape == (3, len(pool))
    for row, tokens, span in zip(batch.ngrams.numpy(), batch.tokens.tolist(), spans, strict=True):
        text = corpus.documents[span.document]["text"]
        every, symbols = tokeniser.tokenise(text), layout(text)
        read = every[span.first :][: min(span.tokens, limit)]
        assert tokens == len(read)
        first, last = (place * len(symbols) // len(every) for place in (span.first, span.first + len(read)))
        np.testing.assert_allclose(row, pool.count(read, symbols[first:last]), atol=1e-7)
        assert row.any()
        assert row[pool.views["layout"]].any()
    counted, lengths = made.count_ngrams(spans)
    np.testing.assert_array_equal(counted, batch.ngrams)
    np.testing.assert_array_equal(lengths, batch.tokens)
    assert made.batch(spans, replace(made.model, ngram_dim=0, layout_dim=0)).ngrams is None


def test_types_are_written_as_they_are(corpus):
    made = corpus.prepared
    tokens = find_tokeniser(DEFAULT).tokenise(corpus.documents[17]["text"])
    assert [made.types[t] for t in made.tokens[made.offsets[17] : made.offsets[18]]] == tokens
    assert len(made.types) == len(set(made.types)) == len(made.type_words)


def test_what_a_member_of_some_sources_sees(corpus):
    """Training documents of the others are left out; what it is judged by is not."""
    made = corpus.prepared
    mine = made.for_sources([1])
    assert mine.known.tolist() == [False, True]
    assert made.known.tolist() == [True, True]
    source = made.catalogue.source
    np.testing.assert_array_equal(mine.documents(TRAIN), [d for d in made.documents(TRAIN) if source[d] == 1])
    for split in (CALIBRATE, VALIDATE):
        np.testing.assert_array_equal(mine.documents(split), made.documents(split))
    np.testing.assert_array_equal(mine.full_split, made.split)
    everything = made.for_sources((0, 1))
    np.testing.assert_array_equal(everything.split, made.split)
    assert everything.known.all()


# ---- the vocabulary ----


def test_nothing_is_known_of_documents_that_a_member_is_judged_by(corpus, in_place, tmp_path):
    """Every document has a word, a character and a run of signs of its own: the vocabulary has those of the training
    texts alone, and so have the n-grams."""
    docs = generated_corpus.documents(40, each=4, topics=8, sentences=12)
    own = [chr(0x4E00 + number) for number in range(len(docs))]
    signs = ["".join(run) for run in product("#%&+=@", repeat=3)]
    for document, char, run in zip(docs, own, signs, strict=False):
        document["text"] += f" {run} {char} {char} {char}"
    generated_corpus.write(tmp_path / "documents.jsonl", docs)
    settings = corpus.settings.updated({"data": {"words": 5000, "chars": 5000}})
    made = prepare([tmp_path / "documents.jsonl"], tmp_path / "out", settings, workers=1)
    training = {own[number] for number in made.documents(TRAIN)}
    assert 0 < len(training) < len(own)
    vocabulary = made.vocabulary
    for known in (vocabulary.words, vocabulary.chars, vocabulary.ngrams.words):
        assert set(known) & set(own) == training
    grams = {gram for gram in vocabulary.ngrams.letters if set(gram) & set(own)}
    assert grams == {gram for char in training for gram in (f"_{char}", f"{char}_", f"_{char}_")}
    runs = {gram.replace("·", "").replace(" ", "") for gram in vocabulary.ngrams.layout if gram.count(" ") == 2}
    assert runs & set(signs) == {signs[number] for number in made.documents(TRAIN)}
    # They are read as unknown, not left out.
    ours = int(made.documents(VALIDATE)[0])
    types = made.tokens[made.offsets[ours] : made.offsets[ours + 1]][-3:]
    assert [made.types[t] for t in types] == [own[ours]] * 3
    assert made.type_words[types].tolist() == [UNKNOWN] * 3


def test_words_are_the_commonest_of_the_training_texts(corpus):
    made, tokeniser = corpus.prepared, find_tokeniser(DEFAULT)
    counts = Counter()
    for number in made.documents(TRAIN):
        counts.update(token.lower() for token in tokeniser.tokenise(corpus.documents[number]["text"]))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    assert len(ranked) > 200
    assert list(made.vocabulary.words) == ranked[:200]


# ---- as in the paper ----


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A generated corpus in PAN's format, prepared by the preset's settings."""
    folder = tmp_path_factory.mktemp("published")
    generate.write(folder / "pan", 300, authors=40, topics=24, characters=700)
    vectors = folder / "vectors.txt"
    vectors.write_text("the 1 2\nThe 3 4\n")
    settings = load_settings("paper", None, ["model.word_dim=2"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenising, "ordered_map", lambda f, jobs, pool, ahead: ((i, f(a)) for i, a in jobs))
        made = prepare([folder / "pan"], folder / "out", settings, vectors=vectors, workers=1)
    return made, folder / "pan"


def test_texts_are_read_as_published(published):
    """The tokeniser of the settings, case kept; 5,000 types and 300 characters of the training documents by rank."""
    made, folder = published
    tokeniser = find_tokeniser("published")
    texts = list(dict.fromkeys(document.text for document in read_corpus([folder])))
    read = [tokens for text in texts if len(tokens := tokeniser.tokenise(text)) >= 100]
    assert len(read) == len(made.split) > 500
    counts, chars = Counter(), Counter()
    for number, tokens in enumerate(read):
        assert [made.types[t] for t in made.tokens[made.offsets[number] : made.offsets[number + 1]]] == tokens
        if made.split[number] == TRAIN:
            counts.update(tokens)
            chars.update("".join(tokens))
    assert list(made.vocabulary.words) == sorted(counts, key=lambda word: (-counts[word], word))[:5000]
    assert list(made.vocabulary.chars) == sorted(chars, key=lambda char: (-chars[char], char))[:300]
    assert {"the", "Then", "then"} <= set(made.vocabulary.words)
    assert made.vocabulary.word_id("THEN") == UNKNOWN


def test_pairs_are_drawn_as_published(published):
    """Stored with the corpus, those of calibration too; training and calibration draw by the same rule anew."""
    made, _ = published
    assert made.drawing == "published"
    for pairs in (made.validation, made.development):
        kinds = made.catalogue.count_kinds(pairs)
        assert kinds["SA_SF"] == kinds["DA_DF"] == 0
        assert 0 < kinds["DA_SF"] <= 1.35 * kinds["SA_DF"]
    assert len(set(made.catalogue.count_kinds(made.calibration).values())) == 1
    assert set(made.calibration.flatten()) <= set(made.documents(CALIBRATE))
    for purpose, split in (("training", TRAIN), ("calibration", CALIBRATE)):
        documents = made.documents(split)
        expected = PUBLISHED[purpose].draw(made.catalogue, documents, np.random.default_rng(1))
        np.testing.assert_array_equal(made.draw(purpose, documents, np.random.default_rng(1)), expected)


def test_word_vectors_stay_as_they_are(published):
    made, _ = published
    np.testing.assert_array_equal(made.vectors[made.vocabulary.word_id("the")], [1, 2])


def test_other_corpora_have_no_such_pairs(corpus):
    assert corpus.prepared.calibration is None
    assert corpus.prepared.drawing == "balanced"


# ---- reuse ----


def files_of(folder):
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.iterdir()}


def test_prepared_once(corpus, in_place, tmp_path):
    """The same files and settings: nothing is done again. What members do with them is another matter."""
    one = prepare([corpus.file], tmp_path / "out", corpus.settings, workers=1)
    before = files_of(tmp_path / "out")
    reused = corpus.settings.updated(
        {
            "heads": {"lr": 0.5},
            "pairs": {"epochs": 9},
            "data": {"development_pairs": 3, "source_share": 0.5},
            "model": {"encoder_dim": 10, "ngram_dim": 7, "layout_dim": 5, "max_windows": 10},
            "ngrams": {"words": 11, "letters": 13, "layout": 9},
        }
    )
    for settings in (corpus.settings, reused):
        again = prepare([corpus.file], tmp_path / "out", settings, workers=1)
        assert files_of(tmp_path / "out") == before
        assert again.fingerprint == one.fingerprint
        assert again.model == settings.model
        np.testing.assert_array_equal(again.tokens, one.tokens)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("section", "change"),
    [
        ("data", {"words": 100}),
        ("data", {"train_share": 0.5}),
        ("data", {"min_tokens": 120}),
        ("data", {"tokeniser": "spaces"}),
        ("data", {"unique_texts": True}),
        ("data", {"vector_spread": 0.5}),
        ("model", {"chars_per_token": 9}),
        ("model", {"ngram_dim": 0, "layout_dim": 0}),  # then there is no pool
        ("model", {"layout_dim": 0}),  # then it has no layout
        ("ngrams", {"anchors": 5}),
        ("ngrams", {"pool_letters": 50}),
        ("ngrams", {"pool_layout": 50}),
        ("seed", 2),
        ("vectors", None),
        ("file", None),
    ],
)
def test_prepared_anew(corpus, in_place, tmp_path, section, change):
    """Another setting that preparation depends on, or another content of a file of the same name."""
    file = tmp_path / "documents.jsonl"
    lines = corpus.file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[8:] if section == "file" else lines))
    shutil.copytree(corpus.prepared.folder, tmp_path / "out")
    before = files_of(tmp_path / "out")
    settings = corpus.settings.updated({section: change}) if section in ("data", "model", "ngrams") else corpus.settings
    vectors, seed = None if section == "vectors" else corpus.vectors, change if section == "seed" else 1
    made = prepare([file], tmp_path / "out", settings, vectors=vectors, seed=seed, workers=1)
    assert made.fingerprint != corpus.prepared.fingerprint
    after = files_of(tmp_path / "out")
    assert not any(after[name] == before[name] for name in after)
    assert (len(made.split) < len(corpus.prepared.split)) == (section == "file" or change == {"min_tokens": 120})


def test_what_a_killed_preparation_left_is_not_taken_for_whole(corpus, in_place, tmp_path):
    (tmp_path / "out.part").mkdir()
    (tmp_path / "out.part" / "tokens.i32").write_bytes(b"\1\2\3\4" * 99)
    made = prepare([corpus.file], tmp_path / "out", corpus.settings, workers=1)
    np.testing.assert_array_equal(made.tokens, corpus.prepared.tokens)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_worker_processes_make_no_difference(corpus, in_place, tmp_path):
    """`corpus` was tokenised by a process of its own, this one is not."""
    made = prepare([corpus.file], tmp_path / "out", corpus.settings, vectors=corpus.vectors, workers=1)
    assert made.fingerprint == corpus.prepared.fingerprint
    for file in (
        "tokens.i32", "layout.u8", "vocab.json", "type_words.npy", "type_chars.npy", "types.txt", "manifest.json",
    ):  # fmt: skip
        assert (made.folder / file).read_bytes() == (corpus.prepared.folder / file).read_bytes(), file
    assert isinstance(made, Prepared)


# ---- refusals ----


def test_corpora_that_are_refused(corpus, in_place, tmp_path):
    settings = corpus.settings
    with pytest.raises(InputError, match=r"nothing\.jsonl does not exist"):
        prepare([tmp_path / "nothing.jsonl"], tmp_path / "out", settings, workers=1)
    with pytest.raises(InputError, match="no document has 5000 tokens or more"):
        prepare([corpus.file], tmp_path / "out", settings.updated({"data": {"min_tokens": 5000}}), workers=1)
    few = tmp_path / "few.jsonl"
    generated_corpus.write(few, generated_corpus.documents(3, each=2, topics=2, sentences=12))
    with pytest.raises(InputError, match=r"3 of 3 in all, which leaves 2 for training, .* 4 pairs") as caught:
        prepare([few], tmp_path / "out", settings, workers=1)
    assert "--split authors" not in str(caught.value)
    by_topics = settings.updated({"data": {"split": "topics"}})
    with pytest.raises(InputError, match="where topics are few, --split authors loses less"):
        prepare([few], tmp_path / "out", by_topics, workers=1)
    # The published rule spends nine of ten turns on same-author pairs, which leaves hardly any others of so few.
    with pytest.raises(InputError, match=r"a small corpus has more pairs with data\.drawing=balanced"):
        prepare([corpus.file], tmp_path / "out", settings.updated({"data": {"drawing": "published"}}), workers=1)
    assert not (tmp_path / "out").exists()


# ---- word vectors ----


def test_word_vectors_are_scaled_and_the_rest_begins_at_random(corpus):
    made = corpus.prepared
    row = made.vocabulary.word_id("the")
    assert np.corrcoef(made.vectors[row], np.arange(7))[0, 1] == pytest.approx(1)
    assert made.vectors[row].std() == pytest.approx(corpus.settings.data.vector_spread) == pytest.approx(0.3)
    assert np.isnan(np.delete(made.vectors, row, 0)).all()


def test_word_vectors_of_a_word_that_comes_twice_and_faults(corpus, tmp_path):
    path, vocabulary = tmp_path / "vectors.txt", corpus.prepared.vocabulary
    path.write_text("the 1 -1\nand 2 -2\nThe 5 5\n")
    table, known = read_vectors(path, vocabulary, 2)
    assert known == 2
    ratio = table[vocabulary.word_id("and")] / table[vocabulary.word_id("the")]
    np.testing.assert_allclose(ratio, [2, 2], rtol=1e-6)  # the first of "the" and "The" counts
    for content, message in (
        ("the 1 2\nand 1 2 3\n", r"vectors\.txt:2: 3 numbers, but model\.word_dim is 2"),
        ("the 1 x\n", r"vectors\.txt:1: not a word and numbers"),
        ("unheard 1 2\n", "holds none of the corpus's words"),
    ):
        path.write_text(content)
        with pytest.raises(InputError, match=message):
            read_vectors(path, vocabulary, 2)


def test_a_cased_word_begins_with_its_lower_cases_vector(tmp_path):
    """If it has none of its own, wherever in the file that comes; one of its own is never overwritten."""
    path = tmp_path / "vectors.txt"
    vocabulary = Vocabulary(("the", "The", "THE", "Paris", "us", "US", "none"), (), lowercase=False)
    lines = ["THE 3 -3", "the 1 -1", "paris 2 -2", "US 5 -5", "us 4 -4", "Us 9 -9", "unheard 8 -8"]
    expected = {"the": 1, "The": 1, "THE": 3, "Paris": 2, "us": 4, "US": 5}
    for order in (lines, lines[::-1]):
        path.write_text("\n".join(order) + "\n")
        table, known = read_vectors(path, vocabulary, 2)
        assert known == len(expected)
        unit = table[vocabulary.word_id("the")]
        assert unit[0] == -unit[1] > 0
        for word, factor in expected.items():
            np.testing.assert_allclose(table[vocabulary.word_id(word)], factor * unit, rtol=1e-6, err_msg=word)
        for row in (PAD, UNKNOWN, vocabulary.word_id("none")):
            assert np.isnan(table[row]).all()


def test_manifest_says_what_was_found(corpus):
    manifest = json.loads((corpus.prepared.folder / "manifest.json").read_text())
    assert manifest["tokens"] == len(corpus.prepared.tokens) == corpus.prepared.offsets[-1]
    assert manifest["types"] == len(corpus.prepared.type_words)
