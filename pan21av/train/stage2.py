"""Stage two: on authors that stage one never saw, learn which pairs a member cannot decide."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..metrics import all_metrics, pan_metrics
from ..model import Members, Scores
from ..scores import O2D2
from ..strangers import Strangers
from .moments import SHRINKS, Pairs, settle_bfs, start_bfs, start_dml, start_ual
from .pairs import CALIBRATION, SCORES, draw_pairs
from .prepare import CALIBRATE, Prepared
from .settings import TrainSettings
from .stage1 import Crops, Log, document_levs, head_losses, linear

LENGTHS = (2_000, 5_000, 10_000)  # characters that validation texts are cut to
CHARACTERS_A_TOKEN = 4.5  # of English prose, the space after it included


@dataclass(frozen=True)
class Views:
    """LEVs of documents: view 0 reads the whole text, the others crops of random length.

    Guise 0 is that of a familiar kind of text; in guise 1 strangers of its own source do not count.
    """

    levs: Tensor  # (guises, views, D, L and what belongs to it)
    row: dict[int, int]  # document -> row

    def of(self, documents: np.ndarray, views: np.ndarray, guises: np.ndarray | int = 0) -> Tensor:
        """-> (1, P, ...)"""
        rows = torch.tensor([self.row[int(d)] for d in documents], dtype=torch.long)
        return self.levs[torch.as_tensor(guises), torch.as_tensor(views), rows][None]


def compute_views(
    members: Members, prepared: Prepared, documents: np.ndarray, settings: TrainSettings, rng: np.random.Generator,
    device: torch.device,
) -> Views:  # fmt: skip
    """In guise 0 only; strangers that are not there yet are all at 0."""
    documents = np.unique(documents)
    crops = Crops(prepared, settings, rng)
    levs: list[Tensor] = []
    row: dict[int, int] = {}
    for view in range(settings.crops):
        spans = [(int(d), 0, settings.model.max_tokens) for d in documents]
        if view:
            shortest = settings.crop_min_windows or 1
            spans = [crops.random(int(d), shortest, settings.model.max_windows) for d in documents]
        part, row = document_levs(members, prepared, spans, settings, device)
        levs.append(part[0])
    return Views(torch.stack(levs)[None], row)


def stranger_documents(prepared: Prepared, limit: int) -> np.ndarray:
    """One document of each calibration author, up to a limit; sources share it evenly as far as they can."""
    rng = np.random.default_rng(12)  # the same for all members: only their LEVs differ
    documents = rng.permutation(prepared.documents(CALIBRATE))
    _, first = np.unique(prepared.catalogue.author[documents], return_index=True)
    documents = documents[np.sort(first)]
    source = prepared.catalogue.source[documents]
    by_source = np.argsort(source, kind="stable")
    rank = np.empty(len(source), dtype=np.int64)  # the how manieth of its source
    rank[by_source] = np.arange(len(source)) - np.searchsorted(source[by_source], source[by_source])
    return np.sort(documents[np.argsort(rank, kind="stable")][:limit])


def respond(p_ual: np.ndarray, undecidable: np.ndarray) -> np.ndarray:
    """One member's answers: 0.5 where it abstains."""
    return np.where(undecidable >= 0.5, 0.5, p_ual)


