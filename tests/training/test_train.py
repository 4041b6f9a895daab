"""Training: settings, reading, gradients, and whole runs on a corpus of our own."""

import gzip
import json
import lzma
import os
import signal
import subprocess
import sys
import time

import generate
import numpy as np
import pytest
import torch
from conftest import SMALL, TINY, random_members, weights

from pan21av.encoder import Dropout
from pan21av.errors import InputError
from pan21av.metrics import auc
from pan21av.train import train
from pan21av.train.corpus import read_corpus
from pan21av.train.prepare import Prepared, prepare
from pan21av.train.settings import TrainSettings, load_settings
from pan21av.train.stage1 import (
    TopicProbe,
    all_pairs_loss,
    contrastive_loss,
    dml_loss,
    head_losses,
    ual_loss,
)
from pan21av.verifier import Verifier

# ---- settings ----


def test_settings_from_toml_and_assignments(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text("lr = 0.001\nlev_dim = 20\nsplit = 'authors'\n")
    settings = load_settings("paper", path, ["epochs=3", "split=topics", "clip=2"])
    assert (settings.lr, settings.model.lev_dim, settings.epochs, settings.split) == (0.001, 20, 3, "topics")
    assert settings.clip == 2.0
    assert TrainSettings.from_dict(settings.to_dict()) == settings


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("leaning_rate=1", "unknown setting 'leaning_rate'"),
        ("epochs=many", "epochs must be int"),
        ("epochs=1.5", "epochs must be int"),
        ("lowercase=1", "lowercase must be bool"),
        ("split=works", "split must be topics or authors"),
        ("lev_dim=0", "lev_dim"),
        ("crop_windows=2", "crop_min_windows must not exceed"),
        ("epochs", "name=value"),
    ],
)
def test_settings_that_are_refused(assignment, message):
    with pytest.raises(ValueError, match=message):
        load_settings("compact", None, [assignment])


def test_presets():
    paper, compact = load_settings("paper"), load_settings("compact")
    assert (paper.model.word_dim, compact.model.word_dim) == (300, 100)
    assert paper.warmup_epochs == 0 < compact.warmup_epochs


# ---- reading ----


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_documents_in_any_wrapping(tmp_path, suffix):
    docs = generate.documents(3, each=2, sentences=3)
    data = "".join(json.dumps(d) + "\n" for d in docs).encode()
    path = tmp_path / f"documents.jsonl{suffix}"
    path.write_bytes({"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[suffix](data))
    assert [(d.author, d.topic, d.text) for d in read_corpus(path)] == [
        (d["author"], d["topic"], d["text"]) for d in docs
    ]


def test_pan_pairs_are_taken_apart(tmp_path):
    trials = [("1", ["x", "y"], ["Ann", "Bob"]), ("2", ["x", "z"], ["Ann", "Ann"]), ("3", ["y", "z"], ["Bob", "Ann"])]
    (tmp_path / "pairs.jsonl").write_text(
        "\n".join(json.dumps({"id": i, "fandoms": ["f" + t for t in texts], "pair": texts}) for i, texts, _ in trials)
    )
    (tmp_path / "truth.jsonl").write_text(
        "\n".join(json.dumps({"id": i, "same": a[0] == a[1], "authors": a}) for i, _, a in trials)
    )
    found = {(d.author, d.topic, d.text) for d in read_corpus(tmp_path)}
    assert found == {("Ann", "fx", "x"), ("Bob", "fy", "y"), ("Ann", "fz", "z")}
    assert len(list(read_corpus(tmp_path))) == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"author": "a", "topic": "t", "text": "x"}\nnonsense\n', "documents.jsonl:2: not JSON"),
        (b'{"author": "a", "topic": "t"}\n', "documents.jsonl:1: 'text' must be a string"),
        (b'{"author": 1, "topic": "t", "text": "x"}\n', "documents.jsonl:1: 'author' must be a string"),
        (b"[]\n", "documents.jsonl:1: not a JSON object"),
    ],
)
def test_reading_errors_name_file_and_line(tmp_path, content, message):
    path = tmp_path / "documents.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        list(read_corpus(path))


def test_damaged_archive(tmp_path):
    path = tmp_path / "documents.jsonl.xz"
    path.write_bytes(lzma.compress(b'{"author": "a"}')[:-5])
    with pytest.raises(InputError, match="cannot be decompressed"):
        list(read_corpus(path))


