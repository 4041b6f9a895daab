"""The Python interface: load an ensemble, ask it about pairs of texts."""

from __future__ import annotations

import os
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from .data.batch import Batch, batch_of
from .data.fitness import Shares
from .data.tokeniser import Tokens, encode_all, encode_documents
from .data.trials import Trial, trial_of
from .document import Document, content_key, document_key, notes_on, texts_that_count
from .network.checkpoint import Ensemble, find_ensemble, load_ensemble
from .network.embedding import Embedding
from .network.network import Network
from .populations import PopulationTexts, embed_among, project_population
from .runtime.device import choose_device, describe, one_torch_thread, warn_without_kernel
from .runtime.parallel import ordered_map, usable_cores
from .verdict import NO_TEXTS, TEXTS, Note, Verdict, compare_texts, validated_bounds, verdicts

# What is embedded together: enough to share token types, little enough memory; short texts come by the hundred, long
# ones by the dozen. Counted before texts are read: their characters tell about how many tokens they have.
TOKENS_PER_CHUNK = 320_000
FIRST_CHUNK, GROWTH = 20_000, 4  # the first is small, so that answers come soon, each next one so many times larger
CHARS_PER_TOKEN = 4
TOKENS_PER_DOCUMENT, TOKENS_PER_PAIR = 256, 64  # what either costs beside the tokens, as if it were tokens
PAIRS_SCORED = 256  # together
MAX_CACHED = 4_000  # documents remembered, should they come again: 120 MB of 21 members
CHUNKS_UNDER_WAY = 2
CHUNKS_TOKENISED_AHEAD = 3


@dataclass(frozen=True)
class _Chunk:
    trials: list[Trial]
    pairs: list[tuple[Document, Document] | None]  # None: no two usable texts
    remarks: list[tuple[Note, ...]]  # on every pair as such
    new: list[Document]  # to be read; the rest is known


