"""--population of the commands, and `pan21av population`."""

import json

import pytest
from support import TINY_FULL, prose, write_random_ensemble

from pan21av.commands import predict as module
from pan21av.commands.predict import predict
from pan21av.populations import draw, text_key
from pan21av.verifier import Verifier

PAIRS = {f"t{n}": (prose(n % 20, 40), prose(100 + n, 30)) for n in range(30)}


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory):
    return write_random_ensemble(tmp_path_factory.mktemp("models") / "full", config=TINY_FULL)


@pytest.fixture
def pairs(tmp_path):
    return write(tmp_path / "pairs.jsonl", PAIRS)


def write(path, pairs):
    path.write_text("".join(json.dumps({"id": name, "pair": pair}) + "\n" for name, pair in pairs.items()))
    return str(path)


def lines(folder):
    return (folder / "answers.jsonl").read_bytes().splitlines()


def test_of_the_input_itself(ensemble, pairs, tmp_path, monkeypatch):
    """Twice, in another order, in other batches: the same bytes."""
    report = predict(pairs, tmp_path / "one", models=ensemble, population="self")
    texts = {text for pair in PAIRS.values() for text in pair}
    assert report["population"]["texts"] == len(texts)
    assert json.loads((tmp_path / "one" / "run.json").read_text())["population"] == report["population"]
    expected = lines(tmp_path / "one")
    predict(pairs, tmp_path / "two", models=ensemble, population="self")
    assert lines(tmp_path / "two") == expected
    turned = write(tmp_path / "turned.jsonl", dict(reversed(PAIRS.items())))
    again = predict(turned, tmp_path / "three", models=ensemble, population="self")
    assert again["population"] == report["population"]
    assert lines(tmp_path / "three") == expected[::-1]
    answer = Verifier.answer
    monkeypatch.setattr(Verifier, "answer", lambda self, trials, pool=None: answer(self, trials, tokens_per_chunk=1))
    predict(pairs, tmp_path / "four", models=ensemble, population="self")
    assert lines(tmp_path / "four") == expected
    predict(pairs, tmp_path / "bare", models=ensemble)
    assert lines(tmp_path / "bare") != expected
    # What Python users get, with the same texts.
    verifier = Verifier.load(ensemble).with_population(sorted(texts))
    assert [json.loads(line)["value"] for line in expected] == [
        verdict.probability for verdict in verifier.predict(PAIRS.values())
    ]


def test_of_many_texts_a_sample(ensemble, pairs, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_OF_SELF", 20)
    report = predict(pairs, tmp_path / "out", models=ensemble, population="self")
    texts = sorted({text for pair in PAIRS.values() for text in pair}, key=text_key)[:20]
    assert report["population"]["texts"] == 20
    verifier = Verifier.load(ensemble).with_population(texts)
    assert json.loads(lines(tmp_path / "out")[5])["value"] == verifier.verify(*PAIRS["t5"]).probability


def test_killed_and_resumed(ensemble, pairs, tmp_path, monkeypatch):
    """A broken run goes on, but not with another population."""
    predict(pairs, tmp_path / "whole", models=ensemble, population="self")

    def broken(population, expected):
        writes = []
        write_one = module.AnswerFile.write

        def write(self, *args):
            if len(writes) == 20:
                raise KeyboardInterrupt
            writes.append(args)
            write_one(self, *args)

        with monkeypatch.context() as patched:
            patched.setattr(module.AnswerFile, "write", write)
            with pytest.raises(KeyboardInterrupt):
                predict(pairs, tmp_path / "out", models=ensemble, population=population)
        report = predict(pairs, tmp_path / "out", models=ensemble, population="self")
        assert (report["resumed_after"] > 0) is expected
        assert lines(tmp_path / "out") == lines(tmp_path / "whole")

    broken("self", True)
    broken(None, False)


def test_of_files_and_kept(ensemble, pairs, tmp_path, command):
    """A folder, JSON lines, and a file kept of either: the same population."""
    texts = [prose(500 + n, 40) for n in range(12)]
    folder = tmp_path / "texts"
    (folder / "deep").mkdir(parents=True)
    (folder / ".hidden").write_bytes(b"\xff\xfe no text")
    for n, text in enumerate(texts):
        (folder / ("deep" if n % 2 else ".") / f"{n}.txt").write_text(text)
    rows = [{"text": text, "author": "x"} for text in texts[:6]] + [{"id": "p", "pair": texts[6:8]}]
    rows += [{"pair": [texts[n], texts[n + 1]]} for n in (8, 10)]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = command("population", "-i", "texts.jsonl", "-o", "mine.npz", "--models", ensemble)
    assert done.returncode == 0, done.stderr.decode()
    assert "12 texts" in done.stdout.decode()
    expected = Verifier.load(ensemble).with_population(texts).verify(prose(1), prose(2))
    (tmp_path / "a.txt").write_text(prose(1))
    (tmp_path / "b.txt").write_text(prose(2))
    for place in ("texts", "texts.jsonl", "mine.npz"):
        shown = command("verify", "a.txt", "b.txt", "--json", "--population", place, "--models", ensemble)
        assert shown.returncode == 0, shown.stderr.decode()
        assert json.loads(shown.stdout)["probability"] == expected.probability
    page = command("explain", "a.txt", "b.txt", "-o", "page.html", "--population", "mine.npz", "--models", ensemble)
    assert page.returncode == 0, page.stderr.decode()
    assert "a population of 12 texts" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nowhere", "nowhere does not exist"),
        ("empty", "empty holds no files"),
        ("few.jsonl", "only 1 that can be used"),
        ("wrong.jsonl", "wrong.jsonl:1: expected"),
        ("broken.npz", "holds no population"),
        ("self", "only 2 that can be used"),
    ],
)
def test_bad_ones(ensemble, tmp_path, command, place, message):
    """One line, and nothing is written."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "few.jsonl").write_text(json.dumps({"text": prose(1)}))
    (tmp_path / "wrong.jsonl").write_text(json.dumps({"texts": prose(1)}))
    (tmp_path / "broken.npz").write_bytes(b"nothing")
    write(tmp_path / "pairs.jsonl", {"a": (prose(1), prose(2))})
    done = command("predict", "-i", "pairs.jsonl", "-o", "out", "--population", place, "--models", ensemble)
    assert done.returncode == 2, done.stderr.decode()
    assert message in done.stderr.decode().splitlines()[-1]
    assert not list((tmp_path / "out").glob("*"))
    if place != "self":
        kept = command("population", "-i", place, "-o", "kept.npz", "--models", ensemble)
        assert kept.returncode == 2
        assert not (tmp_path / "kept.npz").exists()


def test_it_travels_to_a_cluster(ensemble):
    """What a node makes of what it is sent."""
    on_ray = pytest.importorskip("pan21av.engines.on_ray")
    from pan21av.network.checkpoint import load_ensemble, manifest_hash
    from pan21av.populations import project_population

    population = project_population(load_ensemble(ensemble), draw(prose(500 + n, 40) for n in range(12)))
    files = {p.name: p.read_bytes() for p in ensemble.iterdir()} | {on_ray.POPULATION: population.to_bytes()}
    key = manifest_hash(ensemble)
    expected = Verifier.load(ensemble).with_population(population).verify(prose(1), prose(2))
    found = on_ray._verifier(on_ray._Files(files, key + population.sha256), "cpu", 1).verify(prose(1), prose(2))
    assert found == expected
    del files[on_ray.POPULATION]
    assert on_ray._verifier(on_ray._Files(files, key), "cpu", 1).verify(prose(1), prose(2)) != expected
