"""Whatever a file or folder is instead of a text, every command says so in one line, with exit code 2, and writes
nothing."""

import json
import re

import pytest
from support import TINY_FULL, prose, write_random_ensemble
from written_files import pdf

SCANNED = pdf([])  # a page without text
# name: (content, what is said of it as a text); no content: it is not there, None: a folder without files
TEXTS = {
    "nowhere.txt": ("", "nowhere.txt' does not exist|nowhere.txt does not exist"),
    "empty.txt": (b"", "empty.txt holds no text"),
    "blank.txt": (b" \n\n\t", "blank.txt holds no text"),
    "bytes.txt": (bytes(range(256)) * 20, "bytes.txt is not text in an encoding that we know: save it as UTF-8"),
    "scan.pdf": (SCANNED, r"scan.pdf holds no text; if it was scanned, .* \(OCR\)"),
    "broken.pdf": (b"%PDF-1.4\nnothing", "broken.pdf cannot be read as a PDF: "),
    "broken.docx": (b"PK\x03\x04nothing", "broken.docx is a damaged .docx, .epub or zip archive"),
    "old.doc": (b"\xd0\xcf\x11\xe0old", "old.doc is an old Word document: save it as .docx, .pdf or plain text first"),
    "empty": (None, "empty holds no files"),
}
# Commands that read files of texts; BAD stands for one of the above, PEOPLE and SOME for folders that have it among
# good ones.
READERS = [
    "verify good.txt BAD",
    "verify good.txt good.txt BAD",
    "verify good.txt SOME",
    "verify good.txt good.txt --population BAD",
    "verify good.txt good.txt --population SOME",
    "attribute BAD --known people -o out.html",
    "attribute good.txt --known PEOPLE -o out.html",
    "attribute good.txt --known people -o out.html --population SOME",
    "explain good.txt good.txt -o out.html --population SOME",
    "population -i BAD -o out.npz",
    "population -i SOME -o out.npz",
    "embed -i documents.jsonl -o out.npz --population SOME",
    "predict -i pairs.jsonl -o out --population BAD",
    "predict -i pairs.jsonl -o out --population SOME",
]
# Those that read one file, and not a folder.
FILE_READERS = ["verify BAD good.txt", "explain good.txt BAD -o out.html", "explain BAD good.txt -o out.html"]
# Those that read lines: (content, what is said of it).
LINES = {
    "nowhere.jsonl": ("", "nowhere.jsonl does not exist|nowhere.jsonl is no file"),
    "empty.jsonl": (b"", "empty.jsonl holds no (trials|documents)|the truth lacks 3 trials"),
    "prose.txt": (b"No line of JSON.", "prose.txt(:1: not JSON|: 1 line not JSON)"),
    "bytes.jsonl": (bytes(range(256)) * 20, "bytes.jsonl(:1: not JSON|: 1 line not JSON)"),
    "scan.pdf": (SCANNED, "scan.pdf(:1: not JSON|: .* lines? not JSON)"),
    "packed.zip": (b"PK\x03\x04nothing", "packed.zip is a zip archive; expected lines in UTF-8"),
    "empty": (None, "empty (should hold one|is no file)"),
}
LINE_READERS = [
    "predict -i BAD -o out",
    "predict -i BAD -o out --population self",
    "embed -i BAD -o out.npz",
    "explain -i BAD --id t1 -o out.html",
    "calibrate -i BAD -t truth.jsonl -o out",
    "calibrate -i pairs.jsonl -t BAD -o out",
]
TABLES = {
    "empty.csv": (b"", "empty.csv has no columns id, text1, text2, but no header"),
    "other.csv": (b"a,b\n1,2\n", "other.csv has no columns id, text1, text2, but a, b; --columns names them"),
    "head.tsv": (b"id\ttext1\ttext2\n", "head.tsv holds no trials; expected rows of id, text1, text2 in UTF-8"),
    "latin.csv": ("id,text1,text2\n1,café,b\n".encode("cp1252"), "1 line not UTF-8 .*expected rows of .* in UTF-8"),
    "short.csv": (b"id,text1,text2\n1,a\n", "1 line with another number of columns than the header's 3"),
    "open.csv": (b'id,text1,text2\n1,"a,b\n', "1 line not a row of a table, unexpected end of data"),
    "twice.csv": (b"id,text1,text2\n1,a,b\n1,c,d\n", "1 line with an id that came before"),
    "book.xlsx": (b"PK\x03\x04nothing", "book.xlsx is a zip archive"),
}


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory):
    return write_random_ensemble(tmp_path_factory.mktemp("models") / "full", config=TINY_FULL)


def put(path, content):
    if content is None:
        path.mkdir(parents=True)
    elif content != "":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@pytest.fixture
