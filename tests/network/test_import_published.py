"""The importer reads arrays and nothing else."""

import os
import pickle
from dataclasses import replace

import numpy as np
import pytest
from support import SHARED, needs_shared

from pan21av.commands.reading import readings
from pan21av.data.published import normalise
from pan21av.data.tokeniser import SPACES, find_tokeniser
from pan21av.errors import InputError
from pan21av.network.import_published import import_published, read_pickle
from pan21av.verifier import Verifier


class Bomb:
    def __reduce__(self):
        return os.system, ("touch exploded",)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_bomb_does_not_go_off(tmp_path, monkeypatch, protocol):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "weights.pkl"
    path.write_bytes(pickle.dumps({"hyper_parameters": Bomb(), "theta": {}, "theta_E": {}}, protocol))
    with pytest.raises(InputError, match="neither an array nor a container"):
        import_published([path], tmp_path / "out")
    assert not (tmp_path / "exploded").exists()
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_of_any_protocol(tmp_path, protocol):
    path = tmp_path / "weights.pkl"
    content = {"hyper_parameters": {"D_c": 3}, "theta": {"W": np.arange(6.0).reshape(2, 3)}, "theta_E": {}}
    path.write_bytes(pickle.dumps(content, protocol))
    np.testing.assert_array_equal(read_pickle(path)["theta"]["W"], content["theta"]["W"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a weights file"),
        (b"\x80\x04rubbish", "not a weights file"),
        (pickle.dumps([1, 2]), "does not hold"),
        (pickle.dumps({"hyper_parameters": {}, "theta": {}, "theta_E": {}}), "lacks 'D_c'"),
    ],
)
def test_other_files(tmp_path, command, content, message):
    path = tmp_path / "weights.pkl"
    path.write_bytes(content)
    done = command("import-published", path, "-o", tmp_path / "out")
    assert done.returncode == 2
    assert message in done.stderr.decode()
    assert not (tmp_path / "out").exists()


def test_an_even_number_cannot_vote(tmp_path):
    with pytest.raises(InputError, match="odd number"):
        import_published([tmp_path / "one.pkl", tmp_path / "two.pkl"], tmp_path / "out")


@needs_shared
def test_the_authors_weights_read_raw_texts(tmp_path):
    """As the program does: spaCy's rules after its replacements. The same tokens, given as such, get the same scores;
    `explain` shows them."""
    spacy = pytest.importorskip("spacy", reason="the extra `published` is not installed")
    import_published([SHARED / "golden" / "small.weights.pkl"], tmp_path / "out")
    raw = Verifier.load(tmp_path / "out", device="cpu", threads=1)
    texts = ['"I don\'t know what he said,"she told the good Mr. Fox.', "Who was here?Nobody, I think; they were gone."]
    cut = [[token.text for token in spacy.blank("en")(normalise(text)) if token.text.strip()] for text in texts]
    ensemble = replace(raw.ensemble, tokeniser=find_tokeniser(SPACES))
    spaced = Verifier(ensemble, raw.device, 1)
    expected = spaced.verify(*(" ".join(tokens) for tokens in cut))
    found = raw.verify(*texts)
    assert raw.ensemble.limits is None  # nothing is known of what they were trained on, so nothing is turned away
    for name in ("dml", "bfs", "ual", "o2d2"):
        assert found.score(name) == pytest.approx(expected.score(name), abs=1e-6)
    assert [reading.tokens for reading in readings(raw, texts)[0]] == cut
    assert [["".join(p for p, n in reading.pieces if n == number) for number in range(len(tokens))]
            for reading, tokens in zip(readings(raw, texts)[0], cut, strict=True)] == cut  # fmt: skip


@needs_shared
def test_members_must_be_alike(tmp_path):
    golden = [SHARED / "golden" / f"{name}.weights.pkl" for name in ("small", "paper-dims", "small")]
    with pytest.raises(InputError, match=r"paper-dims.* has other dimensions or another vocabulary than .*small"):
        import_published(golden, tmp_path / "out")
    assert not (tmp_path / "out").exists()
