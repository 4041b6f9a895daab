"""Ten people's files in all formats and encodings, through `attribute` with the shipped ensemble."""

import json
import random
from itertools import cycle
from pathlib import Path

import pytest
from generated_corpus import Author
from support import ROOT
from written_files import KINDS, write_text_as

NOUNS = [
    "garden", "house", "river", "window", "letter", "table", "station", "morning", "winter", "kitchen", "road",
    "bridge", "book", "harbour", "field", "picture", "lamp", "engine", "basket", "market", "school", "church", "island",
]  # fmt: skip
VERBS = [
    "watched", "painted", "opened", "followed", "carried", "remembered", "crossed", "cleaned", "visited", "described",
    "wanted", "answered", "noticed", "finished", "lifted", "mended", "borrowed", "counted", "missed", "enjoyed",
]  # fmt: skip
LATIN = str.maketrans({"’": "'", "“": '"', "”": '"', "—": "--", "–": "-"})  # what a PDF made by hand can show


def voices():
    """{person: texts} of the four of examples/, written for this project."""
    texts = {}
    for pair, truth in zip(*((ROOT / "examples" / f"{name}.jsonl").open("rb") for name in ("pairs", "truth"))):
        for person, text in zip(json.loads(truth)["authors"], json.loads(pair)["pair"]):
            texts.setdefault(person, {})[text] = None
    return {person: list(their) for person, their in texts.items()}


def generated(seed):
    """Three texts of one who writes by habit, in paragraphs."""
    rng = random.Random(seed)
    author, texts = Author(rng, 1.0), []
    for _ in range(3):
        nouns, verbs = rng.sample(NOUNS, 15), rng.sample(VERBS, 10)
        text = (" ".join(author.sentence(nouns, verbs, rng) for _ in range(6)) for _ in range(8))
        texts.append("\n\n".join(text))
    return texts


@pytest.fixture(scope="module")
def people():
    """The last text of each is the questioned one."""
    found = voices() | {f"writer {number}": generated(number) for number in range(6)}
    # Curly quotes are what encodings differ in.
    return {person: [text.replace("'", "’") for text in texts] for person, texts in found.items()}


def write_all(folder, people, kinds):
    kinds = cycle(kinds)
    for person, texts in people.items():
        (folder / "known" / person).mkdir(parents=True)
        (folder / "questioned").mkdir(exist_ok=True)
        for number, text in enumerate(texts):
            kind = next(kinds)
            last = number == len(texts) - 1
            place = folder / "questioned" / person if last else folder / "known" / person / str(number)
            write_text_as(kind, place, text.translate(LATIN) if kind == "pdf" else text)
    return folder


def test_ten_people_in_all_formats(people, tmp_path, process):
    """Encodings change nothing, and formats little: answers are those to the same texts in UTF-8, but for what formats
    keep of blanks and ends of lines."""
    found = {}
    for name, kinds in (("mixed", KINDS), ("plain", ["utf-8.txt"])):
        folder = write_all(tmp_path / name, people, kinds)
        done = process(
            "attribute", folder / "questioned", "--known", folder / "known", "-o", folder / "page.html", "--json"
        )
        assert done.returncode == 0, done.stderr.decode()
        rows = json.loads(done.stdout)["attributions"]
        assert len(rows) == 10
        found[name] = {
            Path(row["questioned"]).stem: {candidate["name"]: candidate for candidate in row["candidates"]}
            for row in rows
        }
        assert (folder / "page.html").read_text().count('<th scope="col">') == 10
    suffixes = {path.suffix for path in (tmp_path / "mixed").rglob("*") if path.is_file()} - {".html"}
    assert suffixes == {".txt", ".docx", ".epub", ".md", ".pdf"}
    moved = []
    for person, candidates in found["plain"].items():
        assert candidates.keys() == people.keys()
        for name, candidate in candidates.items():
            moved.append(abs(found["mixed"][person][name]["probability"] - candidate["probability"]))
    assert sum(moved) / len(moved) < 0.02
    assert sorted(moved)[len(moved) * 9 // 10] < 0.05
    # Whoever is said to have written a text did, of the voices that were written to differ.
    for person in voices():
        first = max(found["mixed"][person].values(), key=lambda candidate: candidate["probability"])
        assert first["name"] == person or not first["decision"]