# ---- preparation ----


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    docs = generate.documents(60, each=4, topics=8, sentences=12)
    docs.append({"author": "short", "topic": "topic0", "text": "Too short."})
    generate.write(folder / "documents.jsonl", docs)
    vectors = folder / "vectors.txt"
    vectors.write_text("2 7\nthe 1 2 3 4 5 6 7\nunheard 1 1 1 1 1 1 1\n")
    settings = TrainSettings(model=TINY, split="authors", min_tokens=50, words=200)
    made = prepare(folder / "documents.jsonl", folder / "out", settings, vectors=vectors, workers=1)
    return made, settings, docs


def test_prepared_tokens_are_the_documents(prepared):
    from pan21av.text import tokenise

    made, settings, docs = prepared
    assert len(made.split) == len(docs) - 1  # without the short one
    for number in (0, 100, 239):
        tokens = tokenise(docs[number]["text"])
        words, chars = made.vocabulary.ids(tokens, settings.model.letters)
        types = made.tokens[made.offsets[number] : made.offsets[number + 1]]
        np.testing.assert_array_equal(made.type_words[types], words)
        np.testing.assert_array_equal(made.type_chars[types], chars)


def test_batches_hold_the_documents_asked_for(prepared):
    made, settings, _ = prepared
    batch = made.batch([(3, 10, 40), (7, 0, 10_000)], settings)
    read = batch.words[batch.windows.ids.long()].numpy()
    start = made.offsets[3] + 10
    np.testing.assert_array_equal(read[:40], made.type_words[made.tokens[start : start + 40]])
    np.testing.assert_array_equal(read[40:], made.type_words[made.tokens[made.offsets[7] : made.offsets[8]]])
    assert len(batch.documents) == 2


def test_prepared_is_reused_and_vectors_are_read(prepared, tmp_path):
    made, _, _ = prepared
    again = Prepared.load(made.folder)
    assert again.fingerprint == made.fingerprint
    row = made.vocabulary.word_id("the")
    assert np.corrcoef(made.vectors[row], np.arange(7))[0, 1] == pytest.approx(1)
    assert np.isnan(np.delete(made.vectors, row, 0)).all()


# ---- losses ----


def test_each_score_is_trained_by_its_own_loss_only():
    settings = TrainSettings(model=TINY)
    members = random_members(1).requires_grad_(True)
    vectors = torch.randn(1, 12, 2 * TINY.document_hidden, requires_grad=True)
    y1, y2 = members.lev(vectors).chunk(2, 1)
    same = torch.tensor([[1.0, 0, 1, 0, 1, 0]])
    bfs, ual = head_losses(members, members.pair(y1, y2), same, settings)
    losses = {"dml": dml_loss(members.dml(y1, y2), same, settings), "bfs": bfs, "ual": ual}
    groups = {
        "vectors": [vectors],
        **{n: list(getattr(members, n).parameters()) for n in ("metric", "dml", "bfs", "ual")},
    }

    def reaches(loss, parameters):
        gradients = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
        return any(g is not None and g.abs().max() > 0 for g in gradients)

    reached = {name: {group for group, p in groups.items() if reaches(loss, p)} for name, loss in losses.items()}
    assert reached == {"dml": {"vectors", "metric", "dml"}, "bfs": {"bfs"}, "ual": {"ual"}}


@pytest.mark.parametrize("reversal", [0.0, 0.5])
def test_topic_probe_measures_or_reverses(reversal):
    torch.manual_seed(0)
    probe = TopicProbe(TrainSettings(model=TINY, probe_reversal=reversal))
    vectors = torch.randn(1, 8, 2 * TINY.document_hidden, requires_grad=True)
    p, _ = probe(vectors)
    (gradient,) = torch.autograd.grad(p.sum(), vectors, allow_unused=True)
    plain = vectors.detach().requires_grad_()
    y1, y2 = torch.tanh(probe.metric(plain)).chunk(2, 1)
    (expected,) = torch.autograd.grad(probe.dml(y1, y2).sum(), plain)
    if reversal:
        torch.testing.assert_close(gradient, -reversal * expected)
    else:
        assert gradient is None


