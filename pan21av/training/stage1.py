"""Stage one: the encoder, by contrast and then by pairs, as the settings say."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..files import write_whole
from ..metrics import auc, pan_metrics
from ..network.embedding import Embedding
from ..network.network import Network
from .contrastive import DOCUMENTS_PER_BATCH, contrastive_epoch, fold, standardisation
from .fit_lda import fit_lda
from .optimiser import Optimiser
from .pairs import pair_epoch
from .prepared import Prepared, Span
from .settings import Settings
from .streams import Stream, numpy_stream, torch_stream
from .topic_probe import TopicProbe

CHECKPOINT = "stage1.pt"
EPOCHS_PER_LOOK = 8  # development pairs are looked at so seldom during contrast: it does not choose an epoch
CONTRASTIVE, PAIRS = "contrastive", "pairs"  # names of the parts in a history
Log = Callable[[dict[str, Any]], None]  # told of every epoch, of a resumed run's earlier ones too


@dataclass
class State:
    """All that an epoch leaves to the next."""

    network: Network
    probe: TopicProbe
    norm: nn.BatchNorm1d  # standardises document vectors during contrast, then is folded away
    optimiser: Optimiser
    epoch: int = 0
    best_score: float = -1.0
    best: dict[str, Tensor] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)

    MODULES = ("network", "probe", "norm", "optimiser")
    VALUES = ("epoch", "best_score", "best", "history")

    def save(self, path: Path) -> None:
        content = {name: getattr(self, name).state_dict() for name in self.MODULES}
        content |= {name: getattr(self, name) for name in self.VALUES}
        buffer = io.BytesIO()
        torch.save(content, buffer)
        write_whole(path, buffer.getvalue())

    def load(self, path: Path, device: torch.device) -> None:
        content = torch.load(path, map_location=device, weights_only=True)
        for name in self.MODULES:
            getattr(self, name).load_state_dict(content[name])
        for name in self.VALUES:
            setattr(self, name, content[name])


class StageOne:
    """One member's stage one; `run` goes on from `folder`/stage1.pt if that is there."""

    def __init__(self, prepared: Prepared, settings: Settings, seed: int, device: torch.device) -> None:
        self.prepared, self.settings, self.seed, self.device = prepared, settings, seed, device
        torch_stream(seed, Stream.STAGE_ONE_WEIGHTS)
        vocabulary = prepared.vocabulary
        network = Network(settings.model, 1, vocabulary.word_rows, vocabulary.char_rows)
        network.use_dropout(settings.dropout)
        if prepared.vectors is not None:
            known = ~np.isnan(prepared.vectors[:, 0])
            with torch.no_grad():
                network.encoder.words[0, known] = torch.from_numpy(prepared.vectors[known])
        probe = TopicProbe(settings)
        if network.lda is not None:
            fit_lda(network.lda, prepared, seed)
        norm = nn.BatchNorm1d(2 * settings.model.document_hidden, affine=False)
        modules = nn.ModuleList([network, probe, norm]).to(device)
        self.parameters = [p for name, p in modules.named_parameters() if "o2d2" not in name and p.requires_grad]
        self.state = State(network, probe, norm, self._optimiser())

    def _optimiser(self) -> Optimiser:
        return Optimiser(self.parameters, self.settings.pairs.clip)

    def run(self, folder: Path, log: Log) -> Network:
        """Train to the end; returns the member at its best epoch."""
        checkpoint, state = folder / CHECKPOINT, self.state
        if checkpoint.exists():
            state.load(checkpoint, self.device)
            for record in state.history:
                log(record)
        while state.epoch < self.settings.stage_one_epochs:
            began = time.perf_counter()
            # Nothing random survives an epoch, so a resumed run repeats an unbroken one exactly.
            torch_stream(self.seed, Stream.STAGE_ONE_EPOCH, state.epoch)
            rng = numpy_stream(self.seed, Stream.STAGE_ONE_EPOCH, state.epoch)
            state.network.train()
            record = self._contrast(rng) if state.epoch < self.settings.contrastive.epochs else self._pairs(rng)
            record["seconds"] = round(time.perf_counter() - began, 2)
            state.history.append(record)
            state.save(checkpoint)
            log(record)
        if state.best:
            state.network.load_state_dict(state.best)
        return state.network.eval()

    def _contrast(self, rng: np.random.Generator) -> dict[str, Any]:
        state, settings = self.state, self.settings.contrastive
        record = contrastive_epoch(
            state.network, state.norm, state.probe, state.optimiser, self.prepared, settings, state.epoch, rng
        )
        state.epoch += 1
        last = state.epoch == settings.epochs
        if last or state.epoch % EPOCHS_PER_LOOK == 0:
            mean, scale = standardisation(state.network, self.prepared, state.norm.eps, self.seed)
            record |= self._develop_encoder(mean, scale)
            if last:
                fold(state.network.metric, mean, scale)
                state.optimiser = self._optimiser()
        return {"stage": CONTRASTIVE, "epoch": state.epoch, **record}

    def _pairs(self, rng: np.random.Generator) -> dict[str, Any]:
        state, settings = self.state, self.settings.pairs
        epoch = state.epoch - self.settings.contrastive.epochs
        record = pair_epoch(state.network, state.probe, state.optimiser, self.prepared, settings, epoch, rng)
        state.epoch += 1
        record |= self._develop()
        if record["overall"] > state.best_score:
            state.best_score = record["overall"]
            state.best = {k: v.detach().clone() for k, v in state.network.state_dict().items()}
        return {"stage": PAIRS, "epoch": state.epoch, **record}

    @torch.no_grad()
    def _develop_encoder(self, mean: Tensor, scale: Tensor) -> dict[str, float]:
        """During contrast: the AUC of the encoder's own distance on the development pairs."""
        network = self.state.network.eval()
        pairs, spans, first, second = self._development()
        parts = []
        for at in range(0, len(spans), DOCUMENTS_PER_BATCH):
            batch = self.prepared.batch(spans[at : at + DOCUMENTS_PER_BATCH], frequencies=False).to(self.device)
            parts.append(network.encoder_part((network.encoder(batch).vectors - mean) * scale)[0])
        y = torch.cat(parts)
        distance = (y[first] - y[second]).square().sum(-1).cpu().numpy()
        return {"dev_auc_distance": auc(self.prepared.catalogue.same_author(pairs), -distance)}

    @torch.no_grad()
    def _develop(self) -> dict[str, float]:
        """Figures on the development pairs."""
        network = self.state.network.eval()
        pairs, spans, first, second = self._development()
        pair = embed_spans(network, self.prepared, spans, self.device).pair(first, second)
        truth, scores = self.prepared.catalogue.same_author(pairs), network.score(pair)
        return {
            "dev_auc_distance": auc(truth, -pair.distance[0].cpu().numpy()),
            "dev_auc_bfs": auc(truth, scores.bfs[0].cpu().numpy()),
            **pan_metrics(truth, scores.ual[0].cpu().numpy()),
        }

    def _development(self) -> tuple[np.ndarray, list[Span], Tensor, Tensor]:
        """The pairs, their distinct documents whole, and the rows of either side among those."""
        pairs = self.prepared.development[: self.settings.data.development_pairs]
        documents, rows = np.unique(pairs, return_inverse=True)
        spans = [Span(int(d), 0, self.settings.model.max_tokens) for d in documents]
        first, second = torch.from_numpy(rows.reshape(pairs.shape)).T
        return pairs, spans, first, second


@torch.no_grad()
def embed_spans(network: Network, prepared: Prepared, spans: list[Span], device: torch.device) -> Embedding:
    """Row n is spans[n]."""
    parts = [
        network.embed(prepared.batch(spans[at : at + DOCUMENTS_PER_BATCH]).to(device))
        for at in range(0, len(spans), DOCUMENTS_PER_BATCH)
    ]
    return Embedding.join(parts, "documents")
