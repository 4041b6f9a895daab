"""The main job, through the real command and through the Python interface."""

import json

import numpy as np
import pytest
from conftest import write_random_ensemble
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pan21av import kernel
from pan21av.predict import predict
from pan21av.verifier import Verifier

WORDS = [
    "the",
    "old",
    "ship",
    "was",
    "not",
    "here",
    "but",
    "they",
    "had",
    "it",
    "in",
    "that",
    "house",
    "for",
    "a",
    "while",
    "as",
    "you",
    "know",
]


def text(seed, words=80):
    rng = np.random.default_rng(seed)
    return " ".join(rng.choice(WORDS, words)) + "."


def write_pairs(path, pairs, **extra):
    lines = [json.dumps({"id": i, "pair": list(pair), **extra}, ensure_ascii=False) for i, pair in pairs.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def read_answers(folder):
    return {a["id"]: a["value"] for a in map(json.loads, (folder / "answers.jsonl").read_text().splitlines())}


@pytest.fixture(scope="module")
def verifier(tiny_ensemble):
    return Verifier.load(tiny_ensemble, device="cpu", threads=2)


def test_command(tiny_ensemble, tmp_path, process):
    pairs = {f"pair {n}": (text(n), text(n + 50)) for n in range(70)}  # more than two chunks
    source = write_pairs(tmp_path / "pairs.jsonl", pairs, fandoms=["a", "b"], unknown={"field": 1})
    done = process("predict", "-i", source, "-o", tmp_path / "deep" / "out", "--models", tiny_ensemble)
    assert done.returncode == 0, done.stderr.decode()
    out = tmp_path / "deep" / "out"
    answers = read_answers(out)
    assert list(answers) == list(pairs)
    assert all(0 <= value <= 1 for value in answers.values())
    assert sorted(p.name for p in out.iterdir()) == ["answers.jsonl", "run.json"]
    report = json.loads((out / "run.json").read_text())
    assert report["pairs"] == 70
    assert report["members"] == 3
    assert report["non_responses"] == sum(value == 0.5 for value in answers.values())
    assert report["pairs_per_second"] > 0
    assert b"computing on cpu" in done.stderr


def test_tira_variables_and_directories(tiny_ensemble, tmp_path, process):
    (tmp_path / "in").mkdir()
    write_pairs(tmp_path / "in" / "pairs.jsonl", {"a": (text(1), text(2)), "b": (text(3), text(3))})
    (tmp_path / "in" / "truth.jsonl").write_text("{}")
    environment = {
        "inputDataset": str(tmp_path / "in"),
        "outputDir": str(tmp_path / "out"),
        "PAN21AV_MODELS": str(tiny_ensemble),
    }
    done = process("predict", env=environment)
    assert done.returncode == 0, done.stderr.decode()
    assert list(read_answers(tmp_path / "out")) == ["a", "b"]


def test_standard_input(tiny_ensemble, tmp_path, process):
    line = json.dumps({"id": "x", "pair": [text(1), text(2)]}).encode()
    done = process("predict", "-i", "-", "-o", tmp_path, "--models", tiny_ensemble, input=line)
    assert done.returncode == 0, done.stderr.decode()
    assert list(read_answers(tmp_path)) == ["x"]


def test_unusable_texts_are_not_answered(tiny_ensemble, tmp_path):
    rows = [["", text(1)], [" \n", text(1)], [text(1)], None, [text(1), 7], [text(1), text(2)]]
    lines = [json.dumps({"id": str(n), "pair": pair}) for n, pair in enumerate(rows)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines))
    report = predict(str(tmp_path / "pairs.jsonl"), tmp_path, models=tiny_ensemble)
    answers = read_answers(tmp_path)
    assert [answers[str(n)] for n in range(5)] == [0.5] * 5
    assert report["unusable"] == 5
    assert report["pairs"] == 6


def test_missing_ensemble(tmp_path, command):
    source = write_pairs(tmp_path / "pairs.jsonl", {"a": ("x", "y")})
    done = command("predict", "-i", source, "-o", tmp_path, "--models", tmp_path / "nowhere")
    assert done.returncode == 3
    assert b"looked for" in done.stderr
    assert b"nowhere/ensemble.json" in done.stderr


