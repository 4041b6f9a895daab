"""Stage one: the encoder with DML, BFS and UAL, each trained by its own loss only.

First, if the settings say so, a warm-up: two documents of each of many authors, every document
must find its partner among all others. Then pairs, as in the paper.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..documents import Batch
from ..metrics import auc, pan_metrics
from ..model import Members
from ..scores import BFS, DML, LevPair, Linear
from .pairs import TRAINING, draw_pairs
from .prepare import TRAIN, Prepared
from .settings import TrainSettings
from .style import learn_style

FOLD_DOCUMENTS = 500  # that the standardisation is measured on
Span = tuple[int, int, int]  # document, first token, tokens
Log = Callable[[dict[str, Any]], None]  # told of every epoch, of a resumed run's earlier ones too


class TopicProbe(nn.Module):
    """A second DML + BFS head that predicts "same topic" from the document vectors: it only
    measures what topic is left in them, unless its gradient is reversed into the encoder."""

    def __init__(self, settings: TrainSettings) -> None:
        super().__init__()
        model = settings.model
        self.reversal = settings.probe_reversal
        self.metric = Linear(1, 2 * model.document_hidden, model.lev_dim)
        self.dml = DML(1, official=False)
        self.bfs = BFS(1, model.lev_dim, model.bfs_dim, official=False)

    def forward(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors (1, 2P, 2H) -> p_DML(same topic), logit of p_BFS (1, P)"""
        x = vectors.detach()
        if self.reversal:
            x = (1 + self.reversal) * x - self.reversal * vectors  # equal to x, gradient -reversal
        y1, y2 = torch.tanh(self.metric(x)).chunk(2, 1)
        return self.dml(y1, y2), self.bfs(y1.detach(), y2.detach())


def dml_loss(p: Tensor, same: Tensor, settings: TrainSettings) -> Tensor:
    pull = F.relu(settings.dml_high - p).square()
    push = F.relu(p - settings.dml_low).square()
    return (same * pull + (1 - same) * push).mean()


def ual_loss(confusion: Tensor, p_ual: Tensor, same: Tensor, beta: float) -> Tensor:
    """Negative log-likelihood, minus beta times the entropy of the confusion matrix."""
    p = torch.where(same > 0.5, p_ual, 1 - p_ual).clamp_min(1e-7)
    entropy = -(confusion * confusion.clamp_min(1e-7).log()).sum((-1, -2))
    return (-p.log() - beta * entropy).mean()


def head_losses(members: Members, pair: LevPair, same: Tensor, settings: TrainSettings) -> tuple[Tensor, Tensor]:
    """BFS and UAL on LEVs (1, P, L) that they do not change; UAL does not change BFS."""
    y1, y2 = pair.bare1.detach(), pair.bare2.detach()
    keep = F.dropout(torch.ones_like(y1), settings.drop_metric, members.training)  # shared by the two documents
    logit = members.bfs(y1 * keep, y2 * keep)
    width = 2 * settings.model.lev_dim
    keep_hidden = F.dropout(torch.ones(*y1.shape[:2], width, device=y1.device), settings.drop_metric, members.training)
    confusion = members.ual.confusion(pair.y1.detach(), pair.y2.detach(), keep_hidden, pair.lengths)
    p_ual = members.ual.correct(confusion, torch.sigmoid(logit).detach())
    return F.binary_cross_entropy_with_logits(logit, same), ual_loss(confusion, p_ual, same, settings.ual_beta)


def contrastive_loss(y: Tensor, temperature: float) -> Tensor:
    """y (D, L), documents 2i and 2i + 1 by one author: each must find the other among all D."""
    distance = torch.cdist(y, y, compute_mode="donot_use_mm_for_euclid_dist").square()
    logits = (-distance / temperature).masked_fill(torch.eye(len(y), dtype=torch.bool, device=y.device), -torch.inf)
    partner = torch.arange(len(y), device=y.device) ^ 1
    return F.cross_entropy(logits, partner)


def all_pairs_loss(members: Members, y: Tensor) -> Tensor:
    """Cross-entropy of p_DML over all pairs of y (D, L), same and different authors weighing the same.

    The contrast above only ranks; this gives distances one scale for all documents.
    """
    first, second = torch.triu_indices(len(y), len(y), 1, device=y.device)
    p = members.dml(y[None, first], y[None, second])[0].clamp(1e-6, 1 - 1e-6)
    same = second == (first ^ 1)
    return -(p[same].log().mean() + torch.log1p(-p[~same]).mean()) / 2


