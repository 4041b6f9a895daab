import gzip
import json
import lzma

import numpy as np
import pytest

from pan21av.data.pan import (
    COMBINATIONS,
    bare_name,
    find_file,
    find_pairs,
    in_combination,
    pair_kinds,
    read_truth,
    topics_of,
)
from pan21av.data.trials import TrialFile
from pan21av.errors import InputError
from pan21av.training.corpus import read_corpus

TRIAL = {"id": "t", "fandoms": ["x", "y"], "pair": ["one text", "another"]}
TRUTH = {"id": "t", "same": False, "authors": ["a", "b"]}


def touch(folder, *names):
    for name in names:
        (folder / name).write_bytes(b"")
    return folder


@pytest.mark.parametrize(
    "packed", [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)], ids=["plain", "gz", "xz"]
)
@pytest.mark.parametrize("prefix", ["", "pan20-authorship-verification-training-small-", "x_", "x-"])
def test_predict_and_train_read_the_same_file(tmp_path, prefix, packed):
    suffix, compress = packed
    for kind, content in (("pairs", TRIAL), ("truth", TRUTH)):
        (tmp_path / f"{prefix}{kind}.jsonl{suffix}").write_bytes(compress(json.dumps(content).encode()))
    expected = tmp_path / f"{prefix}pairs.jsonl{suffix}"
    assert find_pairs(tmp_path) == find_pairs(expected) == expected
    with TrialFile(str(tmp_path), tmp_path) as trials:
        assert trials.path == expected
        assert [trial.texts for trial in trials.read()] == [tuple(TRIAL["pair"])]
    found = [(document.author, document.topic, document.text) for document in read_corpus([tmp_path])]
    assert found == [("a", "x", "one text"), ("b", "y", "another")]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["pairs.jsonl", "x_pairs.jsonl", "other.jsonl"], "pairs.jsonl"),  # the plain name goes first
        (["x_pairs.jsonl", "other.jsonl", "pairs.txt"], "x_pairs.jsonl"),
        (["mypairs.jsonl", "truth.jsonl"], "mypairs.jsonl"),
        (["trials.jsonl.gz", "truth.jsonl", "x_truth.jsonl.xz", "README.md"], "trials.jsonl.gz"),
    ],
)
def test_which_file_of_a_folder(tmp_path, names, expected):
    assert find_pairs(touch(tmp_path, *names)) == tmp_path / expected


@pytest.mark.parametrize(
    ("names", "named"),
    [
        (["a_pairs.jsonl", "b-pairs.jsonl.gz"], ["a_pairs.jsonl", "b-pairs.jsonl.gz"]),
        (["pairs.jsonl", "pairs.jsonl.xz"], ["pairs.jsonl", "pairs.jsonl.xz"]),
        (["truth.jsonl"], ["no pairs.jsonl"]),
        ([], ["no pairs.jsonl"]),
        (["a.jsonl", "b.jsonl"], ["a.jsonl", "b.jsonl"]),
    ],
)
def test_ambiguous_folders_are_refused(tmp_path, names, named):
    with pytest.raises(InputError) as caught:
        find_pairs(touch(tmp_path, *names))
    for name in [str(tmp_path), *named]:
        assert name in str(caught.value)


def test_a_file_is_itself_and_must_exist(tmp_path):
    assert find_file(touch(tmp_path, "odd.name") / "odd.name", "truth.jsonl") == tmp_path / "odd.name"
    for find in (find_pairs, lambda place: find_file(place, "truth.jsonl")):
        with pytest.raises(InputError, match=r"/nowhere does not exist$"):
            find(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "bare"), [("a.jsonl", "a.jsonl"), ("a.jsonl.gz", "a.jsonl"), ("a.jsonl.xz", "a.jsonl"), ("a.bz2", "a.bz2")]
)
def test_bare_names(tmp_path, name, bare):
    assert bare_name(tmp_path / name) == bare


def test_truth(tmp_path):
    rows = [
        {"id": "a", "same": True},
        {"id": "b", "same": False, "authors": ["x", "y"]},
        {"id": "c", "same": True, "authors": ["x"]},
    ]
    path = tmp_path / "truth.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    assert [(i, t.same, t.authors) for i, t in read_truth(path)] == [
        ("a", True, None), ("b", False, ("x", "y")), ("c", True, None),
    ]  # fmt: skip


@pytest.mark.parametrize("row", [{"id": "b"}, {"id": 3, "same": True}, {"id": "b", "same": 1}, {"same": True}])
def test_lines_that_are_no_truth(tmp_path, row):
    path = tmp_path / "truth.jsonl"
    path.write_text('{"id": "a", "same": true}\n\n' + json.dumps(row))
    with pytest.raises(InputError, match=r"truth.jsonl:3: expected a string 'id' and a boolean 'same'"):
        list(read_truth(path))


def test_topics_of_every_year():
    assert topics_of({"fandoms": ["x", "y"]}) == ("x", "y")
    assert topics_of({"discourse_type": ["email", "memo"]}) == ("email", "memo")
    for odd in ({}, {"fandoms": ["x"]}, {"fandoms": "xy"}, {"fandoms": ["x", None]}):
        assert topics_of(odd) is None


def test_kinds_by_hand():
    kinds = pair_kinds(np.array([True, True, False, False]), np.array([True, False, True, False]))
    assert kinds.tolist() == ["SA_SF", "SA_DF", "DA_SF", "DA_DF"]
    here = [set(kinds[in_combination(kinds, name)]) for name in COMBINATIONS]
    assert here == [{"SA_DF", "DA_SF"}, {"SA_SF", "DA_SF"}, {"SA_DF", "DA_DF"}, {"SA_SF", "DA_DF"}]
