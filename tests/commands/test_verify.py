import json

import pytest

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
