"""Stage two: on authors that stage one never saw, what a member's scores mean and which pairs it cannot decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..metrics import all_metrics
from ..network.embedding import EmbeddingPair
from ..network.network import Network, Population
from ..vote import SCORES, vote
from .abstention import fit_o2d2
from .calibration import (
    FEWEST,
    MOST,
    POPULATIONS,
    Calibration,
    LabelledPairs,
    Populations,
    Projected,
    balanced_pairs,
    cohort_documents,
    measured,
    project_views,
)
from .ensemble_scale import out_of_fold
from .fit_kinds import fit_kinds
from .fit_parts import fit_part_scale
from .heads import fit_heads, unfitted
from .known_texts import known_scores
from .prepared import CALIBRATE, Prepared, Span
from .sampling import FOR_SCORES, draw_pairs, per_source
from .settings import Settings
from .stage1 import Log, project_spans
from .streams import Stream, numpy_stream
from .tables import CALIBRATION_UAL

LENGTHS = (300, 600, 1_000, 2_000, 5_000, 10_000)  # characters that validation texts are cut to
TYPICAL_CHARS_PER_TOKEN = 4.5  # of English prose, the space after it included
SIZES = (10, 30, 100, 300)  # texts of the populations that validation pairs are judged with
CHECKPOINTS = ("stage2.pt", "views-calibration.pt", "views-validation.pt")  # of a stage two that is not at its end
PART_DRAWS = 4  # of pairs that the weights of the parts are fitted to


class StageTwo:
    """`network` is fitted in place; its encoder and n-gram part are what stage one left, but for kinds. What is done
    goes to `folder`, if there is one, and need not be done again."""

    def __init__(
        self, network: Network, prepared: Prepared, settings: Settings, seed: int, device: torch.device,
        folder: Path | None = None,
    ) -> None:  # fmt: skip
        self.network, self.prepared, self.settings, self.seed, self.device = network, prepared, settings, seed, device
        places: list[Path | None] = [folder / name if folder else None for name in CHECKPOINTS]
        self.checkpoint, *kept = places
        rng = numpy_stream(seed, Stream.VIEWS)
        if network.ngrams is not None and network.ngrams.kinds is not None:
            fit_kinds(network.ngrams, prepared, seed)
        network.eval()
        calibration = project_views(network, prepared, prepared.documents(CALIBRATE), settings, rng, kept[0])
        self.validated = project_views(network, prepared, prepared.validation.flatten(), settings, rng, kept[1])
        self.populations = Populations(network, prepared, rng)
        conditions: list[dict[int, Population] | None] = [None]
        cohort = None
        if network.cohort is not None:
            cohort = cohort_documents(prepared, network.cohort.texts.shape[1])
            rows = torch.from_numpy(np.searchsorted(calibration.documents, cohort))
            with torch.no_grad():
                texts = calibration.parts[:, rows, : network.config.lev_dim]
                network.cohort.texts.copy_(texts.half().float())  # as they will be shipped
            if self.populations.projected:
                conditions += [self._populations(rng) for _ in range(POPULATIONS)]
        if network.part_scale is not None:
            self._weigh_parts(calibration)
        views = measured(network, calibration, prepared, conditions, cohort)
        self.calibration = Calibration(views, prepared, settings, seed, device)
        # Validation pairs at every view, drawn independently for the two documents of a pair.
        pairs, n_views = prepared.validation, settings.calibration.views
        self.truth = prepared.catalogue.same_author(pairs)
        same = torch.tensor(np.tile(self.truth, n_views), dtype=torch.float32, device=device)[None]
        known = self.calibration.known(pairs).repeat(n_views)
        self.validation = LabelledPairs(self._validation_pairs(None, n_views), same, known)
        self.whole_pairs = self.validation.pair[: len(pairs)]
        self.folds = unfitted(network, self.calibration)  # until `run` fits them

    def _populations(self, rng: np.random.Generator, texts: int | None = None) -> dict[int, Population]:
        """One for each source, of `texts` texts or of any number."""
        found = {}
        for source in self.populations.projected:
            size = texts or round(float(np.exp(rng.uniform(np.log(FEWEST), np.log(MOST)))))
            population = self.populations.draw(source, size, rng)
            if population is not None:
                found[source] = population
        return found

    @torch.no_grad()
    def _validation_pairs(self, populations: dict[int, Population] | None, n_views: int) -> EmbeddingPair:
        """At each of the first views, one after the other."""
        count = n_views * len(self.validated.documents)
        parts = Projected(
            self.validated.parts[:, :count], self.validated.tokens[:count], self.validated.documents, n_views
        )
        views = measured(self.network, parts, self.prepared, [populations], None)
        pairs, numbers = self.prepared.validation, np.repeat(np.arange(n_views), len(self.prepared.validation))
        rows = [views.rows(np.tile(pairs[:, side], n_views), numbers) for side in (0, 1)]
        return views.embedding.pair(*rows)

    def _weigh_parts(self, calibration: Projected) -> None:
        """By pairs of whole texts, with parts as they come."""
        catalogue, documents = self.prepared.catalogue, calibration.documents
        pairs = []
        for n in range(PART_DRAWS):
            drawn = draw_pairs(catalogue, documents, FOR_SCORES, numpy_stream(self.seed, Stream.PARTS, n))
            pairs.append(per_source(catalogue, drawn, self.settings.calibration.per_source))
        both = np.concatenate(pairs)
        with torch.no_grad():
            y = self.network.embedding(calibration.parts[:, : len(documents)], calibration.tokens[: len(documents)])
        first, second = (torch.from_numpy(np.searchsorted(documents, side)) for side in both.T)
        squares = (y.vectors[0, first] - y.vectors[0, second]).square().split(y.parts, -1)
        distances = torch.stack([part.sum(-1) for part in squares], -1)
        same = torch.tensor(catalogue.same_author(both), dtype=torch.float32, device=distances.device)
        scale = fit_part_scale(distances, same)
        with torch.no_grad():
            assert self.network.part_scale is not None
            self.network.part_scale[0] = scale

    def run(self, log: Log) -> dict[str, Any]:
        """Fits in place; returns eps and the validation figures of every step (whole texts)."""
        if self.settings.heads.epochs:
            self.folds = fit_heads(self.network, self.calibration, self.settings.heads, log, self._ual_figures)
        eps = fit_o2d2(
            self.network, self.calibration, self.folds, self.validation, self.settings.abstention, log, self.checkpoint
        )
        with torch.no_grad():
            columns = dict(
                zip(SCORES, self.network.score(self.whole_pairs).stacked()[:, 0].double().numpy(), strict=True)
            )
        columns["o2d2"] = vote(columns["ual"][None], columns["o2d2"][None]).answers
        figures = {name: all_metrics(self.truth, p) for name, p in columns.items()}
        return {"eps": eps, "pairs": len(self.truth), "validation": figures}

    @torch.no_grad()
    def _ual_figures(self) -> dict[str, float]:
        p_ual = self.network.score(self.whole_pairs).ual[0].double().cpu().numpy()
        return all_metrics(self.truth, p_ual)

    @torch.no_grad()
    def validation_scores(self) -> dict[str, np.ndarray]:
        """What this member says of the validation pairs, for the ensemble's figures: of the whole texts, of the texts
        cut to each of LENGTHS (names with @), and of whole texts with populations of SIZES (names with +); UAL's of
        balanced calibration pairs; what it says of trials of one to three known texts (names with *); and of
        calibration pairs whose authors are new to its scores (names that begin with fold)."""
        columns = dict(zip(SCORES, self.network.score(self.whole_pairs).stacked()[:, 0].numpy(), strict=True))
        squares = self.whole_pairs.squares[0].split(self.network.config.lev_parts, -1)
        for name, part in zip(self.network.config.part_names, squares, strict=True):
            columns[f"distance_{name}"] = part.sum(-1).cpu().numpy()

        def add(pair: EmbeddingPair, mark: str) -> None:
            scores = self.network.score(pair)
            columns.update({f"{name}{mark}": getattr(scores, name)[0].cpu().numpy() for name in ("ual", "o2d2")})

        views = self.calibration.views
        columns[CALIBRATION_UAL] = self.network.score(
            views.embedding.pair(*(views.rows(side) for side in balanced_pairs(self.prepared).T))
        ).ual[0].cpu().numpy()  # fmt: skip
        documents, rows = np.unique(self.prepared.validation, return_inverse=True)
        first, second = torch.from_numpy(rows.reshape(-1, 2)).T
        for characters in LENGTHS:
            spans = [Span(int(d), 0, round(characters / TYPICAL_CHARS_PER_TOKEN)) for d in documents]
            embedding = self.network.embedding(*project_spans(self.network, self.prepared, spans))
            add(embedding.pair(first, second), f"@{characters}")
        if self.populations.projected and self.network.cohort is not None:
            rng = numpy_stream(self.seed, Stream.POPULATIONS)
            for size in SIZES:
                add(self._validation_pairs(self._populations(rng, size), 1), f"+{size}")
        if self.settings.heads.epochs:
            columns["fold_ual"], columns["fold_o2d2"] = out_of_fold(self.network, self.calibration, self.folds)
            columns |= known_scores(self.network, self.prepared)
        return columns
