"""Who of several people, or none of them."""

import json
from dataclasses import replace

import pytest
from support import TINY_FULL, prose, write_random_ensemble

from pan21av.commands.attribute import Attribution, Candidate, attribute, format_attributions
from pan21av.verdict import Verdict, ratio_bounds
from pan21av.verifier import Verifier

DISTANCES = {"edges": [0, 1, 2, 40], "same": [50, 30, 20], "different": [10, 30, 160]}
PEOPLE = {"<b>anna": [prose(1), prose(2, 120)], "bert": [prose(3)], "cleo": [prose(4), prose(5), prose(6)]}
QUESTIONED = {"q1.txt": prose(50, 100), "q2.txt": prose(51, 90)}


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory):
    return write_random_ensemble(tmp_path_factory.mktemp("models") / "full", config=TINY_FULL, distances=DISTANCES)


@pytest.fixture
def folders(tmp_path):
    for name, texts in PEOPLE.items():
        if len(texts) == 1:
            (tmp_path / "people").mkdir(exist_ok=True)
            (tmp_path / "people" / f"{name}.txt").write_text(texts[0])
        else:
            (tmp_path / "people" / name).mkdir(parents=True)
            for n, text in enumerate(texts):
                (tmp_path / "people" / name / f"{n}.txt").write_text(text)
    (tmp_path / "people" / ".DS_Store").write_bytes(b"\x00")
    for name, text in QUESTIONED.items():
        (tmp_path / name).write_text(text)


def test_ranked_by_the_verdicts(ensemble, folders, tmp_path, command):
    done = command(
        "attribute", *QUESTIONED, "--known", "people", "--models", ensemble, "--json", "-o", "p.html", "--prior", "0.2"
    )
    assert done.returncode == 0, done.stderr.decode()
    report = json.loads(done.stdout)
    verifier = Verifier.load(ensemble)
    assert [entry["questioned"] for entry in report["attributions"]] == list(QUESTIONED)
    for entry, text in zip(report["attributions"], QUESTIONED.values(), strict=True):
        expected = {name: verifier.verify(text, texts) for name, texts in PEOPLE.items()}
        ranked = [candidate["probability"] for candidate in entry["candidates"]]
        assert ranked == sorted(ranked, reverse=True)
        for candidate in entry["candidates"]:
            verdict = expected[candidate["name"]]
            assert candidate["probability"] == verdict.probability
            assert candidate["log10_lr"] == verdict.log10_lr
            assert candidate["posterior"] == verdict.posterior(0.2)
        assert entry["author"] == (entry["candidates"][0]["name"] if ranked[0] > 0.5 else None)
    page = (tmp_path / "p.html").read_text()
    assert "&lt;b&gt;anna" in page
    assert "<b>anna" not in page
    assert page.count('scope="col"') == 3
    shown = command("attribute", "q1.txt", "--known", "people", "--models", ensemble).stdout.decode()
    for name in PEOPLE:
        figure = f"{expected_of(report, name):.3f}"
        assert any(figure in line for line in shown.splitlines() if name in line), "in the row of the person"
    assert "no ratio beyond 1/100 and 200" in shown


def expected_of(report, name):
    return next(c["probability"] for c in report["attributions"][0]["candidates"] if c["name"] == name)


def test_none_of_them():
    def attribution(*probabilities):
        people = (Candidate(f"p{n}", Verdict(p, 0, 1, 0)) for n, p in enumerate(probabilities))
        return Attribution("q", tuple(people))

    assert (attribution(0.4, 0.3).author, attribution(0.4, 0.3).words) == (None, "none of them")
    assert (attribution(0.5, 0.5).author, attribution(0.5, 0.5).words) == (None, "cannot tell")
    assert attribution(0.51, 0.5).author == "p0"
    assert "p0 rather than another person" in attribution(0.51, 0.5).words
    shown = format_attributions([attribution(0.4, 0.3)], prior=0.1)
    assert shown.startswith("q: none of them\n")
    assert "so there is no likelihood ratio" in shown
    bounded = replace(attribution(0.4).candidates[0].verdict, bounds=ratio_bounds(9, 9))
    assert "with prior 0.1: 0.069" in format_attributions([Attribution("q", (Candidate("p", bounded),))], 0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["q1.txt", "--known", "none"], "none is empty"),
        (["q1.txt", "--known", "q2.txt"], "q2.txt is no folder"),
        (["q1.txt", "--known", "holes"], "holes/a/blank.txt holds no text"),
        (["q1.txt", "--known", "hollow"], "holds no files"),
        (["none", "--known", "people"], "none holds no files"),
        (["q1.txt", "--known", "twice"], "'a' twice"),
    ],
)
def test_bad_input(ensemble, folders, tmp_path, command, arguments, message):
    (tmp_path / "none").mkdir()
    for folder in ("holes/a", "hollow/a", "twice/a"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "holes" / "a" / "blank.txt").write_text(" \n")
    for place in ("twice/a.txt", "twice/a/1.txt"):
        (tmp_path / place).write_text(prose(1))
    done = command("attribute", *arguments, "-o", "page.html", "--models", ensemble)
    assert done.returncode == 2, done.stderr.decode()
    assert message in done.stderr.decode()
    assert len(done.stderr.decode().splitlines()) == 1
    assert not (tmp_path / "page.html").exists()
    assert not done.stdout


def test_nobody(ensemble):
    from pan21av.errors import InputError

    with pytest.raises(InputError, match="somebody"):
        attribute(QUESTIONED, {}, models=ensemble)