def clip_each(parameters: list[nn.Parameter], limit: float) -> None:
    for parameter in parameters:
        if parameter.grad is not None:
            norm = parameter.grad.norm()
            parameter.grad.mul_((limit / (norm + 1e-12)).clamp(max=1.0))


def linear(start: float, end: float, at: float) -> float:
    return start + (end - start) * min(max(at, 0.0), 1.0)


class Crops:
    """Which part of a document is read: random lengths and places, as the settings say."""

    def __init__(self, prepared: Prepared, settings: TrainSettings, rng: np.random.Generator) -> None:
        self.prepared, self.settings, self.rng = prepared, settings, rng

    def tokens(self, windows: int) -> int:
        return (windows - 1) * self.settings.model.window_hop + self.settings.model.window_tokens

    def random(self, document: int, shortest: int, longest: int) -> Span:
        """A length drawn evenly on a logarithmic scale, anywhere in the document."""
        windows = round(float(np.exp(self.rng.uniform(np.log(shortest), np.log(longest + 1)))) - 0.5)
        count = self.tokens(max(1, min(windows, longest)))
        spare = self.prepared.length(document) - count
        return document, int(self.rng.integers(spare + 1)) if spare > 0 else 0, count

    def paper(self, document: int) -> Span:
        """The whole document; if beyond the limit, half of the time from a random window on."""
        count = self.tokens(self.settings.crop_windows)
        spare = self.prepared.length(document) - count
        if spare <= 0 or self.rng.random() >= self.settings.crop_share:
            return document, 0, count
        hop = self.settings.model.window_hop
        return document, hop * int(self.rng.integers(spare // hop + 1)), count

    def for_pair(self, document: int) -> Span:
        if self.settings.crop_min_windows:
            return self.random(document, self.settings.crop_min_windows, self.settings.crop_windows)
        return self.paper(document)


def warmup_batches(prepared: Prepared, settings: TrainSettings, rng: np.random.Generator) -> Iterator[list[Span]]:
    """Endless batches: two documents each of many authors, all of one source."""
    catalogue, crops = prepared.catalogue, Crops(prepared, settings, rng)
    by_source: dict[int, dict[int, list[int]]] = {}
    for document in prepared.documents(TRAIN):
        authors = by_source.setdefault(int(catalogue.source[document]), {})
        authors.setdefault(int(catalogue.author[document]), []).append(int(document))
    pools = []
    for authors in by_source.values():
        usable = [d for d in authors.values() if any(catalogue.may_pair(d[0], other) for other in d[1:])]
        if len(usable) > 1:
            pools.append(usable)
    if not pools:
        raise ValueError("the warm-up needs two authors with two documents each")
    weights = np.array([len(pool) for pool in pools], dtype=float) ** settings.source_balance
    while True:
        pool = pools[rng.choice(len(pools), p=weights / weights.sum())]
        order = rng.permutation(len(pool))
        if rng.random() < settings.warmup_same_topic:
            # Authors of few topics: what they write about helps less to tell them apart.
            topics = np.array([catalogue.topic[documents[0]] for documents in pool])
            rank = rng.permutation(int(catalogue.topic.max()) + 1)
            order = order[np.argsort(rank[topics[order]], kind="stable")]
        spans: list[Span] = []
        for index in order[: settings.warmup_authors]:
            documents = [int(d) for d in rng.permutation(pool[index])]
            partners = [d for d in documents[1:] if catalogue.may_pair(documents[0], d)]
            if rng.random() < settings.warmup_cross_topic:
                partners.sort(key=lambda d: catalogue.topic[d] == catalogue.topic[documents[0]])
            if partners:
                for document in (documents[0], partners[0]):
                    spans.append(crops.random(document, settings.warmup_min_windows, settings.warmup_windows))
        if len(spans) >= 4:
            yield spans


@dataclass
class State:
    """All that an epoch leaves to the next."""

    members: Members
    probe: TopicProbe
    norm: nn.BatchNorm1d  # standardises document vectors during the warm-up, then is folded away
    optimizer: torch.optim.Adam
    epoch: int = 0
    best_score: float = -1.0
    best: dict[str, Tensor] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)

    def save(self, path: Path) -> None:
        content = {
            "members": self.members.state_dict(),
            "probe": self.probe.state_dict(),
            "norm": self.norm.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "epoch": self.epoch,
            "best_score": self.best_score,
            "best": self.best,
            "history": self.history,
        }
        part = path.with_suffix(".part")
        torch.save(content, part)
        part.replace(path)

    def load(self, path: Path, device: torch.device) -> None:
        content = torch.load(path, map_location=device, weights_only=True)
        self.members.load_state_dict(content["members"])
        self.probe.load_state_dict(content["probe"])
        self.norm.load_state_dict(content["norm"])
        self.epoch, self.best_score, self.best = content["epoch"], content["best_score"], content["best"]
        self.history = content["history"]
        self.optimizer.load_state_dict(content["optimizer"])


class StageOne:
    """One member's stage one; `run` goes on from `folder`/stage1.pt if that is there."""

    def __init__(self, prepared: Prepared, settings: TrainSettings, seed: int, device: torch.device) -> None:
        self.prepared, self.settings, self.seed, self.device = prepared, settings, seed, device
        torch.manual_seed(seed)
        vocabulary = prepared.vocabulary
        # Strangers come with stage two.
        model = replace(settings.model, strangers=0)
        members = Members(model, 1, vocabulary.word_rows, vocabulary.char_rows)
        if prepared.vectors is not None:
            known = ~np.isnan(prepared.vectors[:, 0])
            with torch.no_grad():
                members.encoder.words[0, known] = torch.from_numpy(prepared.vectors[known])
        probe = TopicProbe(settings)
        if members.style is not None:
            assert prepared.usage is not None
            learn_style(members.style, prepared, seed)
        norm = nn.BatchNorm1d(2 * settings.model.document_hidden, affine=False)
        modules = nn.ModuleList([members, probe, norm]).to(device)
        self.parameters = [p for name, p in modules.named_parameters() if "o2d2" not in name and p.requires_grad]
        self.state = State(members, probe, norm, self._optimizer())

    def _optimizer(self) -> torch.optim.Adam:
        return torch.optim.Adam(self.parameters, lr=self.settings.lr)

    def run(self, folder: Path, log: Log) -> Members:
        """Train to the end; returns the member at its best epoch."""
        checkpoint = folder / "stage1.pt"
        if checkpoint.exists():
            self.state.load(checkpoint, self.device)
            for record in self.state.history:
                log(record)
        settings, state = self.settings, self.state
        while state.epoch < settings.stage_one_epochs:
            began, epoch = time.perf_counter(), state.epoch
            # Nothing random survives an epoch, so a resumed run repeats an unbroken one exactly.
            torch.manual_seed(self.seed * 1_000_003 + epoch)
            rng = np.random.default_rng([self.seed, epoch])
            warming = epoch < settings.warmup_epochs
            state.members.train()
            record = self._warmup(epoch, rng) if warming else self._pairs(epoch - settings.warmup_epochs, rng)
            state.epoch += 1
            if state.epoch == settings.warmup_epochs:
                self._fold()
                state.optimizer = self._optimizer()
            if not warming or state.epoch % 8 == 0 or state.epoch == settings.warmup_epochs:
                record |= self.develop(warming and state.epoch < settings.warmup_epochs)
            if not warming and record["overall"] > state.best_score:
                state.best_score = record["overall"]
                state.best = {k: v.detach().clone() for k, v in state.members.state_dict().items()}
            seconds = round(time.perf_counter() - began, 2)
            stage = "warm-up" if warming else "pairs"
            state.history.append({"stage": stage, "epoch": state.epoch, **record, "seconds": seconds})
            state.save(checkpoint)
            log(state.history[-1])
        if state.best:
            state.members.load_state_dict(state.best)
        return state.members.eval()

    def _step(self, loss: Tensor, rate: float) -> None:
        optimizer = self.state.optimizer
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        clip_each(self.parameters, self.settings.clip)
        optimizer.step()

    def _encode(self, spans: list[Span]) -> tuple[Tensor, Batch]:
        """Document vectors (1, D, 2H), and the batch they came from"""
        batch = self.prepared.batch(spans, self.settings).to(self.device)
        amp = self.settings.amp and self.device.type == "cuda"
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=amp):
            vectors = self.state.members.encoder(batch, dropout=self.settings.dropout).vectors
        return vectors.float(), batch

    def _drop(self, vectors: Tensor) -> Tensor:
        """One mask for the batch, so that all documents stay comparable."""
        return vectors * F.dropout(
            torch.ones_like(vectors[0, 0]), self.settings.drop_metric, self.state.members.training
        )

    def _warmup(self, epoch: int, rng: np.random.Generator) -> dict[str, float]:
        settings, state = self.settings, self.state
        batches = warmup_batches(self.prepared, settings, rng)
        totals: dict[str, list[float]] = {}
        for step in range(settings.warmup_steps):
            at = (epoch + step / settings.warmup_steps) / settings.warmup_epochs
            spans = next(batches)
            vectors = state.norm(self._encode(spans)[0][0])[None]
            y = torch.tanh(state.members.metric(self._drop(vectors)))[0]  # the encoder's part of the LEV
            contrast, pairs = contrastive_loss(y, settings.warmup_temperature), all_pairs_loss(state.members, y)
            probe, topic_accuracy = self._probe(vectors, spans, rng)
            loss = contrast + settings.warmup_dml * pairs + probe
            self._step(loss, linear(settings.warmup_lr, settings.warmup_lr_end, at))
            values = {
                "loss": contrast.item(),
                "dml_loss": pairs.item(),
                "accuracy": _pair_accuracy(state.members, y),
                "topic_accuracy": topic_accuracy,
            }
            for name, value in values.items():
                totals.setdefault(name, []).append(value)
        return {name: float(np.nanmean(v)) for name, v in totals.items()}

    def _probe(self, vectors: Tensor, spans: list[Span], rng: np.random.Generator) -> tuple[Tensor, float]:
        """The topic probe on a warm-up batch: every document with one of its topic, and with one of another."""
        topics = self.prepared.catalogue.topic[[document for document, _, _ in spans]]
        authors = self.prepared.catalogue.author[[document for document, _, _ in spans]]
        pairs = []
        for i in range(len(topics)):
            others = authors != authors[i]
            for candidates in (others & (topics == topics[i]), others & (topics != topics[i])):
                numbers = np.flatnonzero(candidates)
                if len(numbers):
                    pairs.append((i, int(rng.choice(numbers))))
        if not pairs:
            return vectors.new_zeros(()), float("nan")
        chosen = np.array(pairs).T
        same = torch.tensor(topics[chosen[0]] == topics[chosen[1]], dtype=torch.float32, device=self.device)[None]
        p, logit = self.state.probe(torch.cat([vectors[:, chosen[0]], vectors[:, chosen[1]]], 1))
        loss = dml_loss(p, same, self.settings) + F.binary_cross_entropy_with_logits(logit, same)
        return loss, _balanced(logit > 0, same.bool())

    @torch.no_grad()
    def _fold(self) -> None:
        """Put the standardisation into the metric layer: exactly the same map, no extra layer.

        A batch is of one source, so what batches leave in the norm depends on the sources of the last
        few; here it is measured anew, on whole texts: the mean of all sources, the variance within them.
        """
        prepared, metric = self.prepared, self.state.members.metric
        rng = np.random.default_rng([self.seed, 11])
        documents, source = prepared.documents(TRAIN), prepared.catalogue.source
        sources = np.unique(source[documents])
        means, variances = [], []
        self.state.members.eval()
        for number in sources:
            here = documents[source[documents] == number]
            sample = rng.choice(here, min(len(here), FOLD_DOCUMENTS // len(sources)), replace=False)
            spans = [(int(d), 0, self.settings.model.max_tokens) for d in sample]
            vectors = torch.cat([self._encode(spans[at : at + 64])[0][0] for at in range(0, len(spans), 64)])
            means.append(vectors.mean(0))
            variances.append(vectors.var(0, unbiased=False))
        mean, scale = torch.stack(means).mean(0), (torch.stack(variances).mean(0) + self.state.norm.eps).rsqrt()
        metric.bias.sub_((mean * scale) @ metric.weight)
        metric.weight.mul_(scale[:, None])

    def _pairs(self, epoch: int, rng: np.random.Generator) -> dict[str, float]:
        settings, state, catalogue = self.settings, self.state, self.prepared.catalogue
        members, crops = state.members, Crops(self.prepared, settings, rng)
        pairs = draw_pairs(catalogue, self.prepared.documents(TRAIN), TRAINING, rng)
        rate = linear(settings.lr, settings.lr_end, epoch / max(1, settings.lr_fall_epochs))
        totals: dict[str, list[float]] = {}
        for at in range(0, len(pairs), settings.batch_pairs):
            part = pairs[at : at + settings.batch_pairs]
            same = torch.tensor(catalogue.same_author(part), dtype=torch.float32, device=self.device)[None]
            topic = torch.tensor(catalogue.same_topic(part), dtype=torch.float32, device=self.device)[None]
            vectors, batch = self._encode([crops.for_pair(int(d)) for d in part.T.flatten()])
            y1, y2 = members.lev(self._drop(vectors), batch).chunk(2, 1)
            p_dml = members.dml(y1, y2)
            bfs, ual = head_losses(members, members.pair(y1, y2), same, settings)
            topic_dml, topic_logit = state.probe(vectors)
            probe = dml_loss(topic_dml, topic, settings) + F.binary_cross_entropy_with_logits(topic_logit, topic)
            dml = dml_loss(p_dml, same, settings)
            self._step(dml + bfs + ual + probe, rate)
            values = {
                "dml_loss": dml.item(),
                "bfs_loss": bfs.item(),
                "ual_loss": ual.item(),
                "accuracy": ((p_dml > 0.5) == same.bool()).float().mean().item(),
                "topic_accuracy": _balanced(topic_logit > 0, topic.bool()),
            }
            for name, value in values.items():
                totals.setdefault(name, []).append(value)
        return {"pairs": len(pairs), **{name: float(np.nanmean(v)) for name, v in totals.items()}}

    @torch.no_grad()
    def develop(self, warming: bool) -> dict[str, float]:
        """Figures on the development pairs; during the warm-up the AUC of the encoder's own distance only."""
        state, pairs = self.state, self.prepared.development[: self.settings.development_pairs]
        truth = self.prepared.catalogue.same_author(pairs)
        state.members.eval()
        metric = state.members.metric
        kept = metric.weight.clone(), metric.bias.clone()
        if warming:
            self._fold()
        unique = np.unique(pairs)
        spans = [(int(d), 0, self.settings.model.max_tokens) for d in unique]
        levs, row = document_levs(state.members, self.prepared, spans, self.settings, self.device)
        if warming:
            levs = levs[..., : metric.bias.shape[-1]]
            metric.weight.copy_(kept[0])
            metric.bias.copy_(kept[1])
        y1, y2 = (levs[:, [row[int(d)] for d in pairs[:, side]]] for side in (0, 1))
        distance = (y1 - y2).square().sum(-1)[0].cpu().numpy()
        figures = {"dev_auc_distance": auc(truth, -distance)}
        if state.epoch > self.settings.warmup_epochs:
            scores = state.members.score(state.members.pair(y1, y2)).cpu()
            figures |= {"dev_auc_bfs": auc(truth, scores.bfs[0].numpy())}
            figures |= pan_metrics(truth, scores.ual[0].numpy())
        return figures


@torch.no_grad()
def _pair_accuracy(members: Members, y: Tensor) -> float:
    """Of p_DML over all pairs of a warm-up batch y (D, L), both classes weighing the same."""
    first, second = torch.triu_indices(len(y), len(y), 1, device=y.device)
    return _balanced(members.dml(y[None, first], y[None, second])[0] > 0.5, second == (first ^ 1))


def _balanced(said: Tensor, truth: Tensor) -> float:
    """Accuracy with both classes weighing the same, so that chance is a half."""
    rates = [(said == truth)[truth == side].float().mean() for side in (True, False) if (truth == side).any()]
    return float(torch.stack(rates).mean()) if len(rates) == 2 else float("nan")


@torch.no_grad()
def document_levs(
    members: Members, prepared: Prepared, spans: list[Span], settings: TrainSettings, device: torch.device
) -> tuple[Tensor, dict[int, int]]:  # fmt: skip
    """LEVs (1, D, L) of spans of distinct documents, and the row of each document."""
    parts = []
    for at in range(0, len(spans), 64):
        batch = prepared.batch(spans[at : at + 64], settings).to(device)
        parts.append(members.lev(members.encoder(batch).vectors, batch))
    return torch.cat(parts, 1), {document: i for i, (document, _, _) in enumerate(spans)}
