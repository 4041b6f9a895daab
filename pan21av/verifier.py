"""The Python interface: load an ensemble, ask it about pairs of texts."""

from __future__ import annotations

import hashlib
import os
import reprlib
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch

from .data.batch import Batch, batch_of
from .data.fitness import Shares
from .data.tokeniser import Tokens, encode_all
from .data.trials import Trial, usable_texts
from .errors import InputError
from .network.checkpoint import Ensemble, find_ensemble, load_ensemble
from .network.embedding import Embedding
from .network.network import Network
from .runtime.device import choose_device, describe, one_torch_thread, warn_without_kernel
from .runtime.parallel import ordered_map, usable_cores
from .verdict import BOTH, TEXTS, Note, Verdict, verdicts

PAIRS_PER_CHUNK = 32  # embedded together: enough to share token types, little enough memory
MAX_CACHED = 4_000  # documents remembered, should they come again: 54 MB of 21 members
CHUNKS_UNDER_WAY = 2
CHUNKS_TOKENISED_AHEAD = 3


@dataclass(eq=False)
class _Document:
    """A distinct text, and what becomes of it when its chunk has been computed."""

    key: bytes
    text: str  # "" once it was read
    embedding: Embedding | None = None  # D = 1
    notes: dict[str, str] = field(default_factory=dict)  # {kind: words}
    undecidable: bool = False  # of such a text nothing can be said: it is not embedded


@dataclass(frozen=True)
class _Chunk:
    trials: list[Trial]
    pairs: list[tuple[_Document, _Document] | None]  # None: no two usable texts
    remarks: list[tuple[Note, ...]]  # on every pair as such
    new: list[_Document]  # to be read; the rest is known


