import json

import pytest
from support import prose, write_random_ensemble

from pan21av.commands.explain import explain
from pan21av.commands.predict import predict
from pan21av.verifier import Verifier


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory):
    return write_random_ensemble(tmp_path_factory.mktemp("models") / "tiny", count=5)


def write_pairs(path, pairs):
    path.write_text("\n".join(json.dumps({"id": trial, "pair": pair}) for trial, pair in pairs.items()))


def test_the_probability_is_that_of_predict(ensemble, tmp_path, command):
    pair = (prose(1), prose(2))
    write_pairs(tmp_path / "pairs.jsonl", {"other": (prose(3), prose(4)), "t": pair})
    predict(str(tmp_path), tmp_path / "out", models=ensemble)
    done = command("explain", "-i", tmp_path, "--id", "t", "-o", tmp_path / "deep" / "page.html", "--models", ensemble)
    assert done.returncode == 0, done.stderr.decode()
    answers = [json.loads(line) for line in (tmp_path / "out" / "answers.jsonl").read_text().splitlines()]
    value = answers[1]["value"]
    assert answers[0]["value"] != value
    assert Verifier.load(ensemble).verify(*pair).probability == pytest.approx(value, abs=1e-6)
    assert f"{value:.3f}" in (tmp_path / "deep" / "page.html").read_text()
    assert f"{value:.3f}" in done.stdout.decode()


def test_two_files(ensemble, tmp_path, command):
    for name, seed in (("a.txt", 1), ("b.txt", 2)):
        (tmp_path / name).write_text(prose(seed))
    done = command("explain", "a.txt", "b.txt", "-o", "page.html", "--models", ensemble)
    assert done.returncode == 0, done.stderr.decode()
    page = (tmp_path / "page.html").read_text()
    assert "<h3>a.txt</h3>" in page
    assert "<h3>b.txt</h3>" in page
    verdict = explain(prose(1), prose(2), tmp_path / "again.html", names=("a.txt", "b.txt"), models=ensemble)
    assert verdict == Verifier.load(ensemble).verify(prose(1), prose(2))
    assert (tmp_path / "again.html").read_text() == page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-i", "pairs.jsonl", "--id", "nobody"], "holds no trial 'nobody'"),
        (["-i", "pairs.jsonl", "--id", "empty"], "lacks two usable texts"),
        (["-i", "pairs.jsonl"], "give two text files"),
        ([], "give two text files"),
    ],
)
def test_wrong_calls(ensemble, tmp_path, command, arguments, message):
    write_pairs(tmp_path / "pairs.jsonl", {"t": ("a", "b"), "empty": ("", "b")})
    done = command("explain", *arguments, "-o", "page.html", "--models", ensemble)
    assert done.returncode == 2
    assert message in done.stderr.decode()
    assert not (tmp_path / "page.html").exists()
