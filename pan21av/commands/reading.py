"""What `explain` shows of two texts: how the encoder read them, and the habits that their n-grams tell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ..data import layout
from ..data.batch import Batch, batch_of, window_spans
from ..data.ngrams import CLASSES, Pool
from ..data.tokeniser import Tokeniser, encode_all
from ..verifier import Verifier

SHOWN_HABITS = 15
BLANK_SHOWN = "␣"
BREAKS_SHOWN = {"¶": "(line end)", "¶¶": "(blank line)", "¶¶¶": "(blank lines)", layout.WIDE: "(wide gap)"}
MIN_SHOWN = 0.05  # of 1,000 words: less is shown as 0.0, and says nothing


@dataclass(frozen=True)
class Reading:
    """One text as the program reads it, with the attention that its tokens got, averaged over members; None for an
    ensemble without encoder."""

    pieces: list[tuple[str, int]]  # (piece of text, token number or -1), in order
    tokens: list[str]
    word: np.ndarray | None = None  # (tokens): share of all attention
    passage: np.ndarray | None = None  # (tokens): mean weight of the windows over it, 1 for an even share


def readings(verifier: Verifier, texts: Sequence[str]) -> tuple[list[Reading], Batch]:
    """Both texts as the verdict rests on them, and the batch that they make."""
    config, tokeniser, reading = verifier.config, verifier.ensemble.tokeniser, verifier.ensemble.reading
    read = encode_all(texts, **reading)
    if reading["mend"]:
        texts = [tokeniser.repaired(text, config.max_tokens)[0] for text in texts]
    tokens = [document.words for document in read]
    batch = batch_of(read, verifier.ensemble.vocabulary, config)
    if verifier.network.encoder is None:
        every = zip(texts, tokens, strict=True)
        return [Reading(_pieces(text, document, tokeniser), document) for text, document in every], batch
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
    """How often a common word, or a way to put words together, stands among 1,000 tokens."""

    name: str
    first: float
    second: float
    usual: float


READABLE = ("words", "pairs", "triples")  # views whose n-grams mean something to a reader
TYPED = ("layout",)  # the same of the layout part


@torch.no_grad()
def habits(verifier: Verifier, batch: Batch, views: Sequence[str] = READABLE) -> tuple[list[Habit], list[Habit]] | None:
    """What both texts do unusually often or seldom, and in what they differ, nothing in both lists.

    None for an ensemble that does not read such n-grams.
    """
    network, pool = verifier.network, verifier.ensemble.vocabulary.ngrams
    part = network.layout if views == TYPED else network.ngrams
    if part is None or pool is None or batch.ngrams is None:
        return None
    batch = batch.to(verifier.device)
    assert batch.ngrams is not None
    z = part.z_scores(batch.ngrams, batch.tokens)
    # Each member reads n-grams of its own: sums over the members that have one, by its place in the pool.
    sums = {name: torch.zeros(len(pool)) for name in ("common", "apart", "usual", "members")}
    weight = part.weight.square().sum(-1)
    each = {
        "common": z[:, 0] * z[:, 1] * weight,
        "apart": (z[:, 0] - z[:, 1]).square() * weight,
        "usual": part.background,
        "members": torch.ones_like(weight),
    }
    for name, values in each.items():
        sums[name].index_add_(0, part.index.flatten().long().cpu(), values.flatten().cpu())
    usage, usual = 1000 * batch.ngrams.cpu(), 1000 * sums["usual"] / sums["members"].clamp_min(1)
    shown = torch.zeros(len(pool), dtype=torch.bool)
    for view in views:
        shown[pool.views[view]] = True
    names = readable_names(pool)
    shown &= torch.tensor([name != "" for name in names])
    shown &= (usage >= MIN_SHOWN).any(0) & (sums["members"] > 0)

    def top(score: torch.Tensor, which: torch.Tensor) -> list[Habit]:
        """The first of each name: classes of words that are written alike look alike."""
        found: dict[str, Habit] = {}
        for i in score.argsort(descending=True).tolist():
            if which[i] and names[i] not in found:
                found[names[i]] = Habit(names[i], float(usage[0, i]), float(usage[1, i]), float(usual[i]))
                if len(found) == SHOWN_HABITS:
                    break
        return list(found.values())

    # In common is what both do alike more than they differ in it.
    alike = sums["common"] > sums["apart"]
    in_common = top(sums["common"], shown & alike)
    taken = {habit.name for habit in in_common}
    apart = top(sums["apart"], shown & ~alike & (sums["apart"] > 0) & ~torch.tensor([n in taken for n in names]))
    return in_common, apart


def readable_names(pool: Pool) -> list[str]:
    """Of every n-gram of the pool: "the", "the …ing of"; "" for what is not shown."""
    names = [""] * len(pool)
    names[pool.views["words"]] = pool.words
    for view in ("pairs", "triples"):
        names[pool.views[view]] = [" ".join(map(_symbol, entry.split(" "))) for entry in getattr(pool, view)]
    names[pool.views["layout"]] = map(_typed, pool.layout)
    return names


def _typed(gram: str) -> str:
    """An n-gram of layout as it would be typed, with blanks to be seen: "(word),␣(word)"; "" for words alone."""
    symbols = gram.split(" ")
    if not set(symbols) - set(layout.WORDS):
        return ""
    written, between = "", ""
    for symbol in symbols:
        word = symbol in layout.WORDS
        if symbol in BREAKS_SHOWN:
            written = written.removesuffix(BLANK_SHOWN)
        typed = symbol.replace(layout.BLANK, BLANK_SHOWN).replace("sign", "(sign)")
        shown = f"({symbol})" if word else BREAKS_SHOWN.get(symbol, typed)
        written += (between if word else "") + shown
        between = BLANK_SHOWN if word else ""
    return written.replace(2 * BLANK_SHOWN, BLANK_SHOWN)


def _symbol(symbol: str) -> str:
    """A class as a reader understands it: by its ending, else by its kind."""
    if symbol not in CLASSES:
        return symbol
    case, _, rest = symbol.strip("<>").partition("-")
    size, _, ending = rest.partition("-")
    if ending:
        return f"…{ending}"
    return {"word": f"({size} word)" if size != "middle" else "(word)", "Name": "(Name)"}.get(case, f"({case})")
