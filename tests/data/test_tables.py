import csv
import gzip
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pan21av.data.tables import parse_columns, table_lines
from pan21av.data.trials import Trial, TrialFile
from pan21av.errors import InputError

fields = st.text(st.characters(exclude_categories=["Cs"]).filter(lambda c: c not in "\0\r"), max_size=20)


@given(st.lists(st.tuples(fields.filter(str.strip), fields, fields)), st.sampled_from("\t,;"))
def test_rows_come_back_as_they_were_written(rows, delimiter):
    """Line ends, quotes and delimiters within fields too."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerow(["note", "text1", "id", "text2"])
    writer.writerows(["x", first, trial, second] for trial, first, second in rows)
    found = [
        json.loads(line) for _, line in table_lines(io.BytesIO(out.getvalue().encode()), ["id", "text1", "text2"], "")
    ]
    assert found == [{"id": trial, "pair": [first, second]} for trial, first, second in rows]


CONTENT = b"""\xef\xbb\xbf
id,text1,text2
a,"one, and
more","two"

b,only one
c,"caf\xe9",two
,one,two
d,,two
a,three,four
e,"un"quoted,two
f,five,six
g,"never closed,two
"""


def opened(folder, content, name="pairs.csv", columns=None):
    (folder / name).write_bytes(content)
    return TrialFile(str(folder / name), folder, columns)


def test_one_pass_finds_everything(tmp_path):
    with opened(tmp_path, CONTENT) as trials:
        found = trials.inspect()
        assert found.faults == {
            "with another number of columns than the header's 3": [6],
            "not UTF-8": [7],
            "without an id": [8],
            "with an id that came before": [10],
            "not a row of a table, ',' expected after '\"'": [11],
            "not a row of a table, unexpected end of data": [13],
        }
        assert (found.trials, found.unusable) == (3, 1)
        kept = [Trial("a", ("one, and\nmore", "two")), Trial("d", None), Trial("f", ("five", "six"))]
        for first in range(4):
            assert list(trials.read(found.skip, first)) == kept[first:]
        assert trials.expected == "expected rows of id, text1, text2 in UTF-8"


def test_the_same_trials_have_the_same_hash(tmp_path):
    """However they are quoted and separated; every letter counts."""
    hashes = []
    for content in (
        b"id,text1,text2\na,one,two\n",
        b'"text2";"id";"text1"\r\n"two";"a";"one"\r\n',
        b"id\ttext1\ttext2\na\tone\ttwo!",
    ):
        with opened(tmp_path, content) as trials:
            hashes.append(trials.inspect().sha256)
    assert hashes[0] == hashes[1] != hashes[2]


def test_columns_by_name_and_packed(tmp_path):
    packed = gzip.compress("nr\tleft\tright\n1\tünï\ttwo\n".encode())
    with opened(tmp_path, packed, "pairs.tsv.gz", parse_columns("nr, left, right")) as trials:
        assert list(trials.read()) == [Trial("1", ("ünï", "two"))]


def test_a_field_longer_than_the_module_allows_by_itself(tmp_path):
    csv.field_size_limit(131_072)
    with opened(tmp_path, b"id,text1,text2\na," + b"word " * 40_000 + b",two\n") as trials:
        (trial,) = trials.read()
    assert len(trial.texts[0]) == 200_000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"nr,left,right\n1,a,b\n", "has no columns id, text1, text2, but nr, left, right; --columns names them"),
        (b"a\nb\n", "has no columns id, text1, text2, but a; "),
        (b"", "has no columns id, text1, text2, but no header"),
    ],
)
def test_tables_without_the_columns(tmp_path, content, message):
    with opened(tmp_path, content) as trials, pytest.raises(InputError, match=message):
        trials.inspect()


@pytest.mark.parametrize("names", ["", "id", "id,text1", "id,a,a", "id,,b", "id,a,b,c"])
def test_columns_that_are_not_three(names):
    with pytest.raises(InputError, match="--columns takes the names of three columns, as in id,text1,text2, not"):
        parse_columns(names)
