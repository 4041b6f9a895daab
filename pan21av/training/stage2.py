"""Stage two: on authors that stage one never saw, what a member's scores mean and which pairs it cannot decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..metrics import all_metrics
from ..network.network import Network
from ..vote import SCORES, vote
from .abstention import fit_o2d2
from .calibration import Calibration, LabelledPairs, Views, cohort_documents, compute_views
from .heads import fit_heads
from .prepared import CALIBRATE, Prepared, Span
from .settings import Settings
from .stage1 import Log, embed_spans
from .streams import Stream, numpy_stream

LENGTHS = (2_000, 5_000, 10_000)  # characters that validation texts are cut to
TYPICAL_CHARS_PER_TOKEN = 4.5  # of English prose, the space after it included


class StageTwo:
    """`network` is fitted in place; `stage_one` is the same member as stage one left it, without a cohort."""

    def __init__(
        self, stage_one: Network, network: Network, prepared: Prepared, settings: Settings, seed: int,
        device: torch.device,
    ) -> None:  # fmt: skip
        self.network, self.prepared, self.settings, self.seed, self.device = network, prepared, settings, seed, device
        rng = numpy_stream(seed, Stream.VIEWS)
        network.eval()
        calibration = compute_views(stage_one.eval(), prepared, prepared.documents(CALIBRATE), settings, rng, device)
        validation = compute_views(stage_one, prepared, prepared.validation.flatten(), settings, rng, device)
        if network.cohort is not None:
            calibration, validation = self._measure_against_cohort(calibration, validation)
        self.calibration = Calibration(calibration, prepared, settings, seed, device)
        # Validation pairs at every view, drawn independently for the two documents of a pair.
        pairs, n_views = prepared.validation, settings.calibration.views
        self.truth = prepared.catalogue.same_author(pairs)
        views = np.repeat(np.arange(n_views), len(pairs))
        same = torch.tensor(np.tile(self.truth, n_views), dtype=torch.float32, device=device)[None]
        rows = [validation.rows(np.tile(pairs[:, side], n_views), views) for side in (0, 1)]
        self.validation = LabelledPairs(validation.embedding.pair(*rows), same)
        self.whole_pairs = self.validation.pair[: len(pairs)]

    @torch.no_grad()
    def _measure_against_cohort(self, calibration: Views, validation: Views) -> tuple[Views, Views]:
        """Choose the cohort among the calibration documents, and measure all documents against it."""
        cohort = self.network.cohort
        assert cohort is not None
        chosen = cohort_documents(self.prepared, cohort.levs.shape[1])
        levs = calibration.embedding.vectors[:, calibration.rows(chosen)]
        cohort.levs.copy_(levs.half().float())  # as they will be shipped
        author, source = self.prepared.catalogue.author, self.prepared.catalogue.source
        documents = calibration.documents
        usable: list[np.ndarray | None] = [author[documents][:, None] != author[chosen]]  # nobody is in his own cohort
        foreign = source[documents][:, None] != source[chosen]
        if foreign.any(1).all():
            usable.append(foreign)
        return calibration.measured(cohort, usable), validation.measured(cohort, [None])

    def run(self, log: Log) -> dict[str, Any]:
        """Fits in place; returns eps and the validation figures of every step (whole texts)."""
        if self.settings.heads.epochs:
            fit_heads(self.network, self.calibration, self.settings.heads, log, self._ual_figures)
        eps = fit_o2d2(self.network, self.calibration, self.validation, self.settings.abstention, log)
        with torch.no_grad():
            columns = dict(
                zip(SCORES, self.network.score(self.whole_pairs).stacked()[:, 0].double().numpy(), strict=True)
            )
        columns["o2d2"] = vote(columns["ual"][None], columns["o2d2"][None]).answers
        return {"eps": eps, "validation": {name: all_metrics(self.truth, p) for name, p in columns.items()}}

    @torch.no_grad()
    def _ual_figures(self) -> dict[str, float]:
        p_ual = self.network.score(self.validation.pair).ual[0].double().cpu().numpy()
        return all_metrics(self.validation.same[0].bool().cpu().numpy(), p_ual)

    @torch.no_grad()
    def validation_scores(self) -> dict[str, np.ndarray]:
        """What this member says of the validation pairs, for the ensemble's figures: of the whole texts, and of
        the texts cut to each of LENGTHS (names with @)."""
        columns = dict(zip(SCORES, self.network.score(self.whole_pairs).stacked()[:, 0].numpy(), strict=True))
        columns["distance"] = self.whole_pairs.distance[0].cpu().numpy()
        documents, rows = np.unique(self.prepared.validation, return_inverse=True)
        first, second = torch.from_numpy(rows.reshape(-1, 2)).T
        for characters in LENGTHS:
            spans = [Span(int(d), 0, round(characters / TYPICAL_CHARS_PER_TOKEN)) for d in documents]
            pair = embed_spans(self.network, self.prepared, spans, self.device).pair(first, second)
            scores = self.network.score(pair)
            columns |= {f"{name}@{characters}": getattr(scores, name)[0].cpu().numpy() for name in ("ual", "o2d2")}
        return columns
