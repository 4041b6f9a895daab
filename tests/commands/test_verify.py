import json

import pytest
from support import prose, write_random_ensemble

from pan21av.verifier import Verifier

ONE, OTHER = "the old ship was not here but they had it " * 9, "in that house you know it for a while " * 9


@pytest.fixture(autouse=True)
def _texts(tmp_path):
    (tmp_path / "a.txt").write_text(ONE)
    (tmp_path / "b.txt").write_text(OTHER, encoding="utf-8-sig")  # as some editors save


def test_in_words_and_as_json(tiny_ensemble, command):
    expected = Verifier.load(tiny_ensemble, device="cpu").verify(ONE, OTHER)
    plain = command("verify", "a.txt", "b.txt", "--models", tiny_ensemble)
    assert plain.returncode == 0, plain.stderr.decode()
    shown = plain.stdout.decode()
    assert f"{expected.probability:.3f}" in shown
    assert expected.words.lower() in shown.lower()
    assert f"3 members {expected.abstained} abstained, {expected.same} said same, {expected.different} diff" in shown
    report = json.loads(command("verify", "a.txt", "b.txt", "--json", "--models", tiny_ensemble).stdout)
    assert report["probability"] == expected.probability
    assert [report[key] for key in ("members", "abstained", "same", "different")] == [
        3, expected.abstained, expected.same, expected.different,
    ]  # fmt: skip


def test_files_that_are_no_texts(tiny_ensemble, tmp_path, command):
    (tmp_path / "c.doc").write_bytes(b"\xd0\xcf\x11\xe0")
    (tmp_path / "d.txt").write_text(" ")
    for name, message in (
        ("c.doc", "pan21av: c.doc is an old Word document"),
        ("d.txt", "pan21av: d.txt holds no text"),
        ("nowhere.txt", "'nowhere.txt' does not exist"),
    ):
        for verb, more in (("verify", []), ("explain", ["-o", "page.html"])):
            refused = command(verb, "a.txt", name, *more, "--models", tiny_ensemble)
            assert refused.returncode == 2
            assert message in refused.stderr.decode()
            assert not refused.stdout
            assert not (tmp_path / "page.html").exists()


def test_the_same_text_in_other_files(tiny_ensemble, tmp_path, command):
    """What is written in them counts, not how."""
    (tmp_path / "c.html").write_text(f"<html><body><p>{OTHER}</p></body></html>", encoding="utf-16")
    plain, page = (
        command("verify", "a.txt", name, "--json", "--models", tiny_ensemble).stdout for name in ("b.txt", "c.html")
    )
    assert json.loads(page)["probability"] == json.loads(plain)["probability"]


def test_notes_are_told(tiny_ensemble, command):
    done = command("verify", "a.txt", "a.txt", "--models", tiny_ensemble)
    assert "both texts: the two are identical" in done.stdout.decode()


def test_nobody_is_said_to_abstain_who_was_not_asked(tmp_path, command):
    limits = {"min_tokens": 500, "min_words": 0, "min_common": 0, "max_unknown": 1, "max_foreign": 1}
    ensemble = write_random_ensemble(tmp_path / "models", limits=limits)
    shown = command("verify", "a.txt", "b.txt", "--models", ensemble).stdout.decode()
    assert "Cannot tell (probability of one author: 0.500)." in shown
    assert "first text: too short" in shown
    assert shown.endswith("No member was asked.\n")
    assert "abstained" not in shown
    assert "members cannot tell" not in shown


def test_several_known_texts_and_a_prior(tmp_path, command):
    """Files and folders together; what one does in Python says the same."""
    distances = {"edges": [0, 40], "same": [300], "different": [500]}
    ensemble = write_random_ensemble(tmp_path / "models", distances=distances)
    (tmp_path / "more").mkdir()
    for n in range(2):
        (tmp_path / "more" / f"{n}.txt").write_text(prose(n))
    verdict = Verifier.load(ensemble).verify(ONE, [OTHER, prose(0), prose(1)])
    arguments = ("verify", "a.txt", "b.txt", "more", "--prior", "0.1", "--models", ensemble)
    report = json.loads(command(*arguments, "--json").stdout)
    assert (report["probability"], report["log10_lr"]) == (verdict.probability, verdict.log10_lr)
    assert report["posterior"] == verdict.posterior(0.1)
    assert len(report["propositions"]) == 2
    shown = command(*arguments).stdout.decode()
    assert max(map(len, shown.splitlines())) <= 90  # the ratio is several sentences
    assert verdict.ratio_words in " ".join(shown.split())
    assert f"With a prior probability of 0.1 that of one author becomes {verdict.posterior(0.1):.3f}." in shown
    (tmp_path / "more" / "copy.txt").write_text(prose(0))
    noted = command("verify", "a.txt", "b.txt", "more", "--models", ensemble).stdout.decode()
    assert "Note: more/copy.txt: the same as another of them, and counts once." in noted


@pytest.mark.parametrize("known", ["empty", "blank.txt", "more"])
def test_known_texts_that_are_none(tiny_ensemble, tmp_path, command, known):
    """One of several is enough."""
    for folder in ("empty", "more"):
        (tmp_path / folder).mkdir()
    for blank in ("blank.txt", "more/blank.txt"):
        (tmp_path / blank).write_text(" \n")
    (tmp_path / "more" / "b.txt").write_text(OTHER)
    done = command("verify", "a.txt", "b.txt", known, "--models", tiny_ensemble)
    assert done.returncode == 2
    assert "holds no" in done.stderr.decode()
    assert not done.stdout
