"""Reading training texts, in any wrapping; errors name file and line."""

import gzip
import json
import lzma

import generated_corpus
import pytest

from pan21av.errors import InputError
from pan21av.training.corpus import Document, read_corpus


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
@pytest.mark.parametrize("as_folder", [False, True])
def test_documents_in_any_wrapping(tmp_path, suffix, as_folder):
    docs = generated_corpus.documents(3, each=2, sentences=3)
    data = "".join(json.dumps(d) + "\n" for d in docs).encode()
    path = tmp_path / f"documents.jsonl{suffix}"
    path.write_bytes({"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[suffix](data))
    assert list(read_corpus([tmp_path if as_folder else path])) == [
        Document(d["author"], d["topic"], "", "", d["text"]) for d in docs
    ]


def test_several_files_one_after_the_other(tmp_path):
    for name in "ab":
        line = {"author": name, "topic": "t", "work": f"w{name}", "source": f"s{name}", "text": f"of {name}"}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(line))
    found = list(read_corpus([tmp_path / "b.jsonl", tmp_path / "a.jsonl"]))
    assert found == [Document("b", "t", "wb", "sb", "of b"), Document("a", "t", "wa", "sa", "of a")]


TRIALS = [("1", ["x", "y"], ["Ann", "Bob"]), ("2", ["x", "z"], ["Ann", "Ann"]), ("3", ["y", "z"], ["Bob", "Ann"])]


def write_pan(folder, named=True):
    pairs, truth = [], []
    for i, texts, authors in TRIALS:
        fandoms = {"fandoms": ["f" + text for text in texts]} if named else {}
        pairs.append(json.dumps({"id": i, **fandoms, "pair": texts}))
        truth.append(json.dumps({"id": i, "same": authors[0] == authors[1], "authors": authors}))
    (folder / "pairs.jsonl").write_text("\n".join(pairs))
    (folder / "truth.jsonl").write_text("\n".join(truth))


@pytest.mark.parametrize("named", [True, False])
def test_pan_pairs_are_taken_apart(tmp_path, named):
    """A text that is in several pairs comes once; topics are the fandoms, where there are any."""
    write_pan(tmp_path, named)
    expected = [("Ann", "x"), ("Bob", "y"), ("Ann", "z")]
    whole = [Document(author, "f" + text if named else "", "", "", text) for author, text in expected]
    assert list(read_corpus([tmp_path])) == whole
    assert list(read_corpus([tmp_path / "pairs.jsonl"], tmp_path / "truth.jsonl")) == whole


def test_one_text_of_two_authors_stays_two_documents(tmp_path):
    (tmp_path / "pairs.jsonl").write_text('{"id": "1", "pair": ["x", "x"]}')
    (tmp_path / "truth.jsonl").write_text('{"id": "1", "same": false, "authors": ["Ann", "Bob"]}')
    assert [(d.author, d.text) for d in read_corpus([tmp_path])] == [("Ann", "x"), ("Bob", "x")]


def test_equal_texts_count_once_whoever_is_named(tmp_path):
    """As in the paper: the first stands for all, also across files and in documents."""
    pan = tmp_path / "pan"
    pan.mkdir()
    (pan / "pairs.jsonl").write_text('{"id": "1", "pair": ["x", "y"]}\n{"id": "2", "pair": ["z", "x"]}')
    (pan / "truth.jsonl").write_text(
        '{"id": "1", "same": false, "authors": ["Ann", "Bob"]}\n{"id": "2", "same": false, "authors": ["Bob", "Cid"]}'
    )
    docs = [{"author": author, "text": text} for author, text in (("Dan", "y"), ("Dan", "new"), ("Eve", "new"))]
    generated_corpus.write(tmp_path / "documents.jsonl", docs)
    found = read_corpus([pan, tmp_path / "documents.jsonl"], unique_texts=True)
    assert [(d.author, d.text) for d in found] == [("Ann", "x"), ("Bob", "y"), ("Bob", "z"), ("Dan", "new")]


@pytest.mark.parametrize(
    "name",
    [
        "pan20-authorship-verification-training-small",
        "pan20-authorship-verification-training-large",
        "pan20-authorship-verification-test",
        "pan21-authorship-verification-test",
    ],
)
def test_files_as_pan_names_them(tmp_path, name):
    """In a folder of their own, or one of them among others; its truth lies beside it."""
    for folder in (tmp_path / "alone", tmp_path / "among"):
        folder.mkdir()
        write_pan(folder)
        (folder / "pairs.jsonl").rename(folder / f"{name}.jsonl")
        (folder / "truth.jsonl").rename(folder / f"{name}-truth.jsonl")
    write_pan(tmp_path / "among")
    expected = [("Ann", "x"), ("Bob", "y"), ("Ann", "z")]
    for path in (tmp_path / "alone", tmp_path / "alone" / f"{name}.jsonl", tmp_path / "among" / f"{name}.jsonl"):
        assert [(d.author, d.text) for d in read_corpus([path])] == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"author": "a", "topic": "t", "text": "x"}\nnonsense\n', "documents.jsonl:2: not JSON"),
        (b'{"author": "a", "topic": "t"}\n', "documents.jsonl:1: 'text' must be a string"),
        (b'{"author": 1, "topic": "t", "text": "x"}\n', "documents.jsonl:1: 'author' must be a string"),
        (b'{"author": "a", "source": [], "text": "x"}\n', "documents.jsonl:1: 'source' must be a string"),
        (b"[]\n", "documents.jsonl:1: not a JSON object"),
    ],
)
def test_reading_errors_name_file_and_line(tmp_path, content, message):
    path = tmp_path / "documents.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        list(read_corpus([path]))


@pytest.mark.parametrize(
    ("pairs", "truth", "message"),
    [
        ('{"id": "2", "pair": ["x", "y"]}', None, r"pairs\.jsonl:1: id '2' is not in .*truth\.jsonl"),
        ('{"id": "1", "pair": ["x"]}', None, r"pairs\.jsonl:1: 'pair' must be two strings"),
        ('{"id": "1", "fandoms": ["f"], "pair": ["x", "y"]}', None, r"pairs\.jsonl:1: 'fandoms' must be two strings"),
        (None, '{"id": "1", "same": true}', r"truth\.jsonl: 'authors' of '1' must be two strings"),
    ],
)
def test_faults_of_pan_pairs(tmp_path, pairs, truth, message):
    (tmp_path / "pairs.jsonl").write_text(pairs or '{"id": "1", "pair": ["x", "y"]}')
    (tmp_path / "truth.jsonl").write_text(truth or '{"id": "1", "same": true, "authors": ["a", "a"]}')
    with pytest.raises(InputError, match=message):
        list(read_corpus([tmp_path]))


def test_damaged_archive(tmp_path):
    path = tmp_path / "documents.jsonl.xz"
    path.write_bytes(lzma.compress(b'{"author": "a"}')[:-5])
    with pytest.raises(InputError, match="cannot be decompressed"):
        list(read_corpus([path]))


def test_nothing_there(tmp_path):
    with pytest.raises(InputError, match=r"nothing\.jsonl does not exist"):
        list(read_corpus([tmp_path / "nothing.jsonl"]))
    with pytest.raises(InputError, match=r"holds neither one documents\.jsonl nor one pairs\.jsonl"):
        list(read_corpus([tmp_path]))
