import json

import numpy as np
import pytest
from support import TINY_FULL, prose, write_random_ensemble

from pan21av.commands import embed as module
from pan21av.verifier import Verifier

TEXTS = [prose(n, 20 + 5 * n) for n in range(20)]


@pytest.fixture(scope="module", params=["full", "bare"])
def ensemble(request, tmp_path_factory, tiny_ensemble):
    if request.param == "bare":
        return tiny_ensemble
    return write_random_ensemble(tmp_path_factory.mktemp("models") / "full", config=TINY_FULL)


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_vectors(ensemble, tmp_path, command, monkeypatch):
    """Rows of length one; their products are the members' mean cosine."""
    monkeypatch.setattr(module, "DOCUMENTS_AT_A_TIME", 7)
    write(tmp_path / "documents.jsonl", [{"id": f"d{n}", "text": text, "more": 1} for n, text in enumerate(TEXTS)])
    done = command("embed", "-i", "documents.jsonl", "-o", "deep/vectors.npz", "--models", ensemble)
    assert done.returncode == 0, done.stderr.decode()
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["vectors.npz"]
    with np.load(tmp_path / "deep" / "vectors.npz", allow_pickle=False) as file:
        ids, vectors, tokens = file["ids"], file["vectors"].astype(np.float64), file["tokens"]
    verifier = Verifier.load(ensemble)
    embedding = verifier.embed(TEXTS)
    assert ids.tolist() == [f"d{n}" for n in range(20)]
    assert tokens.tolist() == embedding.tokens.int().tolist()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=2e-3)
    y = embedding.vectors.double().numpy()
    y /= np.linalg.norm(y, axis=-1, keepdims=True)
    np.testing.assert_allclose(vectors @ vectors.T, np.einsum("mil,mjl->mij", y, y).mean(0), atol=5e-3)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "a", "text": "x"}, {"id": "b"}], "documents.jsonl:2: expected"),
        ([{"id": 1, "text": "x"}], "documents.jsonl:1: expected"),
        ([{"id": "a", "text": " "}], "documents.jsonl:1: expected"),
        ([{"id": "a", "text": "x"}, {"id": "a", "text": "y"}], "1 documents with an id that came before"),
        ([], "holds no documents"),
    ],
)
def test_bad_input(tiny_ensemble, tmp_path, command, rows, message):
    write(tmp_path / "documents.jsonl", rows)
    done = command("embed", "-i", "documents.jsonl", "-o", "vectors.npz", "--models", tiny_ensemble)
    assert done.returncode == 2
    assert message in done.stderr.decode()
    assert [path.name for path in tmp_path.iterdir()] == ["documents.jsonl"]


def test_bad_places(tiny_ensemble, tmp_path, command):
    write(tmp_path / "documents.jsonl", [{"id": "a", "text": "x"}])
    for source, target, message in (
        ("documents.jsonl", "vectors.txt", "go into a .npz file"),
        ("nowhere.jsonl", "vectors.npz", "nowhere.jsonl is no file"),
    ):
        done = command("embed", "-i", source, "-o", target, "--models", tiny_ensemble)
        assert done.returncode == 2
        assert message in done.stderr.decode()