class StageTwo:
    def __init__(
        self, members: Members, prepared: Prepared, settings: TrainSettings, seed: int, device: torch.device
    ) -> None:
        self.members, self.prepared, self.settings, self.seed, self.device = members, prepared, settings, seed, device
        rng = np.random.default_rng([seed, 7])
        members.eval()
        with torch.no_grad():
            self.calibration = compute_views(members, prepared, prepared.documents(CALIBRATE), settings, rng, device)
            self.validation = compute_views(members, prepared, prepared.validation.flatten(), settings, rng, device)
            if members.strangers is not None:
                self._meet_strangers(members.strangers)
        # The scores learn from one half of the calibration authors; which pairs they get wrong can
        # only be learnt from the other. Every member halves them in its own way. Without new
        # scores (as in the paper) all authors serve O2D2.
        documents = prepared.documents(CALIBRATE)
        authors = np.unique(prepared.catalogue.author[documents])
        mine = rng.permutation(authors)[: len(authors) // 2 if settings.head_epochs else 0]
        in_mine = np.isin(prepared.catalogue.author[documents], mine)
        self.for_scores, self.for_o2d2 = documents[in_mine], documents[~in_mine]
        # Validation pairs at every view, drawn independently for the two documents of a pair.
        pairs, views = prepared.validation, settings.crops
        self.truth = np.tile(prepared.catalogue.same_author(pairs), views)
        index = np.repeat(np.arange(views), len(pairs))
        self.pairs = members.pair(*(self.validation.of(np.tile(pairs[:, side], views), index) for side in (0, 1)))
        whole = np.zeros(len(pairs), dtype=np.int64)
        self.whole_pairs = members.pair(*(self.validation.of(pairs[:, side], whole) for side in (0, 1)))

    def _meet_strangers(self, strangers: Strangers) -> None:
        """Choose them among the calibration documents, and measure all documents against them."""
        chosen = stranger_documents(self.prepared, strangers.levs.shape[1])
        calibration, width = self.calibration, sum(strangers.parts)
        rows = [calibration.row[int(d)] for d in chosen]
        strangers.levs[0] = calibration.levs[0, 0, rows, :width].half().float()  # as they will be shipped
        documents = np.array(list(calibration.row))
        author, source = self.prepared.catalogue.author, self.prepared.catalogue.source
        others = author[documents][:, None] != author[chosen]  # nobody is a stranger to himself
        foreign = source[documents][:, None] != source[chosen]
        guises = [others]
        if foreign.any(1).all():
            guises.append(foreign)

        def measured(levs: Tensor, usable: np.ndarray | None) -> Tensor:
            """(views, D, ...) with the columns behind the LEVs (views, D, L) and their tokens made anew"""
            mask = None if usable is None else torch.from_numpy(usable).to(levs.device)
            behind = [strangers.behind(0, view[:, :width], view[:, width], mask) for view in levs]
            return torch.cat([levs[..., :width], torch.stack(behind)], -1)

        self.calibration = Views(torch.stack([measured(calibration.levs[0], mask) for mask in guises]), calibration.row)
        self.validation = Views(measured(self.validation.levs[0], None)[None], self.validation.row)

    def _views(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Half of the documents whole, the others at one of the shorter views."""
        shorter = rng.integers(1, max(2, self.settings.crops), size=count)
        return np.where((rng.random(count) < 0.5) | (self.settings.crops == 1), 0, shorter)

    def _draw(self, documents: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """LEVs (1, P, ...) of both sides and labels (1, P) of pairs drawn anew, each document at a random view.

        A share of the pairs poses as of an unfamiliar kind: a verifier will meet such, too.
        """
        prepared = self.prepared
        drawing = SCORES if self.settings.head_epochs else CALIBRATION
        pairs = draw_pairs(prepared.catalogue, documents, drawing, rng)
        same = torch.tensor(prepared.catalogue.same_author(pairs), dtype=torch.float32, device=self.device)[None]
        views = [self._views(len(pairs), rng) for _ in range(2)]
        guises = np.zeros(len(pairs), dtype=np.int64)
        if len(self.calibration.levs) > 1:
            guises = (rng.random(len(pairs)) < self.settings.unfamiliar).astype(np.int64)
        first, second = (self.calibration.of(pairs[:, s], views[s], guises) for s in (0, 1))
        return first, second, same

    def _drawn(self, documents: np.ndarray, draws: int, stream: int) -> Pairs:
        drawn = [self._draw(documents, np.random.default_rng([self.seed, stream, n])) for n in range(draws)]
        first, second, same = (torch.cat(parts, 1) for parts in zip(*drawn, strict=True))
        return self.members.pair(first, second), same

    def _epoch(self, documents: np.ndarray, rng: np.random.Generator, batch: int) -> Iterator[Pairs]:
        """The batches of an epoch: as many draws as the settings say, LEVs cost nothing here."""
        for _ in range(self.settings.draws):
            first, second, same = self._draw(documents, rng)
            for at in range(0, same.shape[1], batch):
                here = slice(at, at + batch)
                yield self.members.pair(first[:, here], second[:, here]), same[:, here]

    def run(self, log: Log) -> dict[str, Any]:
        """Trains in place; returns eps and the validation figures of every step (whole texts)."""
        self._heads(log)
        eps = self._o2d2(log)
        with torch.no_grad():
            scores = self.members.score(self.whole_pairs).cpu()
        return {"eps": eps, "validation": self.figures(scores)}

    @torch.no_grad()
    def validation_scores(self) -> dict[str, np.ndarray]:
        """What this member says of the validation pairs, for the ensemble's figures: of the whole texts, and of
        the texts cut to each of LENGTHS (names with @)."""
        scores = self.members.score(self.whole_pairs).cpu()
        columns = {name: getattr(scores, name)[0].numpy() for name in ("dml", "bfs", "ual", "o2d2")}
        columns["distance"] = self.whole_pairs.distance[0].cpu().numpy()
        pairs = self.prepared.validation
        for characters in LENGTHS:
            spans = [(int(d), 0, round(characters / CHARACTERS_A_TOKEN)) for d in np.unique(pairs)]
            levs, row = document_levs(self.members, self.prepared, spans, self.settings, self.device)
            first, second = (levs[:, [row[int(d)] for d in pairs[:, side]]] for side in (0, 1))
            scores = self.members.score(self.members.pair(first, second)).cpu()
            columns |= {f"{name}@{characters}": getattr(scores, name)[0].numpy() for name in ("ual", "o2d2")}
        return columns

    def figures(self, scores: Scores) -> dict[str, dict[str, float]]:
        truth = self.truth[: len(self.prepared.validation)]
        columns = {name: getattr(scores, name)[0].numpy().astype(np.float64) for name in ("dml", "bfs", "ual", "o2d2")}
        columns["o2d2"] = respond(columns["ual"], columns["o2d2"])
        return {name: all_metrics(truth, values) for name, values in columns.items()}

    def _heads(self, log: Log) -> None:
        """The scores begin anew on authors that the encoder never saw: their posteriors must hold for those."""
        settings, members, catalogue = self.settings, self.members, self.prepared.catalogue
        if not settings.head_epochs:
            return
        mine = self.for_scores
        rows = [self.calibration.row[int(d)] for d in mine]
        levs = self.calibration.levs[0][:, rows, : settings.model.lev_dim].flatten(0, 1)
        author, source = (np.tile(column[mine], settings.crops) for column in (catalogue.author, catalogue.source))
        pairs, held_out = self._drawn(mine, 12, 5), self._drawn(self.for_o2d2, 6, 6)

        def start(shrink: float) -> float:
            moments = start_bfs(members.bfs, levs, author, source, shrink)
            return settle_bfs(members.bfs, *moments, held_out)

        start(min(SHRINKS, key=start))
        start_dml(members.dml, pairs)
        start_ual(members.ual, members.bfs, pairs, held_out)

        @torch.no_grad()
        def held_out_loss() -> float:
            return float(F.binary_cross_entropy(members.score(held_out[0]).ual, held_out[1]))

        best, chosen = held_out_loss(), copy.deepcopy(members.state_dict())
        parameters = [*members.bfs.parameters(), *members.ual.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=settings.head_lr)
        for epoch in range(settings.head_epochs):
            torch.manual_seed(self.seed * 1_000_003 + 500_000 + epoch)
            rng = np.random.default_rng([self.seed, 8, epoch])
            for group in optimizer.param_groups:
                group["lr"] = linear(settings.head_lr, settings.head_lr / 10, epoch / settings.head_epochs)
            members.train()
            losses = []
            for pair, same in self._epoch(mine, rng, settings.batch_pairs):
                bfs, ual = head_losses(members, pair, same, settings)
                optimizer.zero_grad(set_to_none=True)
                loss = bfs + ual
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            members.eval()
            now = held_out_loss()
            if now < best:
                best, chosen = now, copy.deepcopy(members.state_dict())
            record = {"loss": float(np.mean(losses)), "held_out_loss": now, **self._ual_figures()}
            log({"stage": "heads", "epoch": epoch + 1, **record})
        members.load_state_dict(chosen)
        with torch.no_grad():
            for parameter in members.ual.logits.parameters():
                parameter.mul_(settings.sharpen)

    @torch.no_grad()
    def _ual_figures(self) -> dict[str, float]:
        return all_metrics(self.truth, self.members.score(self.pairs).ual[0].cpu().numpy().astype(np.float64))

    def _o2d2(self, log: Log) -> float:
        """One detector per candidate eps, trained side by side as if they were members."""
        settings, members = self.settings, self.members
        candidates = torch.linspace(settings.eps_low, settings.eps_high, settings.eps_steps, device=self.device)
        count = len(candidates)
        torch.manual_seed(self.seed * 1_000_003 + 700_000)
        detectors = O2D2(count, settings.model.lev_dim).to(self.device)
        optimizer = torch.optim.Adam(detectors.parameters(), lr=settings.o2d2_lr)
        with torch.no_grad():
            scores = members.score(self.pairs)
        p_ual = scores.ual[0].cpu().numpy().astype(np.float64)
        best, chosen = -1.0, (0, copy.deepcopy(detectors.state_dict()))
        for epoch in range(settings.o2d2_epochs):
            torch.manual_seed(self.seed * 1_000_003 + 800_000 + epoch)
            rng = np.random.default_rng([self.seed, 9, epoch])
            for group in optimizer.param_groups:
                group["lr"] = linear(settings.o2d2_lr, settings.o2d2_lr_end, epoch / settings.o2d2_epochs)
            detectors.train()
            losses = []
            for pair, same in self._epoch(self.for_o2d2, rng, settings.o2d2_batch):
                with torch.no_grad():
                    confusion = members.ual.confusion(pair.y1, pair.y2, lengths=pair.lengths)
                    p = members.ual.correct(confusion, torch.sigmoid(members.bfs(pair.bare1, pair.bare2)))
                    wrong = (p > 0.5) != same.bool()
                    label = (wrong | ((p - 0.5).abs() <= candidates[:, None])).float()  # (eps, P)
                logit = detectors.logit(
                    pair.y1.expand(count, -1, -1), pair.y2.expand(count, -1, -1),
                    confusion.expand(count, -1, -1, -1), settings.o2d2_dropout,
                )  # fmt: skip
                loss = F.binary_cross_entropy_with_logits(logit, label, reduction="none").mean(1).sum()
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                losses.append(float(loss.detach()) / count)
            detectors.eval()
            with torch.no_grad():
                undecidable = detectors.logit(
                    self.pairs.y1.expand(count, -1, -1), self.pairs.y2.expand(count, -1, -1),
                    scores.confusion.expand(count, -1, -1, -1),
                ).sigmoid().cpu().numpy()  # fmt: skip
            overall = [pan_metrics(self.truth, respond(p_ual, u))["overall"] for u in undecidable]
            winner = int(np.argmax(overall))
            if overall[winner] > best:
                best, chosen = overall[winner], (winner, copy.deepcopy(detectors.state_dict()))
            log({"stage": "o2d2", "epoch": epoch + 1, "loss": float(np.mean(losses)), "overall": overall[winner],
                 "eps": float(candidates[winner])})  # fmt: skip
        winner, weights = chosen
        members.o2d2.load_state_dict({name: tensor[winner : winner + 1] for name, tensor in weights.items()})
        return float(candidates[winner])