def test_losses_by_hand():
    settings = TrainSettings()
    p, same = torch.tensor([[0.95, 0.5, 0.05, 0.3]]), torch.tensor([[1.0, 1, 0, 0]])
    assert dml_loss(p, same, settings).item() == pytest.approx((0.41**2 + 0.21**2) / 4)
    confusion = torch.full((1, 1, 2, 2), 0.5)
    expected = -np.log(0.8) - 0.105 * (-4 * 0.5 * np.log(0.5))
    assert ual_loss(confusion, torch.tensor([[0.8]]), torch.ones(1, 1), 0.105).item() == pytest.approx(
        expected, rel=1e-5
    )


def test_contrast_by_hand():
    y = torch.tensor([[0.0], [1.0], [3.0], [5.0]])
    distance = (y - y.T) ** 2 / 2.0
    rows = []
    for i, partner in enumerate([1, 0, 3, 2]):
        others = [j for j in range(4) if j != i]
        rows.append(distance[i, partner] + torch.logsumexp(-distance[i, others], 0))
    assert contrastive_loss(y, 2.0).item() == pytest.approx(float(torch.stack(rows).mean()), rel=1e-5)


def test_all_pairs_by_hand():
    members = random_members(1)
    y = torch.rand(6, TINY.lev_dim, generator=torch.Generator().manual_seed(0))
    sums, counts = {True: 0.0, False: 0.0}, {True: 0, False: 0}
    for i in range(6):
        for j in range(i):
            same = i // 2 == j // 2
            p = float(members.dml(y[None, i : i + 1], y[None, j : j + 1]))
            sums[same] -= np.log(p if same else 1 - p)
            counts[same] += 1
    expected = sum(sums[s] / counts[s] for s in sums) / 2
    assert all_pairs_loss(members, y).item() == pytest.approx(expected, rel=1e-4)


# ---- whole runs ----