def test_even_ensembles_are_refused(tmp_path):
    with pytest.raises(ValueError, match="odd number"):
        write_random_ensemble(tmp_path / "two", count=2)


def test_order_batch_and_neighbours_do_not_matter(verifier):
    pairs = [(text(n, 5 + 13 * n), text(99 - n, 400 - 9 * n)) for n in range(40)]
    expected = [verdict.probability for verdict in verifier.predict(pairs)]
    assert len(set(expected)) > 10
    for chunk in (1, 7, 100):
        fresh = Verifier(verifier.ensemble, verifier.device, verifier.threads)
        found = [verdict.probability for verdict in fresh.predict(reversed(pairs), chunk=chunk)]
        np.testing.assert_allclose(found[::-1], expected, atol=1e-6, rtol=0)


@pytest.mark.skipif(not kernel.available(), reason="the torch path does not promise it")
def test_levs_are_the_same_to_the_last_bit_in_any_company(verifier):
    """What resuming relies on: a document read again in another batch has the same LEV."""
    texts = [text(n, 1 + 7 * n) for n in range(60)]

    def levs(chosen):
        fresh = Verifier(verifier.ensemble, verifier.device, 2)
        list(fresh.predict([(t, t) for t in chosen], chunk=64))
        return {t: lev.value for t, lev in zip(chosen, fresh._known.values(), strict=True)}

    together = levs(texts)
    for part in (texts[:1], texts[7:9], texts[30:33], texts[5:50], texts[::-1]):
        assert all(np.array_equal(value, together[t]) for t, value in levs(part).items())


@pytest.mark.skipif(not kernel.available(), reason="the native kernel was not built")
def test_kernel_and_torch_agree(verifier):
    pairs = [(text(n, 1 + 40 * n), text(99 - n, 300)) for n in range(12)]
    slow = Verifier(verifier.ensemble, verifier.device, 1)
    slow.native = False
    for one, other in zip(verifier.predict(pairs), slow.predict(pairs), strict=True):
        for name in ("p_dml", "p_bfs", "p_ual", "p_o2d2"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-5, rtol=0)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(min_size=1), st.text(min_size=1), st.integers(1, 40))
def test_any_unicode_either_way_round(verifier, first, second, repeat):
    first *= repeat
    one, other = verifier.verify(first, second), verifier.verify(second, first)
    assert one.probability == pytest.approx(other.probability, abs=1e-6)
    assert 0 <= one.probability <= 1
    assert one.abstained + one.same + one.different == 3


def test_repeated_documents_are_encoded_once(verifier, monkeypatch):
    seen = []
    encode = verifier._encode
    monkeypatch.setattr(
        verifier, "_encode", lambda chunk, tokens, pool: seen.append(len(tokens)) or encode(chunk, tokens, pool)
    )
    texts = [text(1000 + n) for n in range(9)]
    pairs = [(a, b) for a in texts for b in texts]
    assert len(list(verifier.predict(pairs, chunk=10))) == 81
    assert sum(seen) == 9


def test_verify_command(tiny_ensemble, tmp_path, command):
    (tmp_path / "a.txt").write_text(text(1))
    (tmp_path / "b.txt").write_text(text(2))
    plain = command("verify", "a.txt", "b.txt", "--models", tiny_ensemble)
    assert plain.returncode == 0, plain.stderr.decode()
    assert b"of 3 members" in plain.stdout
    report = json.loads(command("verify", "a.txt", "b.txt", "--json", "--models", tiny_ensemble).stdout)
    assert report["members"] == report["abstained"] + report["same"] + report["different"] == 3
    assert report["probability"] == pytest.approx(
        Verifier.load(tiny_ensemble).verify(text(1), text(2)).probability, abs=1e-6
    )
    (tmp_path / "c.txt").write_bytes(b"caf\xe9")
    refused = command("verify", "a.txt", "c.txt", "--models", tiny_ensemble)
    assert refused.returncode == 2
    assert b"not UTF-8" in refused.stderr


def test_info_command(tiny_ensemble, command):
    done = command("info", "--models", tiny_ensemble)
    assert b"3, text recipe pan21av-1" in done.stdout
    assert b"cpu" in done.stdout
