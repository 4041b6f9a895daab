"""The authors' program, bit for bit as far as float32 goes: ../shared/golden."""

import json

import numpy as np
import pytest
import torch
from conftest import SHARED, needs_shared

from pan21av.documents import batch_of_tokens
from pan21av.official import import_ensemble
from pan21av.text import tokenise_all
from pan21av.verifier import Verifier

pytestmark = needs_shared
GOLDEN = SHARED / "golden"


@pytest.fixture(params=["small", "paper-dims"], scope="module")
def case(request, tmp_path_factory):
    name = request.param
    folder = tmp_path_factory.mktemp("golden") / name
    import_ensemble([GOLDEN / f"{name}.weights.pkl"], folder)
    pairs = [json.loads(line)["pair"] for line in (GOLDEN / f"{name}.docs.jsonl").open(encoding="utf-8")]
    return Verifier.load(folder, device="cpu"), pairs, np.load(GOLDEN / f"{name}.expected.npz")


@pytest.fixture(params=["native", "torch"])
def verifier(request, case):
    verifier = Verifier(case[0].ensemble, case[0].device, case[0].threads)
    if request.param == "native" and not verifier.native:
        pytest.skip("the native kernel was not built")
    verifier.native = request.param == "native"
    return verifier


def test_scores(case, verifier):
    _, pairs, expected = case
    verdicts = list(verifier.predict(tuple(pair) for pair in pairs))

    def column(name):
        return np.array([getattr(v, name)[0] for v in verdicts])

    for ours, theirs in (("p_dml", "pred_dml"), ("p_bfs", "pred_bfs"), ("p_o2d2", "pred_o2d2")):
        np.testing.assert_allclose(column(ours), expected[theirs][:, 0], atol=1e-5, rtol=0, err_msg=ours)
    np.testing.assert_allclose(column("p_ual"), expected["pred_ual"][:, 1], atol=1e-5, rtol=0)
    np.testing.assert_allclose(1 - column("p_ual"), expected["pred_ual"][:, 0], atol=1e-5, rtol=0)


def test_vectors_confusion_and_attention(case, verifier):
    _, pairs, expected = case
    members, config = verifier.members, verifier.config
    texts = [text for side in (0, 1) for text in (pair[side] for pair in pairs)]
    batch = batch_of_tokens(tokenise_all(texts, None, verifier.ensemble.recipe), verifier.vocabulary, config)
    with torch.inference_mode():
        encoding = members.encoder(batch, native=verifier.native, with_weights=True)
        y1, y2 = members.lev(encoding.vectors).chunk(2, 1)
        scores = members.score(members.pair(y1, y2))
    close = {"atol": 1e-5, "rtol": 0}
    np.testing.assert_allclose(y1[0], expected["lev_L"], **close)
    np.testing.assert_allclose(y2[0], expected["lev_R"], **close)
    np.testing.assert_allclose(scores.confusion[0], expected["conf_matrix"], **close)
    windows = np.zeros((2 * len(pairs), config.max_windows))
    windows[:, : encoding.window_weights.shape[-1]] = encoding.window_weights[0]
    np.testing.assert_allclose(windows, np.concatenate([expected["att_s_L"], expected["att_s_R"]]), **close)
    # We do not compute windows past the end; the program gives their tokens equal weight.
    tokens = np.full((2 * len(pairs), config.max_windows, config.window_tokens), 1 / config.window_tokens)
    for document, (start, length) in enumerate(zip(batch.documents.start, batch.documents.length, strict=True)):
        weights = encoding.token_weights[0, start : start + length]
        tokens[document, :length] = 0
        tokens[document, :length, : weights.shape[-1]] = weights
    np.testing.assert_allclose(tokens, np.concatenate([expected["att_w_L"], expected["att_w_R"]]), **close)


def test_o2d2_labels(case, verifier):
    """Whatever its eps, from 0.05 on: a posterior that near to a half is labelled undecidable."""
    expected = case[2]
    assert set(np.unique(expected["labels_o2d2"])) <= {0, 1}
    near = np.abs(expected["pred_ual"][:, 1] - 0.5) <= 0.05
    assert (expected["labels_o2d2"][near, 0] == 1).all()