def refused(ensemble, tmp_path, command):
    """Good files beside the bad one, the command, and what must hold of it."""
    texts = [prose(n, 200) for n in range(12)]
    lines = {
        "pairs.jsonl": [{"id": f"t{n}", "pair": [texts[n], texts[n + 1]]} for n in range(3)],
        "documents.jsonl": [{"id": f"d{n}", "text": texts[n]} for n in range(3)],
        "truth.jsonl": [{"id": f"t{n}", "same": False, "authors": [f"a{n}", f"b{n}"]} for n in range(3)],
    }
    put(tmp_path / "good.txt", texts[0].encode())
    put(tmp_path / "people" / "anna.txt", texts[1].encode())
    for name, rows in lines.items():
        put(tmp_path / name, "\n".join(map(json.dumps, rows)).encode())

    def run(line, message):
        before = {path: path.read_bytes() if path.is_file() else None for path in tmp_path.rglob("*")}
        done = command("-q", *line.split(), "--models", ensemble)
        said = done.stderr.decode().splitlines()
        assert (done.returncode, len(said), done.stdout) == (2, 1, b""), done.stderr.decode()
        assert said[0].startswith("pan21av: ")
        assert re.search(message, said[0]), said[0]
        assert {path: path.read_bytes() if path.is_file() else None for path in tmp_path.rglob("*")} == before

    return run


@pytest.mark.parametrize("name", TEXTS)
def test_texts(refused, tmp_path, name):
    content, message = TEXTS[name]
    put(tmp_path / name, content)
    if content != "":
        for number in range(12):
            put(tmp_path / "some" / f"{number:02}.txt", prose(20 + number, 200).encode())
        put(tmp_path / "some" / name, content)
        put(tmp_path / "candidates" / "bert" / "1.txt", prose(1).encode())
        put(tmp_path / "candidates" / name, content)
    for line in READERS:
        if content != "" or "BAD" in line:
            refused(line.replace("BAD", name).replace("SOME", "some").replace("PEOPLE", "candidates"), message)
    for line in FILE_READERS:
        refused(line.replace("BAD", name), message if content is not None else "'empty' is a directory")


@pytest.mark.parametrize("name", LINES)
def test_lines(refused, tmp_path, name):
    content, message = LINES[name]
    put(tmp_path / name, content)
    for line in LINE_READERS:
        # A page is of one trial: lines that are none do not matter to it.
        more = f"|{name} holds no trial 't1'" if line.startswith("explain") else ""
        refused(line.replace("BAD", name), message + more)


@pytest.mark.parametrize("name", TABLES)
def test_tables(refused, tmp_path, name):
    content, message = TABLES[name]
    put(tmp_path / name, content)
    refused(f"predict -i {name} -o out", message)


@pytest.mark.parametrize("name", [name for name, (content, _) in TEXTS.items() if content])
@pytest.mark.parametrize("role", ["known02", "unknown"])
def test_problem_folders(refused, tmp_path, name, role):
    content, _ = TEXTS[name]
    for problem in ("EN001", "EN002"):
        put(tmp_path / "problems" / problem / "known01.txt", prose(3).encode())
    put(tmp_path / "problems" / "EN001" / "unknown.txt", prose(4).encode())
    bad = f"{role}.{name.split('.')[1]}"
    if role != "unknown":
        put(tmp_path / "problems" / "EN002" / "unknown.txt", prose(4).encode())
    put(tmp_path / "problems" / "EN002" / bad, content)
    for line in ("predict -i problems -o out", "calibrate -i problems -t truth.jsonl -o out"):
        refused(line, rf"EN002/{bad}")


def test_problem_folders_that_are_none(refused, tmp_path):
    put(tmp_path / "problems" / "EN001" / "unknown.txt", prose(4).encode())
    refused("predict -i problems -o out", "problems should hold one pairs.jsonl, but has no pairs.jsonl")
    put(tmp_path / "problems" / "EN001" / "known01.txt", prose(4).encode())
    put(tmp_path / "problems" / "EN002", None)
    refused("predict -i problems -o out", r"not all of its folders have known\*.txt and unknown.txt: EN002")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("predict -i pairs.jsonl -o good.txt", "good.txt is a file; the output goes into a folder"),
        ("calibrate -i pairs.jsonl -t truth.jsonl -o people", "people exists already"),
        ("calibrate -i pairs.jsonl -t truth.jsonl -o out", "too few to calibrate on: "),
        ("embed -i documents.jsonl -o out.txt", "vectors go into a .npz file"),
        ("population -i people -o out.txt", "a population is kept in a .npz file"),
        ("population -i people -o out.npz", "here are only 1 that can be used"),
        ("verify good.txt good.txt --prior 1.5", "Invalid value for '--prior': 1.5 is not in the range"),
        ("attribute good.txt --known good.txt", "good.txt is no folder; expected one that holds a folder, or a file"),
        ("predict -i pairs.jsonl -o out --columns a,b", "--columns takes the names of three columns"),
    ],
)
def test_ways_to_call_it(refused, line, message):
    refused(line, message)
