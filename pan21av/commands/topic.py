"""How much a verdict rests on what the texts are about: the same question with content words exchanged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..data.masking import Masking
from ..data.tokeniser import Tokens, encode_all
from ..verdict import Verdict
from ..verifier import Verifier


@dataclass(frozen=True)
class Masked:
    """What is said of two texts without their content words."""

    verdict: Verdict
    share: float  # of the tokens of both that were exchanged


def masked_verdict(verifier: Verifier, texts: Sequence[str]) -> Masked:
    """Of two texts that could be read."""
    read = encode_all(texts, **verifier.ensemble.reading)
    masking = Masking(verifier.ensemble.vocabulary)
    masked = [masking.mask(tokens.words, seed) for seed, tokens in enumerate(read)]
    # Words are exchanged by some with the same capitals, so the layout is what it was.
    exchanged = [Tokens.of(words, layout=tokens.layout) for (words, _), tokens in zip(masked, read, strict=True)]
    embedding = verifier.embed_tokens(exchanged)
    (verdict,) = verifier.compare(embedding[[0]], embedding[[1]])
    lengths = [len(tokens.ids) for tokens in read]
    share = sum(n * s for n, (_, s) in zip(lengths, masked, strict=True)) / sum(lengths)
    return Masked(verdict, share)
