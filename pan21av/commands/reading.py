"""What `explain` shows of two texts: how the encoder read them, and the habits that their frequencies tell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ..data.batch import Batch, batch_of, window_spans
from ..data.tokeniser import UNREADABLE, Tokeniser, Tokens
from ..network.lda import standardise
from ..verifier import Verifier

SHOWN_HABITS = 15
MIN_SHOWN = 0.05  # of 1,000 words: less is shown as 0.0, and says nothing


@dataclass(frozen=True)
class Reading:
    """One text as the program reads it, with the attention that its tokens got, averaged over members."""

    pieces: list[tuple[str, int]]  # (piece of text, token number or -1), in order
    tokens: list[str]
    word: np.ndarray  # (tokens): share of all attention
    passage: np.ndarray  # (tokens): mean weight of the windows over it, 1 for an even share


def readings(verifier: Verifier, texts: Sequence[str]) -> tuple[list[Reading], Batch]:
    """Both texts as the verdict rests on them, and the batch that they make."""
    config, tokeniser = verifier.config, verifier.ensemble.tokeniser
    if verifier.ensemble.limits is not None:
        texts = [tokeniser.repaired(text, config.max_tokens)[0] for text in texts]
    tokens = [tokeniser.tokenise(text, config.max_tokens) or [UNREADABLE] for text in texts]
    batch = batch_of([Tokens.of(t) for t in tokens], verifier.ensemble.vocabulary, config)
    with torch.inference_mode():
        encoding = verifier.network.encoder(batch.to(verifier.device), attention=True)
    assert encoding.token_attention is not None
    assert encoding.window_attention is not None
    token_weights, window_weights = encoding.token_attention.cpu().numpy(), encoding.window_attention.cpu().numpy()
    found, offset = [], 0
    for number, (text, document) in enumerate(zip(texts, tokens, strict=True)):
        spans = window_spans(len(document), config)
        word, passage, cover = (np.zeros(len(document)) for _ in range(3))
        for window, (start, length) in enumerate(spans):
            here = slice(start, start + length)
            weight = window_weights[:, number, window]
            word[here] += (weight[:, None] * token_weights[:, offset + window, :length]).mean(0)
            passage[here] += float(weight.mean()) * len(spans)
            cover[here] += 1
        offset += len(spans)
        found.append(Reading(_pieces(text, document, tokeniser), document, word, passage / np.maximum(cover, 1)))
    return found, batch


def _pieces(text: str, tokens: list[str], tokeniser: Tokeniser) -> list[tuple[str, int]]:
    """The text in pieces, with the number of the token that each is; paragraphs kept where they change no token."""
    paragraphs = re.split(r"\n\s*\n", text)
    if [token for paragraph in paragraphs for token in tokeniser.tokenise(paragraph)][: len(tokens)] != tokens:
        paragraphs = [text]
    pieces: list[tuple[str, int]] = []
    number = 0
    for paragraph in paragraphs:
        read = tokeniser.normalise(paragraph)
        at = 0
        for start, end in tokeniser.spans(read):
            if number == len(tokens):
                break
            pieces += [(read[at:start], -1), (read[start:end], number)]
            number, at = number + 1, end
        pieces.append(("\n\n", -1))
        if number == len(tokens):
            break
    return pieces


@dataclass(frozen=True)
class Habit:
    """How often a common word stands among 1,000."""

    word: str
    first: float
    second: float
    usual: float


@torch.no_grad()
def habits(verifier: Verifier, batch: Batch) -> tuple[list[Habit], list[Habit]] | None:
    """Words that both texts use unusually often or seldom, and those in which they differ, none in both lists.

    None for an ensemble that reads no frequencies.
    """
    lda = verifier.network.lda
    if lda is None or batch.frequencies is None:
        return None
    words = verifier.config.lda_words + 1  # the first features; letter pairs follow
    batch = batch.to(verifier.device)
    assert batch.frequencies is not None
    z = standardise(batch.frequencies, batch.tokens, lda.background[0], lda.mean[0], lda.scale[0])[:, :words].cpu()
    weight = lda.weight[:, :words].norm(dim=-1).mean(0).square().cpu()
    usage = 1000 * batch.frequencies[:, :words].cpu()
    usual = 1000 * lda.background[0, :words].cpu()
    names = ["(rare words)", *verifier.ensemble.vocabulary.words[: words - 1]]
    seen = (usage >= MIN_SHOWN).any(0)
    shared, apart = z[0] * z[1] * weight, (z[0] - z[1]).square() * weight

    def top(score: torch.Tensor, which: torch.Tensor) -> list[Habit]:
        order = [i for i in score.argsort(descending=True).tolist() if which[i]][:SHOWN_HABITS]
        return [Habit(names[i], float(usage[0, i]), float(usage[1, i]), float(usual[i])) for i in order]

    # In common is what both do alike more than they differ in it.
    alike = shared > apart
    return top(shared, seen & alike), top(apart, seen & ~alike & (apart > 0))
