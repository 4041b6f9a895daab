"""All members as one stacked network: documents to embeddings, pairs of them to scores."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from ..config import ModelConfig
from ..data.batch import Batch
from ..vote import SCORES
from .cohort import Cohort, cohort_measures, nearest_tenth
from .embedding import Embedding, EmbeddingPair
from .encoder import Encoder
from .evidence import n_doubted, n_evidence
from .layers import Dropout, Linear, pair_mask, shared_mask
from .ngram_part import NgramPart
from .scores import BFS, DML, O2D2, UAL

DOUBTED_TEXTS = 10  # of so many texts, the mean counts half


@dataclass(frozen=True)
class Scores:
    """What every member says of every pair: (M, P), probabilities of "same author"."""

    dml: Tensor
    bfs: Tensor
    ual: Tensor
    o2d2: Tensor  # probability of "cannot be decided"
    confusion: Tensor  # (M, P, 2, 2), UAL's
    familiar: Tensor | None = None  # p(the kind of text is one that the member knows); None where it is told nothing

    def stacked(self) -> Tensor:
        """(4, M, P) in the order of SCORES, on the CPU"""
        return torch.stack([getattr(self, name) for name in SCORES]).cpu()


@dataclass(frozen=True)
class Population:
    """K other texts of the kind that is asked about."""

    texts: Tensor  # (M, K, counted_dim): their parts of layout and n-grams, before they are made comparable

    def __len__(self) -> int:
        return self.texts.shape[1]

    @cached_property
    def usual(self) -> Tensor:
        """(M, counted_dim): their mean, as far as it is to be believed."""
        return self.share * self.texts.double().mean(1)

    @property
    def share(self) -> float:
        """How far their mean is to be believed."""
        return len(self) / (len(self) + DOUBTED_TEXTS)


class Network(nn.Module):
    """M members with equal dimensions and one vocabulary."""

    def __init__(self, config: ModelConfig, n_members: int, word_rows: int, char_rows: int) -> None:
        super().__init__()
        self.config = config
        self.dropout = Dropout()
        self.encoder = Encoder(config, n_members, word_rows, char_rows) if config.encoder_dim else None
        self.metric = Linear(n_members, 2 * config.document_hidden, config.encoder_dim) if config.encoder_dim else None
        self.ngrams = NgramPart(n_members, config) if config.ngram_dim else None
        self.layout = NgramPart(n_members, config.of_layout) if config.layout_dim else None
        parts = len(config.lev_parts)
        # How much each part of the LEV counts, where there are several.
        self.part_scale = nn.Parameter(torch.ones(n_members, parts), requires_grad=False) if parts > 1 else None
        self.cohort = Cohort(n_members, config) if config.cohort else None
        self.dml = DML(n_members, config.variant)
        self.bfs = BFS(n_members, config.lev_dim, config.bfs_dim, config.variant)
        told, doubted = (n_evidence(parts), n_doubted(parts)) if config.cohort else (0, 0)
        self.ual = UAL(n_members, config.lev_dim, told, doubted)
        self.o2d2 = O2D2(n_members, config.lev_dim, doubted)

    @property
    def n_members(self) -> int:
        return len(self.dml.log_gamma)

    @property
    def device(self) -> torch.device:
        return self.dml.log_gamma.device

    def member(self, m: int) -> Network:
        """One member as a network of its own, on the same memory."""
        slices = {id(p): nn.Parameter(p.detach()[m : m + 1], p.requires_grad) for p in self.parameters()}
        return copy.deepcopy(self, slices)

    def scores_in_double(self) -> Network:
        """What `score` needs, in double precision."""
        alone = copy.copy(self)
        alone._modules = {name: copy.deepcopy(getattr(self, name)).double() for name in SCORES}
        return alone

    def use_dropout(self, dropout: Dropout) -> None:
        """In training mode, from now on."""
        if self.encoder is not None:
            self.encoder.dropout = self.encoder.window.dropout = self.encoder.document.dropout = dropout
        self.dropout = dropout
        self.bfs.dropout = self.ual.dropout = dropout.metric

    def embed(self, batch: Batch, population: Population | None = None) -> Embedding:
        return self.embedding(self.project(batch), batch.tokens, population)

    def encode(self, batch: Batch, pair: Tensor | None = None) -> Tensor:
        """-> document vectors (M, D, 2H); `pair` (D) says whose dropout masks each document has, if pairs have any."""
        assert self.encoder is not None
        vectors: Tensor = self.encoder(batch, pair=pair).vectors
        return vectors

    def encoder_part(self, vectors: Tensor, pair: Tensor | None = None) -> Tensor:
        """Document vectors (M, D, 2H) -> the part of the LEV that comes from the encoder, in their precision."""
        assert self.metric is not None
        if pair is not None and self.dropout.per == "pair":
            vectors = pair_mask(vectors, pair, self.dropout.metric, self.training)
        else:
            vectors = shared_mask(vectors, self.dropout.metric, self.training)
        return torch.tanh(self.metric(vectors))

    def project(self, batch: Batch) -> Tensor:
        """-> the parts of the LEV (M, D, L), those from n-grams of any length; where kinds of text are known, one
        number more: how strange each document's is.

        In double precision: the last bits, which depend on the other documents of the batch, are then rounded away.
        """
        parts = []
        if self.encoder is not None:
            parts.append(self.encoder_part(self.encode(batch).double()))
        if self.ngrams is not None:
            assert batch.ngrams is not None
            parts.append(self.project_counted(batch.ngrams, batch.tokens.double()))
        return torch.cat(parts, -1).float()

    def project_counted(self, frequencies: Tensor, tokens: Tensor) -> Tensor:
        """The same without the encoder's part, of frequencies (D, pool) and tokens read (D)."""
        assert self.ngrams is not None
        layout = [] if self.layout is None else [self.layout(frequencies, tokens)]
        return torch.cat([*layout, self.ngrams(frequencies, tokens)], -1)

    def embedding(
        self, projected: Tensor, tokens: Tensor, population: Population | None = None, usable: Tensor | None = None
    ) -> Embedding:
        """What `project` gives made comparable, and measured against the cohort and the population.

        What is usual in a population is taken off layout and n-grams, of the cohort's texts too. `usable` (D, K): who
        of the cohort counts.
        """
        parts, size = self.config.lev_parts, self.config.lev_dim
        assert population is None or population.texts.shape[-1] == self.config.counted_dim
        y, norm = self._comparable(projected[..., :size], population)
        strangeness = projected[..., size].float() if self.config.kinds else None
        neighbours = None
        if population is not None:
            dim = self.config.ngram_dim
            others, _ = self._part_comparable("ngrams", population.texts[..., -dim:].double(), population)
            neighbours = nearest_tenth(y[..., -dim:], others).float()
        elif norm is not None:
            neighbours = torch.zeros_like(norm)
        measures = None
        if self.cohort is not None:
            texts, _ = self._comparable(self.cohort.texts, population)
            every = zip(y.split(parts, -1), texts.split(parts, -1), strict=True)
            measures = torch.stack([cohort_measures(mine, theirs, usable) for mine, theirs in every], -2).float()
        share = tokens.new_full(tokens.shape, 0.0 if population is None else population.share)
        return Embedding(y.float(), tokens, parts, measures, norm, strangeness, neighbours, share)

    def _comparable(self, projected: Tensor, population: Population | None) -> tuple[Tensor, Tensor | None]:
        """(M, D, L) -> in double precision, what comes from frequencies at length one, parts scaled; and the log of the
        length of the n-gram part."""
        parts = zip(self.config.part_names, projected.split(self.config.lev_parts, -1), strict=True)
        comparable = [self._part_comparable(name, part.double(), population) for name, part in parts]
        return torch.cat([part for part, _ in comparable], -1), comparable[-1][1]

    def _part_comparable(self, name: str, part: Tensor, population: Population | None) -> tuple[Tensor, Tensor | None]:
        """The same of one part (M, D, its width)."""
        norm = None
        if name != "encoder":
            if population is not None:
                columns = {"layout": slice(self.config.layout_dim), "ngrams": slice(self.config.layout_dim, None)}
                part = part - population.usual[:, None, columns[name]]
            length = part.norm(dim=-1, keepdim=True).clamp_min(1e-9)
            part, norm = part / length, length.log().squeeze(-1).float()
        if self.part_scale is not None:
            part = part * self.part_scale[:, self.config.part_names.index(name), None, None]
        return part, norm

    def score(self, pair: EmbeddingPair) -> Scores:
        p_bfs = self.bfs(pair)
        p_ual, confusion = self.ual(pair, p_bfs)
        familiar = self.ual.familiar(pair)
        p_o2d2 = self.o2d2(pair, confusion, p_ual, familiar)
        return Scores(self.dml(pair), p_bfs, p_ual, p_o2d2, confusion, familiar)
