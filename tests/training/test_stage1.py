"""Stage one: broken off and resumed, its best epoch; and that a document has one embedding, wherever it is made."""

import numpy as np
import pytest
import torch
from support import TINY_FULL, random_network
from torch import nn

from pan21av.data.layout import layout
from pan21av.data.tokeniser import DEFAULT, find_tokeniser
from pan21av.metrics import pan_metrics
from pan21av.network import kernel, recurrent
from pan21av.network.checkpoint import member_files, save_ensemble
from pan21av.training import stage1
from pan21av.training.prepared import TRAIN, VALIDATE, Span
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
        p = network.score(embed_spans(network, prepared, spans).pair(slice(0, count), slice(count, None))).ual[0]
    overall = pan_metrics(prepared.catalogue.same_author(pairs), p.double().numpy())["overall"]
    assert overall == pytest.approx(max(r["overall"] for r in records if "overall" in r), abs=1e-4)
    assert not network.training


def test_what_it_trains(corpus, unbroken):
    """The encoder alone, with all scores but O2D2; words of which there were vectors begin there."""
    start = StageOne(corpus.prepared, corpus.settings, 5, CPU).state.network
    prepared = corpus.prepared
    row = prepared.vocabulary.word_id("the")
    np.testing.assert_array_equal(start.encoder.words[0, row].detach(), prepared.vectors[row])
    after = unbroken[0].state_dict()
    groups = {True: set(), False: set()}
    for name, tensor in start.state_dict().items():
        groups[torch.equal(tensor, after[name])].add(name.partition(".")[0])
    assert groups == {False: {"encoder", "metric", "dml", "bfs", "ual"}, True: {"o2d2"}}
    assert start.config.lev_parts == (corpus.settings.model.encoder_dim,)
    assert start.ngrams is start.cohort is start.part_scale is None


# ---- standardised document vectors ----


def standardised(network, norm, prepared):
    """A batch-norm with the statistics that it should end with, of whole training texts: the mean of the means of
    sources, the mean of their variances."""
    documents, source = prepared.documents(TRAIN), prepared.catalogue.source
    by_source = []
    for number in np.unique(source[documents]):
        spans = [Span(int(d), 0, prepared.model.max_tokens) for d in documents if source[d] == number]
        with torch.no_grad():
            by_source.append(network.encode(prepared.batch(spans, network.config))[0].double())
    made = nn.BatchNorm1d(norm.num_features, eps=norm.eps, affine=False).double().eval()
    made.running_mean.copy_(torch.stack([vectors.mean(0) for vectors in by_source]).mean(0))
    made.running_var.copy_(torch.stack([vectors.var(0, unbiased=False) for vectors in by_source]).mean(0))
    return made


def test_what_is_shipped_does_what_the_norm_did(corpus, tmp_path):
    """The metric layer of a copy standardises as well; training goes on with the network as it was."""
    one = StageOne(corpus.prepared, corpus.settings, 5, CPU)
    one.run(tmp_path, lambda record: None)
    state, prepared = one.state, corpus.prepared
    assert isinstance(state.norm, nn.BatchNorm1d)
    before = {name: tensor.clone() for name, tensor in state.network.state_dict().items()}
    shipped = one._as_shipped()
    for name, tensor in state.network.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    changed = {n for n, tensor in shipped.state_dict().items() if not torch.equal(tensor, before[n])}
    assert changed == {"metric.weight", "metric.bias"}
    batch = prepared.batch([Span(int(d), 0, 100) for d in prepared.documents(VALIDATE)[:20]], shipped.config)
    network, norm = state.network.eval(), standardised(state.network.eval(), state.norm, prepared)
    with torch.no_grad():
        vectors = norm(network.encode(batch)[0].double())[None]
        expected = torch.tanh(vectors @ network.metric.weight.double() + network.metric.bias.double()[:, None])
        torch.testing.assert_close(shipped.project(batch).double(), expected, atol=1e-4, rtol=1e-3)
        bare = network.project(batch)
    assert (bare - expected).abs().max() > 0.05, "standardising makes no difference here"


