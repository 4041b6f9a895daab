"""The Python interface: load an ensemble, ask it about pairs of texts."""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from . import kernel
from .checkpoint import Ensemble, find_ensemble, load_ensemble
from .device import choose_device, describe, warn_without_kernel
from .documents import Batch, batch_of_tokens
from .ensemble import NON_RESPONSE, abstaining, decide
from .parallel import ordered_map, usable_cores
from .text import Tokens, tokenise_all

PAIRS_A_CHUNK = 32  # encoded together: enough to share token types, little enough memory
CACHED_LEVS = 4_000  # documents remembered, should they come again: 54 MB of 21 members
CHUNKS_UNDER_WAY = 2


@dataclass(frozen=True)
class Verdict:
    """What the ensemble says of one pair."""

    probability: float  # that one author wrote both; exactly 0.5: it cannot tell
    abstained: int  # members that could not decide
    same: int  # members, of the others, for "same author"
    different: int
    p_dml: np.ndarray | None = None  # (M) of each member; None where a text was unusable
    p_bfs: np.ndarray | None = None
    p_ual: np.ndarray | None = None
    p_o2d2: np.ndarray | None = None
    distance: float | None = None  # squared, between the LEVs, in the pair's units; mean over members

    @property
    def decision(self) -> bool | None:
        """True: same author; False: different authors; None: cannot tell."""
        return None if self.probability == NON_RESPONSE else self.probability > NON_RESPONSE

    @property
    def words(self) -> str:
        if self.decision is None:
            return "cannot tell"
        return "same author" if self.decision else "different authors"


class _Lev:
    """A document's LEV (M, L), filled in when its chunk has been encoded."""

    __slots__ = ("value",)
    value: Tensor


@dataclass
class _Chunk:
    pairs: list[tuple[_Lev, _Lev] | None]
    new: list[tuple[_Lev, str]]  # documents to encode, the rest is known


