"""The Python interface: load an ensemble, ask it about pairs of texts."""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
import torch

from .data.batch import Batch, batch_of
from .data.tokeniser import Tokens, encode_all
from .data.trials import Trial
from .network.checkpoint import Ensemble, find_ensemble, load_ensemble
from .network.embedding import Embedding
from .network.network import Network
from .runtime.device import choose_device, describe, warn_without_kernel
from .runtime.parallel import ordered_map, usable_cores
from .verdict import Verdict, verdicts

PAIRS_PER_CHUNK = 32  # embedded together: enough to share token types, little enough memory
MAX_CACHED = 4_000  # documents remembered, should they come again: 54 MB of 21 members
CHUNKS_UNDER_WAY = 2
CHUNKS_TOKENISED_AHEAD = 3


@dataclass(eq=False)
class _Document:
    """A distinct text; its embedding (D = 1) comes when its chunk has been computed."""

    key: bytes
    text: str
    embedding: Embedding | None = None


@dataclass(frozen=True)
class _Chunk:
    trials: list[Trial]
    pairs: list[tuple[_Document, _Document] | None]  # None: no two usable texts
    new: list[_Document]  # to be embedded; the rest is known


class Verifier:
    """An ensemble that answers. Not for use from several threads at once."""

    def __init__(self, ensemble: Ensemble, device: torch.device, threads: int) -> None:
        self.ensemble, self.device, self.threads = ensemble, device, threads
        self.network, self.config = ensemble.network, ensemble.network.config
        # On the CPU one member a thread; a GPU takes them all at once.
        members = [self.network.member(m) for m in range(self.network.n_members)]
        self._networks = members if device.type == "cpu" else [self.network]
        self._known: OrderedDict[bytes, Embedding] = OrderedDict()

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

    # ---- what one asks for ---------------------------------------------------------------------------

    def verify(self, first: str, second: str) -> Verdict:
        return next(self.predict([(first, second)]))

    def predict(self, pairs: Iterable[tuple[str, str] | None]) -> Iterator[Verdict]:
        """Verdicts in the order of `pairs`, as they come; None stands for a pair without usable texts."""
        trials = (Trial(str(number), pair) for number, pair in enumerate(pairs))
        return (verdict for _, verdict in self.answer(trials))

    def answer(
        self,
        trials: Iterable[Trial],
        *,
        pool: ProcessPoolExecutor | None = None,
        pairs_per_chunk: int = PAIRS_PER_CHUNK,
    ) -> Iterator[tuple[Trial, Verdict]]:
        """Trials in order, each with its verdict. `pool` tokenises in worker processes, ahead of the network."""
        tokenise = partial(encode_all, tokeniser=self.ensemble.tokeniser.name, limit=self.config.max_tokens)
        chunks = self._chunks(iter(trials), pairs_per_chunk)
        jobs = ((chunk, [document.text for document in chunk.new]) for chunk in chunks)
        under_way: deque[tuple[_Chunk, list[Future[Embedding]]]] = deque()
        with self._workers() as threads:
            for chunk, tokens in ordered_map(tokenise, jobs, pool, CHUNKS_TOKENISED_AHEAD):
                under_way.append((chunk, self._start(tokens, threads)))
                if len(under_way) == CHUNKS_UNDER_WAY:
                    yield from self._finish(*under_way.popleft())
            while under_way:
                yield from self._finish(*under_way.popleft())

    def embed(self, texts: Sequence[str]) -> Embedding:
        """The members' embeddings of texts, to be compared as often as you like."""
        parts = []
        with self._workers() as threads:
            for at in range(0, len(texts), 2 * PAIRS_PER_CHUNK):
                part = texts[at : at + 2 * PAIRS_PER_CHUNK]
                tokens = encode_all(part, self.ensemble.tokeniser.name, self.config.max_tokens)
                parts.append(self._join(self._start(tokens, threads)))
        return Embedding.join(parts, "documents")

    def compare(self, first: Embedding, second: Embedding) -> list[Verdict]:
        """Row by row; one document against many where either embedding holds only one."""
        if len(first) != len(second) and 1 not in (len(first), len(second)):
            raise ValueError(f"{len(first)} documents cannot be compared with {len(second)}: as many, or one")
        count = max(len(first), len(second))
        rows = [torch.arange(len(side)).expand(count) for side in (first, second)]
        both = Embedding.join([first, second], "documents")
        return list(self._score(both, rows[0], rows[1] + len(first)))

    # ---- how it is done ------------------------------------------------------------------------------

    @contextmanager
    def _workers(self) -> Iterator[ThreadPoolExecutor]:
        # One thread of torch for each of ours: they would fight over the cores otherwise.
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        threads = ThreadPoolExecutor(min(self.threads, len(self._networks)))
        try:
            yield threads
        finally:
            threads.shutdown(cancel_futures=True)
            torch.set_num_threads(before)

    def _chunks(self, trials: Iterator[Trial], size: int) -> Iterator[_Chunk]:
        """Which documents of a chunk are new: each distinct text is embedded once, as long as it is remembered."""
        waiting: dict[bytes, _Document] = {}  # embedded by a chunk that is under way

        def document(text: str, new: list[_Document]) -> _Document:
            key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
            if key in self._known:
                self._known.move_to_end(key)
                return _Document(key, "", self._known[key])
            if key not in waiting:
                waiting[key] = _Document(key, text)
                new.append(waiting[key])
            return waiting[key]

        while part := list(islice(trials, size)):
            for key in [key for key, known in waiting.items() if known.embedding is not None]:
                del waiting[key]
            new: list[_Document] = []
            pairs = [
                None if trial.texts is None else (document(trial.texts[0], new), document(trial.texts[1], new))
                for trial in part
            ]
            yield _Chunk(part, pairs, new)

    def _start(self, tokens: list[Tokens], threads: ThreadPoolExecutor) -> list[Future[Embedding]]:
        """Begin to embed documents: a task for each member, or one for all."""
        if not tokens:
            return []
        batch = batch_of(tokens, self.ensemble.vocabulary, self.config)
        return [threads.submit(self._embed, network, batch) for network in self._networks]

    @torch.inference_mode()
    def _embed(self, network: Network, batch: Batch) -> Embedding:
        return network.embed(batch.to(self.device))

    @staticmethod
    def _join(tasks: list[Future[Embedding]]) -> Embedding:
        return Embedding.join([task.result() for task in tasks], "members")

    def _finish(self, chunk: _Chunk, tasks: list[Future[Embedding]]) -> Iterator[tuple[Trial, Verdict]]:
        if tasks:
            embedding = self._join(tasks)
            for row, document in enumerate(chunk.new):
                document.embedding = self._known[document.key] = embedding[row : row + 1]
            while len(self._known) > MAX_CACHED:
                self._known.popitem(last=False)
        documents = [document for pair in chunk.pairs if pair is not None for document in pair]
        answers: Iterator[Verdict] = iter(())
        if documents:
            both = Embedding.join([d.embedding for d in documents if d.embedding is not None], "documents")
            answers = self._score(both, slice(0, None, 2), slice(1, None, 2))
        for trial, pair in zip(chunk.trials, chunk.pairs, strict=True):
            yield trial, Verdict.unusable(self.network.n_members) if pair is None else next(answers)

    def _score(
        self, embedding: Embedding, first: slice | torch.Tensor, second: slice | torch.Tensor
    ) -> Iterator[Verdict]:
        """Verdicts on the pairs of documents in rows `first` and `second`."""
        with torch.inference_mode():
            pair = embedding.pair(first, second)
            scores = self.network.score(pair).stacked().numpy().astype(np.float64)
            distances = pair.distance.mean(0).cpu().numpy()
        return verdicts(scores, distances)