class Verifier:
    """An ensemble that answers. Not for use from several threads at once."""

    def __init__(
        self, ensemble: Ensemble, device: torch.device, threads: int, population: PopulationTexts | None = None
    ) -> None:
        self.ensemble, self.device, self.threads = ensemble, device, threads
        self.population = None if population is None else population.to(device)
        self.network, self.config = ensemble.network, ensemble.network.config
        # On the CPU one member a thread; a GPU takes them all at once.
        members = [self.network.member(m) for m in range(self.network.n_members)]
        self._networks = members if device.type == "cpu" else [self.network]
        self._scores = self.network.scores_in_double()
        self._known: OrderedDict[bytes, Document] = OrderedDict()

    @classmethod
    def load(
        cls, models: str | os.PathLike[str] | None = None, *, device: str = "auto", threads: int | None = None
    ) -> Verifier:
        """The ensemble at a path or of a name; None takes PAN21AV_MODELS or the shipped one."""
        chosen = choose_device(device)
        warn_without_kernel(chosen)
        return cls(load_ensemble(find_ensemble(models), chosen), chosen, threads or usable_cores())

    def with_population(self, texts: Iterable[str] | PopulationTexts) -> Verifier:
        """One that knows 10 to 500 texts of the kind that it is asked about, by other people; it shares the weights.

        Of more texts it draws some. InputError if too few are of any use.
        """
        if not isinstance(texts, PopulationTexts):
            texts = project_population(self.ensemble, texts)
        return Verifier(self.ensemble, self.device, self.threads, texts)

    @property
    def ratio_bounds(self) -> tuple[float, float] | None:
        """Of log10 likelihood ratios, by the pairs that the ensemble was validated on."""
        return validated_bounds(self.ensemble.info)

    @property
    def description(self) -> str:
        return describe(self.device, self.threads)

    # ---- what one asks for ---------------------------------------------------------------------------

    def verify(self, questioned: str, known: str | Sequence[str]) -> Verdict:
        """A text, and another or several that one person wrote: one verdict from all of them."""
        return next(self.predict([(questioned, known)]))

    def predict(self, pairs: Iterable[tuple[str, str | Sequence[str]] | None]) -> Iterator[Verdict]:
        """Verdicts in the order of `pairs`, as they come; None stands for a pair without usable texts, and a pair with
        an empty text is such a one. InputError names what is no pair of strings, or of a string and several."""
        trials = (trial_of(number, pair) for number, pair in enumerate(pairs))
        return (verdict for _, verdict in self.answer(trials))

    def answer(
        self,
        trials: Iterable[Trial],
        *,
        pool: ProcessPoolExecutor | None = None,
        tokens_per_chunk: int = TOKENS_PER_CHUNK,
    ) -> Iterator[tuple[Trial, Verdict]]:
        """Trials in order, each with its verdict. `pool` tokenises in worker processes, ahead of the network."""
        tokenise = partial(encode_documents, **self.ensemble.reading)
        chunks = self._chunks(iter(trials), tokens_per_chunk)
        jobs = ((chunk, [document.texts for document in chunk.new]) for chunk in chunks)
        under_way: deque[tuple[_Chunk, list[Future[Embedding]]]] = deque()
        with self._workers() as threads:
            for chunk, tokens in ordered_map(tokenise, jobs, pool, CHUNKS_TOKENISED_AHEAD):
                fit = self._readable(chunk.new, tokens)
                left_out = [document.left_out for document in chunk.new if not document.undecidable]
                under_way.append((chunk, self._start(fit, threads, left_out)))
                if len(under_way) == CHUNKS_UNDER_WAY:
                    yield from self._finish(*under_way.popleft())
            while under_way:
                yield from self._finish(*under_way.popleft())

    def embed(self, texts: Sequence[str]) -> Embedding:
        """The members' embeddings of texts, to be compared as often as you like."""
        parts = [self.embed_tokens([])]
        for some in self._portions(texts):
            left_out = [self.population.among([text]) if self.population else frozenset() for text in some]
            parts.append(self.embed_tokens(encode_all(some, **self.ensemble.reading), left_out))
        return Embedding.join(parts, "documents")

    def embed_tokens(self, tokens: list[Tokens], left_out: list[frozenset[bytes]] | None = None) -> Embedding:
        """The same of as many texts as make a chunk, already read; `left_out` of the population for each of them."""
        if not tokens:
            nothing = torch.zeros(self.network.n_members, 0, self.config.projected_dim, device=self.device)
            with torch.inference_mode():
                return self.network.embedding(nothing, nothing[0, :, 0]).to(torch.device("cpu"))
        with self._workers() as threads:
            tasks = self._start(tokens, threads, left_out or [frozenset()] * len(tokens))
            return self._join(tasks).to(torch.device("cpu"))

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

    @staticmethod
    def vectors(embedding: Embedding) -> np.ndarray:
        """Documents as rows (D, M x L) of length one, whose dot product is the members' mean cosine."""
        y = embedding.vectors.double()
        y = y / y.norm(dim=-1, keepdim=True).clamp_min(1e-9) / len(y) ** 0.5
        return y.transpose(0, 1).flatten(1).float().numpy()

    # ---- how it is done ------------------------------------------------------------------------------

    @contextmanager
    def _workers(self) -> Iterator[ThreadPoolExecutor]:
        threads = ThreadPoolExecutor(min(self.threads, len(self._networks)))
        with one_torch_thread():
            try:
                yield threads
            finally:
                threads.shutdown(cancel_futures=True)

    def _cost(self, *texts: str) -> int:
        """About how many tokens of a document are to be read, and what it costs beside."""
        tokens = (min(len(text) // CHARS_PER_TOKEN, self.config.max_tokens) for text in texts)
        return sum(tokens) + TOKENS_PER_DOCUMENT

    def _portions(self, texts: Sequence[str]) -> Iterator[Sequence[str]]:
        """As many texts at a time as make a chunk."""
        first = tokens = 0
        for number, text in enumerate(texts, 1):
            tokens += self._cost(text)
            if tokens >= TOKENS_PER_CHUNK or number == len(texts):
                yield texts[first:number]
                first, tokens = number, 0

    def _chunks(self, trials: Iterator[Trial], size: int) -> Iterator[_Chunk]:
        """Trials until there are `size` tokens to read, and which of their documents are new: each distinct text is
        embedded once, as long as it is remembered."""
        waiting: dict[bytes, Document] = {}  # embedded by a chunk that is under way
        new: list[Document] = []

        def document(texts: tuple[str, ...], left_out: frozenset[bytes]) -> Document:
            key = document_key(texts, left_out)
            if key in self._known:
                self._known.move_to_end(key)
                return self._known[key]
            if key not in waiting:
                waiting[key] = Document(key, texts, left_out)
                new.append(waiting[key])
            return waiting[key]

        def pair(texts: tuple[str, ...]) -> tuple[Document, Document]:
            left_out = self.population.among(texts) if self.population else frozenset()
            return document(texts[:1], left_out), document(texts[1:], left_out)

        part: list[Trial] = []
        pairs: list[tuple[Document, Document] | None] = []
        remarks: list[tuple[Note, ...]] = []
        room = limit = min(FIRST_CHUNK, size)
        for trial in trials:
            seen = len(new)
            part.append(trial)
            pairs.append(None if trial.texts is None else pair(trial.texts))
            room -= TOKENS_PER_PAIR + sum(self._cost(*one.texts) for one in new[seen:])
            remarks.append(() if trial.texts is None else compare_texts(trial.texts))
            if room <= 0:
                yield _Chunk(part, pairs, remarks, new)
                part, pairs, remarks, new = [], [], [], []
                for key in [key for key in waiting if key in self._known]:
                    del waiting[key]
                room = limit = min(GROWTH * limit, size)
        if part:
            yield _Chunk(part, pairs, remarks, new)

    def _readable(self, documents: list[Document], tokens: list[list[Tokens]]) -> list[Tokens]:
        """The tokens of those documents that something can be said of; the others are told why."""
        fit = []
        for document, texts in zip(documents, tokens, strict=True):
            document.texts = ()
            own, document.notes = texts_that_count(texts, self._fault)
            read = Tokens.join(own)
            document.content = content_key(read)
            if fault := self._fault(read):
                document.undecidable = True
                document.notes.append((fault[0], "", fault[1]))
            else:
                fit.append(read)
        return fit

    def _fault(self, read: Tokens) -> tuple[str, str] | None:
        """Why nothing can be said of a document, (kind, words)."""
        limits = self.ensemble.limits
        return limits.fault(Shares.of(read, self.ensemble.vocabulary)) if limits else None

    def _start(
        self, tokens: list[Tokens], threads: ThreadPoolExecutor, left_out: list[frozenset[bytes]]
    ) -> list[Future[Embedding]]:
        """Begin to embed documents: a task for each member, or one for all. `left_out` of the population, by each."""
        if not tokens:
            return []
        batch = batch_of(tokens, self.ensemble.vocabulary, self.config)
        if self.population is None:
            return [threads.submit(self._embed, network, batch) for network in self._networks]
        groups: dict[frozenset[bytes], list[int]] = {}
        for row, keys in enumerate(left_out):
            groups.setdefault(keys, []).append(row)
        return [threads.submit(self._embed_among, number, batch, groups) for number in range(len(self._networks))]

    @torch.inference_mode()
    def _embed(self, network: Network, batch: Batch) -> Embedding:
        return network.embed(batch.to(self.device))

    @torch.inference_mode()
    def _embed_among(self, member: int, batch: Batch, left_out: dict[frozenset[bytes], list[int]]) -> Embedding:
        """As one member, or all of them on a GPU."""
        assert self.population is not None
        only = slice(member, member + 1) if len(self._networks) > 1 else slice(None)
        return embed_among(self._networks[member], batch.to(self.device), self.population, left_out, only)

    @staticmethod
    def _join(tasks: list[Future[Embedding]]) -> Embedding:
        return Embedding.join([task.result() for task in tasks], "members")

    def _finish(self, chunk: _Chunk, tasks: list[Future[Embedding]]) -> Iterator[tuple[Trial, Verdict]]:
        embedding = self._join(tasks) if tasks else None
        for row, document in enumerate(document for document in chunk.new if not document.undecidable):
            assert embedding is not None
            document.embedding = embedding[[row]]  # a copy, or all of the chunk would be remembered with it
        for document in chunk.new:
            self._known[document.key] = document
        while len(self._known) > MAX_CACHED:
            self._known.popitem(last=False)
        answers = self._verdicts(chunk)
        for trial, pair, remarks in zip(chunk.trials, chunk.pairs, chunk.remarks, strict=True):
            if pair is None:
                yield trial, Verdict.unusable(self.network.n_members, [NO_TEXTS])
            elif pair[0].undecidable or pair[1].undecidable:
                yield trial, Verdict.unusable(self.network.n_members, notes_on(pair, remarks))
            else:
                yield trial, next(answers)

    def _verdicts(self, chunk: _Chunk) -> Iterator[Verdict]:
        """On the pairs that were embedded."""
        documents, notes = [], []
        for pair, remarks in zip(chunk.pairs, chunk.remarks, strict=True):
            if pair is not None and pair[0].embedding is not None and pair[1].embedding is not None:
                documents.append((pair[0].embedding, pair[1].embedding))
                notes.append(notes_on(pair, remarks))
        for at in range(0, len(documents), PAIRS_SCORED):
            some = slice(at, at + PAIRS_SCORED)
            both = Embedding.join([embedding for pair in documents[some] for embedding in pair], "documents")
            yield from self._score(both, slice(0, None, 2), slice(1, None, 2), notes[some])

    def _score(
        self,
        embedding: Embedding,
        first: slice | torch.Tensor,
        second: slice | torch.Tensor,
        notes: list[tuple[Note, ...]],
    ) -> Iterator[Verdict]:
        """Verdicts on the pairs of documents in rows `first` and `second`.

        In double precision: the last bits, which depend on the other pairs, are then rounded away.
        """
        with torch.inference_mode():
            pair = embedding.double().pair(first, second)
            said = self._scores.score(pair)
            scores = said.stacked().float().numpy().astype(np.float64)
            distances = pair.distance.mean(0).float().cpu().numpy()
            familiar = None if said.familiar is None else said.familiar.float().cpu().numpy()
        return verdicts(scores, distances, notes, familiar, self.ratio_bounds, self.ensemble.calibration)