class Verifier:
    """An ensemble that answers. Not for use from several threads at once."""

    def __init__(self, ensemble: Ensemble, device: torch.device, threads: int) -> None:
        self.ensemble, self.device, self.threads = ensemble, device, threads
        self.members, self.vocabulary = ensemble.members, ensemble.vocabulary
        self.config = ensemble.members.config
        self.native = kernel.available() and device.type == "cpu"
        self._known: OrderedDict[bytes, _Lev] = OrderedDict()

    @classmethod
    def load(
        cls, models: str | os.PathLike[str] | None = None, *, device: str = "auto", threads: int | None = None
    ) -> Verifier:
        """The ensemble at a path or of a name; None takes PAN21AV_MODELS or the shipped one."""
        chosen = choose_device(device)
        warn_without_kernel(chosen)
        return cls(load_ensemble(find_ensemble(models), chosen), chosen, threads or usable_cores())

    @property
    def description(self) -> str:
        return describe(self.device, self.threads)

    def verify(self, first: str, second: str) -> Verdict:
        return next(self.predict([(first, second)]))

    def predict(
        self,
        pairs: Iterable[tuple[str, str] | None],
        *,
        pool: ProcessPoolExecutor | None = None,
        chunk: int = PAIRS_A_CHUNK,
    ) -> Iterator[Verdict]:
        """Verdicts in the order of `pairs`, as they come; None stands for a pair without usable texts.

        `pool` tokenises in worker processes, ahead of the encoder.
        """
        source = iter(pairs)
        chunks = iter(lambda: list(islice(source, chunk)), [])
        waiting: deque[_Chunk] = deque()

        def texts() -> Iterator[list[str]]:
            for part in chunks:
                waiting.append(self._plan(part))
                yield [text for _, text in waiting[-1].new]

        work = partial(tokenise_all, limit=self.config.max_tokens, recipe=self.ensemble.recipe)
        # One thread of torch for each of ours: they would fight over the cores otherwise.
        before = torch.get_num_threads()
        torch.set_num_threads(1 if self.native else self.threads)
        encoding: deque[tuple[_Chunk, list[_Lev], list[Future[Tensor]]]] = deque()
        threads = ThreadPoolExecutor(self.threads if self.native else 1)
        try:
            for tokenised in ordered_map(work, texts(), pool, ahead=3):
                encoding.append(self._encode(waiting.popleft(), tokenised, threads))
                if len(encoding) == CHUNKS_UNDER_WAY:
                    yield from self._finish(*encoding.popleft())
            while encoding:
                yield from self._finish(*encoding.popleft())
        finally:
            threads.shutdown(cancel_futures=True)
            torch.set_num_threads(before)

    def _plan(self, pairs: list[tuple[str, str] | None]) -> _Chunk:
        """Which documents of a chunk are new; each distinct text is encoded once."""
        new: list[tuple[_Lev, str]] = []

        def lev(text: str) -> _Lev:
            key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
            entry = self._known.get(key)
            if entry is None:
                entry = self._known[key] = _Lev()
                new.append((entry, text))
            self._known.move_to_end(key)
            return entry

        planned = [None if pair is None else (lev(pair[0]), lev(pair[1])) for pair in pairs]
        while len(self._known) > CACHED_LEVS:
            self._known.popitem(last=False)
        return _Chunk(planned, new)

    def _encode(
        self, chunk: _Chunk, tokenised: list[Tokens], threads: ThreadPoolExecutor
    ) -> tuple[_Chunk, list[_Lev], list[Future[Tensor]]]:
        """Start encoding a chunk's new documents: a future of LEVs (D, L) per member, or one (M, D, L)."""
        entries, documents = [], []
        for (entry, _), tokens in zip(chunk.new, tokenised, strict=True):
            # A text of nothing that counts as a token is read as one unknown word.
            documents.append(tokens if len(tokens.ids) else Tokens.of(["\ufffd"]))
            entries.append(entry)
        if not documents:
            return chunk, entries, []
        batch = batch_of_tokens(documents, self.vocabulary, self.config)
        if self.native:
            tasks = [threads.submit(self._member_levs, m, batch) for m in range(self.members.count)]
        else:
            tasks = [threads.submit(self._all_levs, batch)]
        return chunk, entries, tasks

    @torch.inference_mode()
    def _member_levs(self, m: int, batch: Batch) -> Tensor:
        return self.members.member_lev(m, self.members.encoder.member(m, batch, None, False).vectors, batch)

    @torch.inference_mode()
    def _all_levs(self, batch: Batch) -> Tensor:
        batch = batch.to(self.device)
        return self.members.lev(self.members.encoder(batch, native=False).vectors, batch)

    def _finish(self, chunk: _Chunk, entries: list[_Lev], tasks: list[Future[Tensor]]) -> Iterator[Verdict]:
        if tasks:
            results = [task.result() for task in tasks]
            levs = (torch.stack(results) if self.native else results[0]).transpose(0, 1)  # (D, M, L)
            for entry, value in zip(entries, levs, strict=True):
                entry.value = value
        pairs = [pair for pair in chunk.pairs if pair is not None]
        verdicts = iter(self._verdicts(pairs) if pairs else [])
        for pair in chunk.pairs:
            yield Verdict(NON_RESPONSE, self.members.count, 0, 0) if pair is None else next(verdicts)

    @torch.inference_mode()
    def _verdicts(self, pairs: list[tuple[_Lev, _Lev]]) -> list[Verdict]:
        first, second = (torch.stack([pair[side].value for pair in pairs], 1) for side in (0, 1))  # (M, P, L)
        compared = self.members.pair(first, second)
        scores = self.members.score(compared).cpu()
        distances = compared.distance.mean(0).tolist()
        dml, bfs, ual, o2d2 = (t.numpy().astype(np.float64) for t in (scores.dml, scores.bfs, scores.ual, scores.o2d2))
        answers, abstain = decide(ual, o2d2), abstaining(o2d2)
        verdicts = []
        for p, value in enumerate(answers):
            confident = ~abstain[:, p]
            same = int((ual[confident, p] > NON_RESPONSE).sum())
            verdicts.append(
                Verdict(
                    float(value), int(abstain[:, p].sum()), same, int(confident.sum()) - same,
                    dml[:, p], bfs[:, p], ual[:, p], o2d2[:, p], distances[p],
                )
            )  # fmt: skip
        return verdicts
