"""How much a verdict rests on what the texts are about: the same question with content words exchanged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..data.masking import Masking
from ..data.tokeniser import UNREADABLE
from ..verdict import Verdict
from ..verifier import Verifier


@dataclass(frozen=True)
class Masked:
    """What is said of two texts without their content words."""

    verdict: Verdict
    share: float  # of the tokens of both that were exchanged


def masked_verdict(verifier: Verifier, texts: Sequence[str]) -> Masked:
    """Of two texts that could be read."""
    tokeniser, limit = verifier.ensemble.tokeniser, verifier.config.max_tokens
    if verifier.ensemble.limits is not None:
        texts = [tokeniser.repaired(text, limit)[0] for text in texts]
    masking = Masking(verifier.ensemble.vocabulary)
    tokens = [tokeniser.tokenise(text, limit) or [UNREADABLE] for text in texts]
    masked = [masking.mask(document, seed) for seed, document in enumerate(tokens)]
    embedding = verifier.embed([" ".join(document) for document, _ in masked])
    (verdict,) = verifier.compare(embedding[[0]], embedding[[1]])
    lengths = list(map(len, tokens))
    share = sum(n * s for n, (_, s) in zip(lengths, masked, strict=True)) / sum(lengths)
    return Masked(verdict, share)
