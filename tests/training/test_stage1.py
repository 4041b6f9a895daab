"""Stage one: broken off and resumed, its best epoch; and that a document has one embedding, wherever it is made."""

import numpy as np
import pytest
import torch
from support import TINY_FULL, random_network

from pan21av.data.tokeniser import DEFAULT
from pan21av.metrics import pan_metrics
from pan21av.network import kernel, recurrent
from pan21av.network.checkpoint import member_files, save_ensemble
from pan21av.training import stage1
from pan21av.training.prepared import Span
from pan21av.training.stage1 import CHECKPOINT, CONTRASTIVE, PAIRS, StageOne, embed_spans
from pan21av.verifier import Verifier

CPU = torch.device("cpu")


class Interrupted(Exception):
    pass


def run(corpus, folder, stop=None):
    """(network, records); `stop` breaks it off after so many epochs."""
    folder.mkdir(exist_ok=True)
    records = []

    def log(record):
        records.append(record)
        if len(records) == stop:
            raise Interrupted

    try:
        return StageOne(corpus.prepared, corpus.settings, 5, CPU).run(folder, log), records
    except Interrupted:
        return None, records


@pytest.fixture(scope="module")
def unbroken(corpus, tmp_path_factory):
    return run(corpus, tmp_path_factory.mktemp("unbroken"))


def without_seconds(records):
    return [{k: v for k, v in record.items() if k != "seconds"} for record in records]


def test_the_stages_of_stage_one(unbroken):
    _, records = unbroken
    assert [(r["stage"], r["epoch"]) for r in records] == [
        (CONTRASTIVE, 1), (CONTRASTIVE, 2), (PAIRS, 3), (PAIRS, 4),
    ]  # fmt: skip
    assert "dev_auc_distance" not in records[0]  # looked at seldom, and at the end
    assert "dev_auc_distance" in records[1]


@pytest.mark.parametrize("stop", [1, 2, 3, 4])
def test_broken_off_after_any_epoch_and_resumed(corpus, unbroken, tmp_path, monkeypatch, stop):
    """The epochs that were done are not done again, and the weights are those of an unbroken run, to the last bit."""
    _, before = run(corpus, tmp_path / "member", stop)
    assert (tmp_path / "member" / CHECKPOINT).exists()
    computed = []
    for name in ("contrastive_epoch", "pair_epoch"):
        real = getattr(stage1, name)
        monkeypatch.setattr(stage1, name, lambda *args, real=real: (computed.append(args), real(*args))[1])
    network, records = run(corpus, tmp_path / "member")
    assert len(computed) == 4 - stop
    assert records[:stop] == before  # told again, with the seconds that they took then
    assert without_seconds(records) == without_seconds(unbroken[1])
    expected = unbroken[0].state_dict()
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, expected[name]), name


def test_it_ends_at_its_best_epoch(corpus, unbroken):
    """By `overall` of UAL on the development pairs."""
    network, records = unbroken
    prepared = corpus.prepared
    pairs, count = prepared.development, len(prepared.development)
    spans = [Span(int(d), 0, prepared.model.max_tokens) for d in pairs.T.flatten()]
    with torch.no_grad():
        p = network.score(embed_spans(network, prepared, spans, CPU).pair(slice(0, count), slice(count, None))).ual[0]
    overall = pan_metrics(prepared.catalogue.same_author(pairs), p.double().numpy())["overall"]
    assert overall == pytest.approx(max(r["overall"] for r in records if "overall" in r), abs=1e-4)
    assert not network.training


def test_what_it_trains(corpus, unbroken):
    """All but O2D2 and the fitted LDA; words of which there were vectors begin there."""
    start = StageOne(corpus.prepared, corpus.settings, 5, CPU).state.network
    prepared = corpus.prepared
    row = prepared.vocabulary.word_id("the")
    np.testing.assert_array_equal(start.encoder.words[0, row].detach(), prepared.vectors[row])
    after = unbroken[0].state_dict()
    groups = {True: set(), False: set()}
    for name, tensor in start.state_dict().items():
        groups[torch.equal(tensor, after[name])].add(name.partition(".")[0])
    assert groups == {False: {"encoder", "metric", "dml", "bfs", "ual"}, True: {"o2d2", "lda"}}


@pytest.mark.parametrize("implementation", ["kernel", "reference"])
def test_a_document_has_one_embedding(corpus, tmp_path, implementation):
    """In training (token ids from disk) and in prediction (text): to the last bit with the kernel. More documents
    than a batch holds, and some longer than a network reads."""
    if implementation == "kernel" and not kernel.available():
        pytest.skip("the native kernel was not built")
    prepared, numbers = corpus.prepared, np.random.default_rng(0).permutation(150)
    network = random_network(3, TINY_FULL, vocabulary=prepared.vocabulary)
    state = network.state_dict()
    members = [{name: tensor[m] for name, tensor in state.items()} for m in range(3)]
    save_ensemble(
        tmp_path / "one", config=TINY_FULL, tokeniser=DEFAULT, vocabulary=prepared.vocabulary,
        members=[member_files(member, ("o2d2.",), half=False) for member in members],
    )  # fmt: skip
    with recurrent.only(implementation):
        spans = [Span(int(number), 0, prepared.model.max_tokens) for number in numbers]
        trained = embed_spans(network, prepared, spans, CPU)
        predicted = Verifier.load(tmp_path / "one", threads=2).embed([corpus.documents[n]["text"] for n in numbers])
    assert torch.equal(trained.tokens, predicted.tokens)
    assert trained.parts == predicted.parts
    assert int((trained.tokens == prepared.model.max_tokens).sum()) > 10
    if implementation == "kernel":
        assert torch.equal(trained.vectors, predicted.vectors)
        assert torch.equal(trained.cohort_distance, predicted.cohort_distance)
    torch.testing.assert_close(trained.vectors, predicted.vectors, atol=1e-5, rtol=0)
    torch.testing.assert_close(trained.cohort_distance, predicted.cohort_distance, atol=1e-5, rtol=1e-4)
