"""Stage one: the encoder, by contrast and then by pairs, as the settings say."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..metrics import auc, pan_metrics
from ..network.embedding import Embedding
from ..network.network import Network
from .contrastive import DOCUMENTS_PER_BATCH, contrastive_epoch, fold, standardisation
from .initial import PlainDML, keep_logarithms, published_start
from .optimiser import Optimiser
from .pairs import pair_epoch
from .prepared import Prepared, Span
from .settings import Settings
from .steps import Checkpoint, Due, Steps, write_tensors
from .streams import Stream, numpy_stream, torch_stream
from .topic_probe import TopicProbe

CHECKPOINT = "stage1.pt"
EPOCHS_PER_LOOK = 8  # development pairs are looked at so seldom during contrast: it does not choose an epoch
CONTRASTIVE, PAIRS = "contrastive", "pairs"  # names of the parts in a history
Log = Callable[[dict[str, Any]], None]  # told of every epoch, of a resumed run's earlier ones too


@dataclass
class State(Checkpoint):
    """All that an epoch leaves to the next, and a step to the next."""

    network: Network
    probe: TopicProbe
    norm: nn.Module  # standardises document vectors where training begins with contrast, else does nothing
    optimiser: Optimiser
    epoch: int = 0
    best_score: float = -1.0
    best: dict[str, Tensor] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    within: dict[str, Any] | None = None  # an epoch that is not at its end: see Steps

    MODULES = ("network", "probe", "norm", "optimiser")
    VALUES = ("epoch", "best_score", "best", "history", "within")


class StageOne:
    """One member's stage one; `run` goes on from `folder`/stage1.pt if that is there."""

    def __init__(self, prepared: Prepared, settings: Settings, seed: int, device: torch.device) -> None:
        self.prepared, self.settings, self.seed, self.device = prepared, settings, seed, device
        torch_stream(seed, Stream.STAGE_ONE_WEIGHTS)
        vocabulary = prepared.vocabulary
        network = Network(settings.model.encoder_alone, 1, vocabulary.word_rows, vocabulary.char_rows)
        assert network.encoder is not None
        self.encoder = network.encoder
        network.use_dropout(settings.dropout)
        if prepared.vectors is not None:
            known = ~np.isnan(prepared.vectors[:, 0])
            with torch.no_grad():
                self.encoder.words[0, known] = torch.from_numpy(prepared.vectors[known])
        probe = TopicProbe(settings)
        contrast = settings.contrastive.epochs > 0
        norm = nn.BatchNorm1d(2 * settings.model.document_hidden, affine=False) if contrast else nn.Identity()
        if settings.pairs.init == "published":
            published_start(network, probe)
        # What a step might make negative.
        self.kernel = list(network.dml.parameters()) if isinstance(network.dml, PlainDML) else []
        modules = nn.ModuleList([network, probe, norm]).to(device)
        self.parameters = [p for name, p in modules.named_parameters() if "o2d2" not in name and p.requires_grad]
        self.state = State(network, probe, norm, self._optimiser())

    def _optimiser(self) -> Optimiser:
        apart: dict[nn.Parameter, tuple[int, ...]] = {}
        if self.settings.pairs.clip_per == "gate":
            for lstm in (self.encoder.window, self.encoder.document):
                apart |= {getattr(lstm, name): dims for name, dims in lstm.GATES.items()}
        return Optimiser(self.parameters, self.settings.pairs.clip, apart=apart, positive=self.kernel)

    def run(self, folder: Path, log: Log) -> Network:
        """Train to the end; returns the member at its best epoch."""
        checkpoint, state = folder / CHECKPOINT, self.state
        if checkpoint.exists():
            state.load(checkpoint, self.device)
            for record in state.history:
                log(record)
        while state.epoch < self.settings.stage_one_epochs:
            began = time.perf_counter() - (state.within["seconds"] if state.within else 0.0)
            # Nothing random survives an epoch but what a checkpoint within one holds, so a resumed run repeats an
            # unbroken one exactly.
            torch_stream(self.seed, Stream.STAGE_ONE_EPOCH, state.epoch)
            rng = numpy_stream(self.seed, Stream.STAGE_ONE_EPOCH, state.epoch)
            state.network.train()

            def save(within: dict[str, Any], began: float = began) -> None:
                state.within = {**within, "seconds": time.perf_counter() - began}
                state.save(checkpoint)

            steps = Steps(save, state.within)
            contrast = state.epoch < self.settings.contrastive.epochs
            record = self._contrast(rng, steps) if contrast else self._pairs(rng, steps)
            record["seconds"] = round(time.perf_counter() - began, 2)
            state.history.append(record)
            state.within = None
            state.save(checkpoint)
            log(record)
        keep_logarithms(state.network)
        state.network.load_state_dict(state.best)
        return state.network.eval()

    def _contrast(self, rng: np.random.Generator, steps: Steps) -> dict[str, Any]:
        state, settings = self.state, self.settings.contrastive
        record = contrastive_epoch(
            state.network, state.norm, state.probe, state.optimiser, self.prepared, settings, state.epoch, rng, steps
        )
        state.epoch += 1
        last = state.epoch == settings.epochs
        if last or state.epoch % EPOCHS_PER_LOOK == 0:
            network = self._as_shipped()
            record["dev_auc_distance"] = self._develop(network)["dev_auc_distance"]
            if last:
                state.best = network.state_dict()
                state.optimiser = self._optimiser()
        return {"stage": CONTRASTIVE, "epoch": state.epoch, **record}

    def _pairs(self, rng: np.random.Generator, steps: Steps) -> dict[str, Any]:
        state, settings = self.state, self.settings.pairs
        epoch = state.epoch - self.settings.contrastive.epochs
        record = pair_epoch(
            state.network, state.norm, state.probe, state.optimiser, self.prepared, settings, epoch, rng, steps
        )
        state.epoch += 1
        network = self._as_shipped()
        record |= self._develop(network)
        if record["overall"] > state.best_score:
            state.best_score, state.best = record["overall"], network.state_dict()
        return {"stage": PAIRS, "epoch": state.epoch, **record}

    def _as_shipped(self) -> Network:
        """A copy whose metric layer does what `norm` does as well, and whose kernel is stored in logarithms."""
        network = copy.deepcopy(self.state.network).eval()
        keep_logarithms(network)
        assert network.metric is not None
        if isinstance(self.state.norm, nn.BatchNorm1d):
            fold(network.metric, *standardisation(network, self.prepared, self.state.norm.eps, self.seed))
        return network

    @torch.no_grad()
    def _develop(self, network: Network) -> dict[str, float]:
        """Figures on the development pairs."""
        pairs = self.prepared.development[: self.settings.data.development_pairs or None]
        documents, rows = np.unique(pairs, return_inverse=True)
        spans = [Span(int(d), 0, self.settings.model.max_tokens) for d in documents]
        first, second = torch.from_numpy(rows.reshape(pairs.shape)).T
        pair = embed_spans(network, self.prepared, spans).pair(first, second)
        truth, scores = self.prepared.catalogue.same_author(pairs), network.score(pair)
        return {
            "dev_auc_distance": auc(truth, -pair.distance[0].cpu().numpy()),
            "dev_auc_bfs": auc(truth, scores.bfs[0].cpu().numpy()),
            **pan_metrics(truth, scores.ual[0].cpu().numpy()),
        }


@torch.no_grad()
def project_spans(
    network: Network, prepared: Prepared, spans: list[Span], kept: Path | None = None
) -> tuple[Tensor, Tensor]:
    """What `Network.project` gives (1, spans, projected_dim), and tokens (spans). What is done is `kept` now and then,
    and not done again."""
    parts, tokens, due = [], [], Due()
    if kept is not None and kept.exists():
        parts, tokens = torch.load(kept, map_location=network.device, weights_only=True)
    for at in range(len(parts) * DOCUMENTS_PER_BATCH, len(spans), DOCUMENTS_PER_BATCH):
        batch = prepared.batch(spans[at : at + DOCUMENTS_PER_BATCH], network.config).to(network.device)
        parts.append(network.project(batch))
        tokens.append(batch.tokens)
        if kept is not None and due():
            write_tensors(kept, [parts, tokens])
    return torch.cat(parts, 1), torch.cat(tokens)


def embed_spans(network: Network, prepared: Prepared, spans: list[Span]) -> Embedding:
    """Row n is spans[n]."""
    with torch.no_grad():
        return network.embedding(*project_spans(network, prepared, spans))
