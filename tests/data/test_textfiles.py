import pytest

from pan21av.data.textfiles import read_text
from pan21av.errors import InputError


@pytest.mark.parametrize("content", [b"caf\xc3\xa9\r\n", b"\xef\xbb\xbfcaf\xc3\xa9\r\n"])
def test_a_text(tmp_path, content):
    """With or without a byte order mark; its lines end as they did."""
    (tmp_path / "a.txt").write_bytes(content)
    assert read_text(tmp_path / "a.txt") == "café\r\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"caf\xe9", r"a.txt is not UTF-8 \(unexpected end of data at byte 3\)"),
        ("text".encode("utf-16"), "a.txt is UTF-16: save it as plain text in UTF-8 first"),
        (b"PK\x03\x04rest", "is a document of a word processor, an e-book or a zip archive"),
        (b"%PDF-1.7", "is a PDF"),
        (b"{\\rtf1", "is rich text"),
        (b"", "holds no text"),
        (b" \n\t", "holds no text"),
    ],
)
def test_files_that_are_no_text(tmp_path, content, message):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_text(tmp_path / "a.txt")


def test_no_file(tmp_path):
    with pytest.raises(InputError, match=r"a.txt: No such file or directory$"):
        read_text(tmp_path / "a.txt")