class Verifier:
    """An ensemble that answers. Not for use from several threads at once."""

    def __init__(self, ensemble: Ensemble, device: torch.device, threads: int) -> None:
        self.ensemble, self.device, self.threads = ensemble, device, threads
        self.network, self.config = ensemble.network, ensemble.network.config
        # On the CPU one member a thread; a GPU takes them all at once.
        members = [self.network.member(m) for m in range(self.network.n_members)]
        self._networks = members if device.type == "cpu" else [self.network]
        self._known: OrderedDict[bytes, _Document] = OrderedDict()

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
        """One pair of texts."""
        return next(self.predict([(first, second)]))

    def predict(self, pairs: Iterable[tuple[str, str] | None]) -> Iterator[Verdict]:
        """Verdicts in the order of `pairs`, as they come; None stands for a pair without usable texts, and a pair with
        an empty text is such a one. InputError names what is no pair of strings."""
        trials = (_trial(number, pair) for number, pair in enumerate(pairs))
        return (verdict for _, verdict in self.answer(trials))

    def answer(
        self,
        trials: Iterable[Trial],
        *,
        pool: ProcessPoolExecutor | None = None,
        pairs_per_chunk: int = PAIRS_PER_CHUNK,
    ) -> Iterator[tuple[Trial, Verdict]]:
        """Trials in order, each with its verdict. `pool` tokenises in worker processes, ahead of the network."""
        tokenise = partial(encode_all, **self._reading)
        chunks = self._chunks(iter(trials), pairs_per_chunk)
        jobs = ((chunk, [document.text for document in chunk.new]) for chunk in chunks)
        under_way: deque[tuple[_Chunk, list[Future[Embedding]]]] = deque()
        with self._workers() as threads:
            for chunk, tokens in ordered_map(tokenise, jobs, pool, CHUNKS_TOKENISED_AHEAD):
                under_way.append((chunk, self._start(self._readable(chunk.new, tokens), threads)))
                if len(under_way) == CHUNKS_UNDER_WAY:
                    yield from self._finish(*under_way.popleft())
            while under_way:
                yield from self._finish(*under_way.popleft())

    def embed(self, texts: Sequence[str]) -> Embedding:
        """The members' embeddings of texts, to be compared as often as you like."""
        nothing = torch.zeros(self.network.n_members, 0, self.config.lev_dim, device=self.device)
        with torch.inference_mode():
            parts = [self.network.embedding(nothing, nothing[0, :, 0]).to(torch.device("cpu"))]
        with self._workers() as threads:
            for at in range(0, len(texts), 2 * PAIRS_PER_CHUNK):
                tokens = encode_all(texts[at : at + 2 * PAIRS_PER_CHUNK], **self._reading)
                parts.append(self._join(self._start(tokens, threads)).to(torch.device("cpu")))
        return Embedding.join(parts, "documents")

    def compare(self, first: Embedding, second: Embedding) -> list[Verdict]:
        """Row by row; one document against many where either embedding holds only one.

        Documents that are too short for the ensemble are guarded against, those in other languages are not: an
        embedding does not know its text.
        """
        if len(first) != len(second) and 1 not in (len(first), len(second)):
            raise ValueError(f"{len(first)} documents cannot be compared with {len(second)}: as many, or one")
        count = max(len(first), len(second)) if len(first) and len(second) else 0
        if not count:
            return []
        rows = [torch.arange(len(side)).expand(count) for side in (first, second)]
        both = Embedding.join([first, second], "documents").to(self.device)
        said = self._score(both, rows[0], rows[1] + len(first), [()] * count)
        answers = []
        for verdict, one, other in zip(said, first.tokens[rows[0]], second.tokens[rows[1]], strict=True):
            notes = [
                Note(fault[0], where, fault[1])
                for tokens, where in zip((one, other), TEXTS, strict=True)
                if (fault := self.ensemble.limits and self.ensemble.limits.too_short(int(tokens)))
            ]
            answers.append(Verdict.unusable(self.network.n_members, notes) if notes else verdict)
        return answers

    # ---- how it is done ------------------------------------------------------------------------------

    @contextmanager
    def _workers(self) -> Iterator[ThreadPoolExecutor]:
        threads = ThreadPoolExecutor(min(self.threads, len(self._networks)))
        with one_torch_thread():
            try:
                yield threads
            finally:
                threads.shutdown(cancel_futures=True)

    def _chunks(self, trials: Iterator[Trial], size: int) -> Iterator[_Chunk]:
        """Which documents of a chunk are new: each distinct text is embedded once, as long as it is remembered."""
        waiting: dict[bytes, _Document] = {}  # embedded by a chunk that is under way

        def document(text: str, new: list[_Document]) -> _Document:
            key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
            if key not in waiting:
                waiting[key] = _Document(key, text)
                new.append(waiting[key])
            return waiting[key]

        while part := list(islice(trials, size)):
            for key in [key for key in waiting if key in self._known]:
                del waiting[key]
            new: list[_Document] = []
            pairs = [
                None if trial.texts is None else (document(trial.texts[0], new), document(trial.texts[1], new))
                for trial in part
            ]
            remarks = [() if trial.texts is None else _compare_texts(*trial.texts) for trial in part]
            yield _Chunk(part, pairs, remarks, new)

    @property
    def _reading(self) -> dict[str, Any]:
        """How texts are read: repaired where the ensemble knows what a text should be like."""
        ensemble = self.ensemble
        return {
            "tokeniser": ensemble.tokeniser.name,
            "limit": self.config.max_tokens,
            "mend": ensemble.limits is not None,
        }

    def _readable(self, documents: list[_Document], tokens: list[Tokens]) -> list[Tokens]:
        """The tokens of those documents that something can be said of; the others are told why."""
        fit = []
        for document, read in zip(documents, tokens, strict=True):
            document.text, document.notes = "", dict(read.notes)
            limits = self.ensemble.limits
            fault = limits.fault(Shares.of(read, self.ensemble.vocabulary)) if limits else None
            if fault is not None:
                document.undecidable = True
                document.notes[fault[0]] = fault[1]
            else:
                fit.append(read)
        return fit

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
        embedding = self._join(tasks) if tasks else None
        for row, document in enumerate(document for document in chunk.new if not document.undecidable):
            assert embedding is not None
            document.embedding = embedding[row : row + 1]
        for document in chunk.new:
            self._known[document.key] = document
        while len(self._known) > MAX_CACHED:
            self._known.popitem(last=False)
        answers = self._verdicts(chunk)
        for trial, pair, remarks in zip(chunk.trials, chunk.pairs, chunk.remarks, strict=True):
            if pair is None:
                yield trial, Verdict.unusable(self.network.n_members)
            elif pair[0].undecidable or pair[1].undecidable:
                yield trial, Verdict.unusable(self.network.n_members, _notes(pair, remarks))
            else:
                yield trial, next(answers)

    def _verdicts(self, chunk: _Chunk) -> Iterator[Verdict]:
        """On the pairs that were embedded."""
        documents, notes = [], []
        for pair, remarks in zip(chunk.pairs, chunk.remarks, strict=True):
            if pair is not None and pair[0].embedding is not None and pair[1].embedding is not None:
                documents += [pair[0].embedding, pair[1].embedding]
                notes.append(_notes(pair, remarks))
        if not documents:
            return iter(())
        both = Embedding.join(documents, "documents")
        return self._score(both, slice(0, None, 2), slice(1, None, 2), notes)

    def _score(
        self,
        embedding: Embedding,
        first: slice | torch.Tensor,
        second: slice | torch.Tensor,
        notes: list[tuple[Note, ...]],
    ) -> Iterator[Verdict]:
        """Verdicts on the pairs of documents in rows `first` and `second`."""
        with torch.inference_mode():
            pair = embedding.pair(first, second)
            said = self.network.score(pair)
            scores = said.stacked().numpy().astype(np.float64)
            distances = pair.distance.mean(0).cpu().numpy()
            familiar = None if said.familiar is None else said.familiar.cpu().numpy()
        return verdicts(scores, distances, notes, familiar, self.ensemble.calibration)


def _trial(number: int, pair: tuple[str, str] | None) -> Trial:
    if pair is not None:
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and all(isinstance(text, str) for text in pair)):
            raise InputError(f"pair {number} is not two strings, but {reprlib.repr(pair)}")
        pair = usable_texts(list(pair))
    return Trial(str(number), pair)


def _compare_texts(first: str, second: str) -> tuple[Note, ...]:
    """Remarks on two texts that are not two."""
    first, second = " ".join(first.split()), " ".join(second.split())
    if first == second:
        return (Note("identical", BOTH, "the two are identical, so there is nothing to compare"),)
    shorter, longer, where = (first, second, TEXTS[0]) if len(first) < len(second) else (second, first, TEXTS[1])
    if shorter in longer:
        return (Note("contained", where, "all of it stands in the other text"),)
    return ()


def _notes(pair: tuple[_Document, _Document], remarks: tuple[Note, ...]) -> tuple[Note, ...]:
    """On the pair, and on either text."""
    own = (
        Note(kind, where, words)
        for document, where in zip(pair, TEXTS, strict=True)
        for kind, words in document.notes.items()
    )
    return (*remarks, *own)