def test_the_norm_is_kept_through_pair_training(corpus, tmp_path, monkeypatch):
    """Without it, pairs undo what contrast has learnt. What each epoch is judged by is the copy, not the network."""
    norms, judged = [], []
    for name in ("contrastive_epoch", "pair_epoch"):
        real = getattr(stage1, name)
        monkeypatch.setattr(stage1, name, lambda *args, real=real: (norms.append(args[1]), real(*args))[1])
    real_develop = StageOne._develop
    monkeypatch.setattr(
        StageOne, "_develop", lambda self, network: (judged.append(network), real_develop(self, network))[1]
    )
    one = StageOne(corpus.prepared, corpus.settings, 5, CPU)
    records = []
    one.run(tmp_path, records.append)
    assert norms == [one.state.norm] * 4
    steps = 2 * corpus.settings.contrastive.steps
    steps += sum(-(-record["pairs"] // corpus.settings.pairs.batch) for record in records[2:])
    assert int(one.state.norm.num_batches_tracked) == steps
    assert len(judged) == 3  # after the last epoch of contrast, and of pairs after each
    assert one.state.network not in judged
    best = max(range(1, 3), key=lambda n: records[n + 1]["overall"])
    for name, tensor in one.state.network.state_dict().items():
        assert torch.equal(tensor, judged[best].state_dict()[name]), name


def test_without_contrast_there_is_no_norm(corpus, tmp_path):
    """As in the paper: the network is shipped as it was trained."""
    settings = corpus.settings.updated({"contrastive": {"epochs": 0}, "pairs": {"epochs": 1}})
    one = StageOne(corpus.prepared, settings, 5, CPU)
    network = one.run(tmp_path, lambda record: None)
    assert isinstance(one.state.norm, nn.Identity)
    shipped = one._as_shipped().state_dict()
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, shipped[name]), name


@pytest.mark.parametrize("implementation", ["kernel", "reference"])
def test_a_document_has_one_embedding(corpus, tmp_path, implementation):
    """In training (token ids from disk) and in prediction (text): to the last bit with the kernel. More documents
    than a batch holds, and some longer than a network reads: of those the layout is cut where the tokens end, which
    training knows less well (see below)."""
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
        trained = embed_spans(network, prepared, spans)
        predicted = Verifier.load(tmp_path / "one", threads=2).embed([corpus.documents[n]["text"] for n in numbers])
    assert torch.equal(trained.tokens, predicted.tokens)
    assert trained.parts == predicted.parts
    whole = torch.from_numpy(np.diff(prepared.offsets)[numbers] <= prepared.model.max_tokens)
    assert min(whole.sum(), (~whole).sum()) > 10
    exact = torch.tensor([part != "layout" for part in TINY_FULL.part_names])
    wide = exact.repeat_interleave(torch.tensor(TINY_FULL.lev_parts))
    for name, columns in (("vectors", wide), ("cohort", exact), ("norm", ...), ("strangeness", ...)):
        mine, theirs = getattr(trained, name), getattr(predicted, name)
        for rows in ((slice(None), slice(None), columns), (slice(None), whole)):
            one, other = mine[rows], theirs[rows]
            if implementation == "kernel":
                assert torch.equal(one, other), name
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_layout_is_cut_where_the_tokens_end(corpus):
    """Training knows where by the share of tokens, prediction by that of characters: a few symbols make no matter."""
    prepared, limit, seen = corpus.prepared, corpus.prepared.model.max_tokens, 0
    for number, length in enumerate(np.diff(prepared.offsets)):
        text = corpus.documents[number]["text"]
        trained = prepared.layout_of(Span(number, 0, limit))
        predicted = find_tokeniser(DEFAULT).encode(text, limit, mend=True, layout=True).layout
        if length <= limit:
            np.testing.assert_array_equal(trained, predicted)
            continue
        seen += 1
        assert abs(len(trained) - len(predicted)) < 0.05 * len(trained) < 0.9 * len(layout(text))
        both = min(len(trained), len(predicted)) - 1  # the last one may be half a word
        np.testing.assert_array_equal(trained[:both], predicted[:both])
    assert seen > 10
