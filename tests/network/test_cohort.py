"""Strangers as the yardstick: units, scantness and what stage two makes of them, against plain formulas."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import SMALL, TINY, random_members, tiny_vocabulary
from hypothesis import given, settings
from hypothesis import strategies as st

from pan21av import Verifier
from pan21av.documents import batch_of_tokens
from pan21av.model import Members
from pan21av.scores import BFS, UAL, LevPair
from pan21av.strangers import LEAST_UNIT, NEIGHBOURS, nearness
from pan21av.text import tokenise_all
from pan21av.train.member import with_strangers
from pan21av.train.moments import start_ual
from pan21av.train.prepare import prepare
from pan21av.train.run import train
from pan21av.train.settings import TrainSettings, load_settings
from pan21av.train.stage2 import StageTwo, stranger_documents

CONFIG = replace(TINY, style_dim=4, style_words=6, style_chars=3, strangers=30)


def members_with_strangers(count: int):
    members = random_members(count, CONFIG)
    generator = torch.Generator().manual_seed(5)
    members.strangers.levs.data = torch.rand(count, CONFIG.strangers, CONFIG.lev_dim, generator=generator) * 2 - 1
    return members


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 25), st.booleans())
def test_units_are_mean_squares_to_the_nearest(seed, strangers, masked):
    rng = np.random.default_rng(seed)
    parts, documents = (5, 3), 4
    y, others = rng.uniform(-1, 1, (documents, 8)), rng.uniform(-1, 1, (strangers, 8))
    usable = rng.random((documents, strangers)) < 0.5 if masked else np.ones((documents, strangers), dtype=bool)
    usable[:, 0] = True
    units = nearness(
        torch.from_numpy(y), torch.from_numpy(others), parts, torch.from_numpy(usable) if masked else None
    ).numpy()
    for d in range(documents):
        for part, columns in enumerate((slice(0, 5), slice(5, 8))):
            squares = sorted(
                sum((a - b) ** 2 for a, b in zip(y[d, columns], other[columns], strict=True))
                for other, counts in zip(others, usable[d], strict=True)
                if counts
            )[:NEIGHBOURS]
            assert units[d, part] == pytest.approx(np.mean(squares) / len(y[d, columns]), rel=1e-9)


def test_a_pair_is_measured_in_the_mean_of_its_units():
    members = members_with_strangers(2)
    generator = torch.Generator().manual_seed(1)
    bare = torch.rand(2, 2, 3, 9, generator=generator) * 2 - 1
    behind = torch.tensor([[500.0, 0.5, 2.0], [2000.0, 1.5, 4.0]])[:, None, None].expand(2, 2, 3, 3)
    pair = members.pair(*torch.cat([bare, behind], -1))
    squares = (bare[0] - bare[1]).square()
    expected = torch.cat([squares[..., :5] / 1.0, squares[..., 5:] / 3.0], -1)
    torch.testing.assert_close(pair.squares, expected)
    torch.testing.assert_close(pair.bare1, bare[0])
    expected_lengths = [math.log(1330 / 2 * (1 / 500 + 1 / 2000)), math.log(2000 / 500)]
    assert pair.lengths.flatten().tolist() == pytest.approx(expected_lengths * 6)


def test_scores_are_symmetric_and_know_the_length():
    members = members_with_strangers(3)
    members.ual.slope.data.fill_(-0.4)
    generator = torch.Generator().manual_seed(2)
    y = torch.rand(2, 3, 8, 9, generator=generator) * 2 - 1
    tokens = torch.randint(100, 4000, (2, 8), generator=generator).float()
    first, second = (
        torch.cat([y[s], torch.stack([members.strangers.behind(m, y[s, m], tokens[s]) for m in range(3)])], -1)
        for s in (0, 1)
    )
    one, other = members.score(members.pair(first, second)), members.score(members.pair(second, first))
    for name in ("dml", "bfs", "ual", "confusion", "o2d2"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name
    longer = first.clone()
    longer[..., 9] *= 2
    assert not torch.allclose(one.ual, members.score(members.pair(longer, second)).ual)


def test_both_ways_to_the_lev_agree():
    members = members_with_strangers(3)
    texts = ["the cat was here and it is not that", "but they had a house in the sea", "of of of"]
    batch = batch_of_tokens(tokenise_all(texts), tiny_vocabulary(), CONFIG)
    vectors = members.encoder(batch).vectors
    together = members.lev(vectors, batch)
    assert together.shape == (3, 3, CONFIG.lev_dim + 1 + 2)
    assert together[0, :, CONFIG.lev_dim].tolist() == [9, 8, 3]
    for m in range(3):
        torch.testing.assert_close(members.member_lev(m, vectors[m], batch), together[m], atol=1e-5, rtol=1e-5)


def test_ual_learns_what_length_means():
    """Pairs whose logit is 2 exp(-0.5 scantness) (1 - distance + 0.7 scantness + unevenness)."""
    generator = torch.Generator().manual_seed(3)

    def drawn(count):
        scantness = torch.rand(1, count, generator=generator) * 3 - 1.5
        distance = torch.rand(1, count, generator=generator) * 4 - 1
        unevenness = torch.rand(1, count, generator=generator)
        logit = 2 * torch.exp(-0.5 * scantness) * (1 - distance + 0.7 * scantness + unevenness)
        same = (torch.rand(1, count, generator=generator) < logit.sigmoid()).float()
        y1, y2 = torch.zeros(1, count, 3), torch.zeros(1, count, 3)
        y2[..., 0] = (distance + 1).sqrt()
        return (LevPair(y1, y2, y1, y2, torch.stack([scantness, unevenness], -1)), same), logit.sigmoid()

    torch.manual_seed(0)
    bfs, ual = BFS(1, 3, 2, official=False).requires_grad_(False), UAL(1, 3, knows_length=True).requires_grad_(False)
    bfs.projection.weight.zero_()  # says nothing: UAL must do it all
    start_ual(ual, bfs, drawn(20_000)[0], drawn(5_000)[0], steps=1500)
    (pair, _), truth = drawn(2_000)
    said = ual.correct(ual.confusion(pair.y1, pair.y2, lengths=pair.lengths), torch.full((1, 2_000), 0.5))
    assert float((said - truth).abs().mean()) < 0.03
    assert float(ual.slope) == pytest.approx(-0.5, abs=0.12)


def test_strangers_need_scores_that_begin_anew():
    with pytest.raises(ValueError, match="head_epochs"):
        TrainSettings(model=CONFIG)


@pytest.mark.slow
def test_training_with_strangers_and_taking_over_stage_one(small_corpus, tmp_path):
    """A new stage two over an old stage one gives, to the byte, what training from the start gives."""
    common = [*SMALL, "epochs=0", "head_epochs=2", "o2d2_epochs=2"]
    changed = [*common, "strangers=25", "o2d2_lr=0.002"]
    train(small_corpus, tmp_path / "a", members=1, assignments=common, jobs=1)
    train(small_corpus, tmp_path / "a", members=1, assignments=changed, jobs=1, work=tmp_path / "anew")
    assert not (tmp_path / "anew" / "member-01" / "history.jsonl").read_bytes().count(b"warm-up")
    train(small_corpus, tmp_path / "b", members=1, assignments=changed, jobs=1)
    assert (tmp_path / "b.work" / "member-01" / "history.jsonl").read_bytes().count(b"warm-up")
    for part in ("stage1", "o2d2"):
        name = f"member-01.{part}.safetensors"
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    verifier = Verifier.load(tmp_path / "b")
    levs = verifier.members.strangers.levs
    assert levs.shape[1] == verifier.config.strangers <= 25
    assert len(torch.unique(levs[0], dim=0)) == levs.shape[1]  # all different, none left at 0
    assert verifier.verify("the cat sat. " * 30, "a dog was not here! " * 30).probability <= 1


def test_nobody_is_his_own_stranger(small_corpus, tmp_path):
    """Units of calibration documents, in both guises, against a plain count over the strangers that may count."""
    lines = [json.loads(line) for line in small_corpus.read_text().splitlines()]
    for line in lines:  # two sources: a and b
        line["source"] = "ab"[int.from_bytes(line["author"].encode(), "big") % 2]
    corpus = tmp_path / "documents.jsonl"
    corpus.write_text("".join(json.dumps(line) + "\n" for line in lines))
    chosen = load_settings("compact", None, [*SMALL, "strangers=12", "train_share=0.4", "epochs=0"])
    prepared = prepare(corpus, tmp_path / "prepared", chosen, workers=1)
    chosen = with_strangers(chosen, prepared)
    torch.manual_seed(1)
    vocabulary = prepared.vocabulary
    members = Members(chosen.model, 1, vocabulary.word_rows, vocabulary.char_rows)
    two = StageTwo(members, prepared, chosen, 3, torch.device("cpu"))
    strangers = stranger_documents(prepared, 12)
    author, source = prepared.catalogue.author, prepared.catalogue.source
    assert len(set(author[strangers])) == 12  # one document each
    assert sorted(np.bincount(source[strangers])) == [6, 6]
    views = two.calibration
    assert views.levs.shape[:2] == (2, chosen.crops)
    for document, row in views.row.items():
        counted = [author[strangers] != author[document], source[strangers] != source[document]]
        for guise in (0, 1):
            y = views.levs[guise, 1, row, :12].double().numpy()
            squares = [
                float(np.square(y - lev).mean())
                for lev, counts in zip(members.strangers.levs[0].double().numpy(), counted[guise], strict=True)
                if counts
            ]
            expected = np.mean(sorted(squares)[:NEIGHBOURS])
            assert float(views.levs[guise, 1, row, 13]) == pytest.approx(max(expected, LEAST_UNIT), rel=1e-3)
