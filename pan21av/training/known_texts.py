"""Several known texts: how much surer a member is of a person of whom it reads one, two or three texts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from ..network.embedding import Embedding
from ..network.network import Network
from .contrastive import DOCUMENTS_PER_BATCH
from .crops import Crops
from .prepared import VALIDATE, Prepared
from .streams import COHORT_SEED, Stream, numpy_stream

KNOWN = 3  # texts at most
PER_AUTHOR = 2  # texts that are asked about


class KnownTrials(NamedTuple):
    """Questioned texts, each against the texts of one person."""

    questioned: np.ndarray  # (T) documents
    known: np.ndarray  # (T, KNOWN) documents of one author
    same: np.ndarray  # (T) bool


def known_trials(prepared: Prepared) -> KnownTrials:
    """The same for all members: of every validation author with enough texts, no two of one work, some are asked about;
    each also against the known texts of another such author of the source."""
    catalogue, rng = prepared.catalogue, numpy_stream(COHORT_SEED, Stream.KNOWN_TEXTS)
    documents = rng.permutation(prepared.documents(VALIDATE))
    of_source: dict[int, list[list[int]]] = {}
    for author in np.unique(catalogue.author[documents]):
        mine: list[int] = []
        for document in documents[catalogue.author[documents] == author].tolist():
            if all(catalogue.may_pair(document, other) for other in mine):
                mine.append(document)
        if len(mine) > KNOWN:
            of_source.setdefault(int(catalogue.source[mine[0]]), []).append(mine)
    trials = []
    for authors in of_source.values():
        if len(authors) < 2:
            continue
        for number, mine in enumerate(authors):
            other = authors[number - 1]
            for turn in range(PER_AUTHOR):
                known = [mine[(turn + k) % len(mine)] for k in range(1, KNOWN + 1)]
                trials += [(mine[turn], known, True), (other[turn], known, False)]
    questioned, known_of, same = zip(*trials, strict=True) if trials else ((), (), ())
    return KnownTrials(
        np.array(questioned, dtype=np.int64),
        np.array(known_of, dtype=np.int64).reshape(-1, KNOWN),
        np.array(same, dtype=bool),
    )


@torch.no_grad()
def known_scores(network: Network, prepared: Prepared) -> dict[str, np.ndarray]:
    """What one member says of these trials: p_UAL and p_O2D2 (T) with each number of known texts, as columns such as
    "ual*2". Texts of one person are read as one document, as a verifier does it."""
    trials = known_trials(prepared)
    if not len(trials.same):
        return {}
    columns: dict[str, np.ndarray] = {}
    questioned, asked = _embed(network, prepared, trials.questioned[:, None])
    for texts in range(1, KNOWN + 1):
        known, whose = _embed(network, prepared, trials.known[:, :texts])
        both = Embedding.join([questioned, known], "documents")
        scores = network.score(both.pair(asked, whose + len(questioned)))
        columns |= {f"{name}*{texts}": getattr(scores, name)[0].cpu().numpy() for name in ("ual", "o2d2")}
    return columns


def _embed(network: Network, prepared: Prepared, documents: np.ndarray) -> tuple[Embedding, torch.Tensor]:
    """(T, texts) documents -> embeddings, each of several texts together and once, and which is whose (T)."""
    crops = Crops(prepared, numpy_stream(COHORT_SEED, Stream.KNOWN_TEXTS))
    documents, rows = np.unique(documents, axis=0, return_inverse=True)
    parts = []
    for at in range(0, len(documents), DOCUMENTS_PER_BATCH):
        spans = [[crops.whole(int(d)) for d in texts] for texts in documents[at : at + DOCUMENTS_PER_BATCH]]
        parts.append(network.embed(prepared.batch_of_texts(spans, network.config).to(network.device)))
    return Embedding.join(parts, "documents"), torch.from_numpy(rows.reshape(-1))