@pytest.mark.slow
def test_killed_run_resumes_bit_for_bit(small_corpus, tmp_path):
    """kill -9 at a random moment, twice; then the weights of an unbroken run."""
    out = tmp_path / "killed"
    arguments = [
        sys.executable,
        "-m",
        "pan21av",
        "train",
        str(small_corpus),
        "-o",
        str(out),
        "--members",
        "3",
        "--jobs",
        "2",
    ]
    for assignment in SMALL:
        arguments += ["--set", assignment]
    rng = np.random.default_rng(int.from_bytes(os.urandom(4), "little"))
    for _ in range(2):
        process = subprocess.Popen(
            arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(float(rng.uniform(4, 14)))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert not out.exists() or (out / "ensemble.json").exists()
    subprocess.run(arguments, check=True, capture_output=True)
    train(small_corpus, tmp_path / "whole", members=3, assignments=SMALL, jobs=1)
    assert weights(out) == weights(tmp_path / "whole")
    info = json.loads((out / "ensemble.json").read_text())
    assert set(info["validation"]) == {"dml", "bfs", "ual", "o2d2", "ensemble", "ensemble_o2d2"}
    assert info["training"]["settings"]["lev_dim"] == 12
    assert (out / "training.png").read_bytes().startswith(b"\x89PNG")
    assert "ensemble + O2D2" in (out / "MODEL_CARD.md").read_text()


@pytest.mark.slow
def test_paper_preset_runs(small_corpus, tmp_path):
    """Pairs only, no warm-up, O2D2 on all calibration authors."""
    (tmp_path / "notes.md").write_text("Made for a test.")
    sizes = [a for a in SMALL if not a.startswith(("warmup", "head_epochs", "crop", "draws"))]
    out = tmp_path / "paper"
    figures = train(
        small_corpus, out, preset="paper", members=1, assignments=sizes, jobs=1, notes=tmp_path / "notes.md"
    )
    assert 0 <= figures["ensemble"]["auc"] <= 1
    stages = [
        json.loads(line)["stage"] for line in (out.with_name("paper.work") / "member-01" / "history.jsonl").open()
    ]
    assert stages == ["pairs"] * 2 + ["o2d2"] * 3
    assert "Made for a test." in (out / "MODEL_CARD.md").read_text()


def test_dropout_masks_are_shared(prepared):
    """The same document twice in a batch stays the same; the next batch has another mask."""
    made, settings, _ = prepared
    members = random_members(1, vocabulary=made.vocabulary).train()
    dropout = Dropout(0.3, 0.3, 0.3, 0.3, 0.3)
    one, other = (
        members.encoder(made.batch([(3, 0, 60), (3, 0, 60)], settings), dropout=dropout).vectors for _ in "ab"
    )
    torch.testing.assert_close(one[:, 0], one[:, 1], atol=1e-6, rtol=0)
    assert (one - other).abs().max() > 1e-3


@pytest.mark.slow
def test_finished_members_are_kept_and_other_settings_refused(small_corpus, tmp_path):
    train(small_corpus, tmp_path / "one", members=1, assignments=SMALL, jobs=1)
    result = tmp_path / "one.work" / "member-01" / "result.json"
    stamp = result.stat().st_mtime_ns
    train(small_corpus, tmp_path / "one", members=1, assignments=SMALL, jobs=1)
    assert result.stat().st_mtime_ns == stamp
    with pytest.raises(InputError, match="other settings"):
        train(small_corpus, tmp_path / "one", members=1, assignments=[*SMALL, "lr=0.5"], jobs=1)
    # On another machine only the ensemble is left: its members are taken over, the others trained.
    before = weights(tmp_path / "one")
    train(small_corpus, tmp_path / "one", members=3, assignments=SMALL, jobs=2, work=tmp_path / "elsewhere")
    adopted = json.loads((tmp_path / "elsewhere" / "member-01" / "result.json").read_text())
    assert adopted == json.loads(result.read_text())
    assert len(weights(tmp_path / "one")) == 6
    assert before.items() <= weights(tmp_path / "one").items()
    with pytest.raises(InputError, match="odd number"):
        train(small_corpus, tmp_path / "one", members=2, assignments=SMALL)


# ---- does it learn? ----

QUICK = [
    "train_share=0.5", "words=1000", "warmup_epochs=8", "warmup_steps=14", "warmup_authors=48", "warmup_windows=12",
    "warmup_min_windows=4", "head_epochs=5", "crops=2", "draws=16", "o2d2_epochs=20", "o2d2_lr=3e-3",
    "o2d2_lr_end=1e-3", "o2d2_batch=30",
]  # fmt: skip


def write_corpus(folder, **options):
    path = folder / "documents.jsonl"
    generate.write(path, generate.documents(400, each=8, topics=24, sentences=30, strength=0.52, **options))
    return path


@pytest.mark.slow
def test_habits_of_unseen_authors_on_unseen_topics_are_learnt(tmp_path):
    figures = train(write_corpus(tmp_path), tmp_path / "out", members=3, assignments=QUICK)
    assert figures["ensemble_o2d2"]["auc"] >= 0.90
    assert figures["o2d2"]["c@1"] > figures["ual"]["c@1"]
    for member in (1, 2, 3):
        lines = (tmp_path / "out.work" / f"member-{member:02d}" / "history.jsonl").read_text().splitlines()
        probes = [record["topic_accuracy"] for record in map(json.loads, lines) if "topic_accuracy" in record]
        assert abs(probes[-1] - 0.5) <= 0.10


@pytest.mark.slow
def test_nothing_leaks_when_the_labels_are_shuffled(tmp_path):
    quick = [*QUICK, "warmup_epochs=4", "o2d2_epochs=1", "head_epochs=2", "split=authors", "train_share=0.2"]
    corpus = write_corpus(tmp_path, shuffled=True)
    train(corpus, tmp_path / "out", members=1, assignments=quick)
    docs = [json.loads(line) for line in corpus.read_text().splitlines()]
    split = Prepared.load(tmp_path / "out.work" / "prepared").split
    assert len(split) == len(docs)
    # Pairs across topics only: same-topic texts are alike whoever wrote them.
    rng = np.random.default_rng(0)
    same, different = [], []
    for i in np.flatnonzero(split == 2):
        for j in rng.choice(np.flatnonzero(split == 2), 40):
            if docs[i]["topic"] != docs[j]["topic"] and docs[i]["author"] != docs[j]["author"] and len(different) < 600:
                different.append((docs[i]["text"], docs[j]["text"]))
                break
        partners = [j for j in np.flatnonzero(split == 2) if i < j < i + 8 and docs[i]["author"] == docs[j]["author"]]
        same += [(docs[i]["text"], docs[j]["text"]) for j in partners[:2] if docs[i]["topic"] != docs[j]["topic"]]
    same = same[:600]
    verdicts = list(Verifier.load(tmp_path / "out").predict(same + different))
    truth = np.arange(len(verdicts)) < len(same)
    assert min(len(same), len(different)) >= 500
    for name in ("p_ual", "p_bfs", "p_dml"):
        assert 0.45 <= auc(truth, np.array([getattr(v, name)[0] for v in verdicts])) <= 0.55, name
