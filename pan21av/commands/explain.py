"""`pan21av explain`: one pair of texts to one self-contained page."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import torch

from .. import __version__
from ..data.batch import Batch, batch_of, window_spans
from ..data.tokeniser import UNREADABLE, Tokeniser, Tokens
from ..data.trials import TrialFile
from ..errors import InputError
from ..files import write_whole
from ..network.lda import standardise
from ..verdict import Verdict
from ..verifier import Verifier
from ..vote import says_same, vote

SHOWN_WORDS = 15
MEANINGS = {
    "dml": ("Distance", "how close the two style vectors are, turned into a probability"),
    "bfs": ("Likelihood ratio", "how much likelier the two vectors are under one author than under two"),
    "ual": ("Corrected", "the likelihood ratio, corrected by how this kind of pair is usually misjudged"),
    "o2d2": ("Undecidable", "the probability that a member would be wrong or unsure here; from 0.5 on it abstains"),
}


def explain(
    first: str,
    second: str,
    output: str | os.PathLike[str],
    *,
    names: tuple[str, str] = ("first text", "second text"),
    models: str | os.PathLike[str] | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> Verdict:
    """Write a page on one pair to `output`; it needs no network, and texts in it are data, never markup."""
    verifier = Verifier.load(models, device=device, threads=threads)
    verdict = verifier.verify(first, second)
    page = render(verifier, verdict, (first, second), names)
    write_whole(Path(output), page.encode("utf-8", "replace"))
    return verdict


def find_trial(source: str, trial: str) -> tuple[str, str]:
    """The texts of one trial of a pairs.jsonl."""
    with TrialFile(source, Path(".")) as trials:
        skip = trials.inspect().skip
        for entry in trials.read(skip):
            if entry.id == trial:
                if entry.texts is None:
                    raise InputError(f"{trials.name}: the trial {trial!r} lacks two usable texts")
                return entry.texts
        raise InputError(f"{trials.name} holds no trial {trial!r}")


# ---- what the page shows ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Reading:
    """One text as the program reads it, with the attention that its tokens got, averaged over members."""

    pieces: list[tuple[str, int]]  # (piece of text, token number or -1), in order
    tokens: list[str]
    word: np.ndarray  # (tokens): share of all attention
    passage: np.ndarray  # (tokens): mean weight of the windows over it, 1 for an even share


def readings(verifier: Verifier, texts: Sequence[str]) -> tuple[list[Reading], Batch]:
    config, tokeniser = verifier.config, verifier.ensemble.tokeniser
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


def _ranks(values: np.ndarray) -> np.ndarray:
    """0 for the least, 1 for the most; equal values share their rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    upto = np.cumsum(counts)[inverse]
    return np.asarray(upto / max(1, len(values)))


def _text(name: str, reading: Reading) -> str:
    word, passage = _ranks(reading.word), _ranks(reading.passage)
    even = 1 / len(reading.tokens)
    parts = [f'<section><h3>{escape(name)}</h3><div class="text" tabindex="0" role="document">']
    for piece, number in reading.pieces:
        if number < 0:
            parts.append("<br><br>" if piece == "\n\n" else escape(piece))
            continue
        weight = reading.word[number]
        parts.append(
            f'<span style="--w:{word[number]:.3f};--v:{passage[number]:.3f}" title="{100 * weight:.3f} % of the '
            f'attention, {weight / even:.1f} times an even share">{escape(piece)}</span>'
        )
    return "".join(parts) + "</div></section>"


def _attended(name: str, reading: Reading) -> str:
    """The words that got most attention for each time they stand there."""
    sums: dict[str, list[float]] = {}
    for token, weight in zip(reading.tokens, reading.word, strict=True):
        sums.setdefault(token.lower(), []).append(float(weight))
    even = 1 / len(reading.tokens)
    often = {t: w for t, w in sums.items() if len(w) > 1 and any(map(str.isalnum, t))} or sums
    top = sorted(often, key=lambda t: -float(np.mean(often[t])))[:SHOWN_WORDS]
    rows = "".join(
        f"<tr><td>{escape(t)}</td><td>{len(often[t])}</td><td>{np.mean(often[t]) / even:.1f}</td></tr>" for t in top
    )
    return (
        f"<section><h3>Most attended words: {escape(name)}</h3><table><thead><tr><th>word</th><th>times</th>"
        f"<th>attention each (1 = even)</th></tr></thead><tbody>{rows}</tbody></table></section>"
    )


@torch.no_grad()
def _habits(verifier: Verifier, batch: Batch) -> str:
    """Common words that both texts use unusually, and those in which they differ; "" for a model without LDA."""
    lda = verifier.network.lda
    if lda is None or batch.frequencies is None:
        return ""
    words = verifier.config.lda_words + 1  # the first features; letter pairs follow
    batch = batch.to(verifier.device)
    assert batch.frequencies is not None
    z = standardise(batch.frequencies, batch.tokens, lda.background[0], lda.mean[0], lda.scale[0])[:, :words].cpu()
    weight = lda.weight[:, :words].norm(dim=-1).mean(0).cpu()
    usual = lda.background[0, :words].cpu().numpy()
    usage = batch.frequencies[:, :words].cpu().numpy()
    names = ["(rare words)", *verifier.ensemble.vocabulary.words[: words - 1]]

    def table(title: str, note: str, score: torch.Tensor) -> str:
        rows = "".join(
            f"<tr><td>{escape(names[i])}</td><td>{1000 * usage[0, i]:.1f}</td><td>{1000 * usage[1, i]:.1f}</td>"
            f"<td>{1000 * usual[i]:.1f}</td></tr>"
            for i in score.argsort(descending=True)[:SHOWN_WORDS].tolist()
        )
        return (
            f'<section><h3>{title}</h3><p class="soft">{note}</p><table><thead><tr><th>word</th><th>first</th>'
            f"<th>second</th><th>usual</th></tr></thead><tbody>{rows}</tbody></table></section>"
        )

    common = table("In common", "Both use these more, or both less, than is usual.", z[0] * z[1] * weight.square())
    apart = table("Different", "One uses these more than the other.", (z[0] - z[1]).square() * weight.square())
    return (
        '<h2>Habits</h2><p class="soft">How often common words stand among 1,000, where it counts most. A part of the '
        f'style vector comes from such frequencies.</p><div class="two">{common}{apart}</div>'
    )


# ---- pictures ----------------------------------------------------------------------------------------


def _x(value: float) -> float:
    return round(20 + 560 * min(max(value, 0.0), 1.0), 1)


def _axis(y: int) -> str:
    anchor = {0.0: "start", 1.0: "end"}
    labels = {0.0: "two authors", 0.25: "0.25", 0.5: "0.5", 0.75: "0.75", 1.0: "one author"}
    ticks = "".join(
        f'<line x1="{_x(t)}" x2="{_x(t)}" y1="{y - 4}" y2="{y + 4}" stroke="currentColor" opacity=".5"/>'
        f'<text x="{_x(t)}" y="{y + 20}" text-anchor="{anchor.get(t, "middle")}">{label}</text>'
        for t, label in labels.items()
    )
    return f'<line x1="{_x(0)}" x2="{_x(1)}" y1="{y}" y2="{y}" stroke="currentColor" opacity=".5"/>{ticks}'


def _scale(probability: float) -> str:
    x = _x(probability)
    return (
        f'<svg viewBox="0 0 600 62" role="img" aria-label="probability {probability:.3f} on a scale from 0 to 1">'
        f'{_axis(34)}<path d="M{x} 30 l-7 -12 h14 z" fill="currentColor"/>'
        f'<text x="{min(max(x, 30), 570)}" y="13" text-anchor="middle" style="fill:currentColor;font-weight:700">'
        f"{probability:.3f}</text></svg>"
    )


def _dots(verdict: Verdict) -> str:
    p_same, p_undecidable = verdict.score("ual"), verdict.score("o2d2")
    if p_same is None or p_undecidable is None:
        return "<p>No member was asked: a text was empty.</p>"
    abstains = vote(p_same[:, None], p_undecidable[:, None]).abstains[:, 0]
    stacked: dict[int, int] = {}
    marks = []
    for value, silent in sorted(zip(p_same.tolist(), abstains.tolist(), strict=True)):
        column = round(value * 40)
        level = stacked[column] = stacked.get(column, -1) + 1
        colour = "same" if says_same(np.float64(value)) else "different"
        fill = "none" if silent else "currentColor"
        word = "abstains; it would say" if silent else "says"
        marks.append(
            f'<circle class="{colour}" cx="{_x(column / 40)}" cy="{-level * 13}" r="5.5" fill="{fill}" '
            f'stroke="currentColor" stroke-width="1.5"><title>a member {word} {value:.3f}</title></circle>'
        )
    height = 13 * max(stacked.values(), default=0) + 14
    said = f"{verdict.same} for one author, {verdict.different} for two, {verdict.abstained} abstain"
    return (
        f'<svg viewBox="0 0 600 {height + 40}" role="img" aria-label="{said}">'
        f'<g transform="translate(0 {height - 4})">{"".join(marks)}</g>{_axis(height + 12)}</svg>'
        f'<p class="soft">{said}.</p>'
    )


def _scores(verdict: Verdict) -> str:
    cards = []
    for key, (name, meaning) in MEANINGS.items():
        values = verdict.score(key)
        shown = "–" if values is None else f"{float(values.mean()):.3f}"
        cards.append(
            f'<div class="card"><h3>{name} <span class="soft">p<sub>{key.upper()}</sub></span></h3><b>{shown}</b>'
            f'<p class="soft">{meaning}.</p></div>'
        )
    return "".join(cards)


def _histogram(distances: Any, distance: float) -> str:
    if not isinstance(distances, dict):
        return '<p class="soft">This ensemble stores no distances of validation pairs.</p>'
    edges, same, different = distances["edges"], distances["same"], distances["different"]
    top, last = max(*same, *different, 1), edges[-1]

    def bars(counts: Iterable[int], colour: str) -> str:
        return "".join(
            f'<rect class="{colour}" x="{_x(low / last):.1f}" y="{110 - 100 * n / top:.1f}" '
            f'width="{max(0.5, _x(high / last) - _x(low / last) - 0.5):.1f}" height="{100 * n / top:.1f}" '
            'fill="currentColor" opacity=".45"/>'
            for low, high, n in zip(edges[:-1], edges[1:], counts, strict=True)
        )

    def share(counts: list[int]) -> float:
        return sum(n for low, n in zip(edges[:-1], counts, strict=True) if low < distance) / max(1, sum(counts))

    x = _x(distance / last)
    return (
        '<figure style="margin:0"><svg viewBox="0 0 600 135" role="img" aria-label="distances of validation pairs">'
        f"{bars(same, 'same')}{bars(different, 'different')}"
        f'<line x1="{x}" x2="{x}" y1="2" y2="114" stroke="currentColor" stroke-width="2.5"/>'
        f'<text x="{min(max(x, 40), 560)}" y="130" text-anchor="middle" style="fill:currentColor">this pair</text>'
        "</svg>"
        "<figcaption>Distance of the style vectors, as the members measure it, among the ensemble's validation pairs: "
        '<b class="same">one author</b>, <b class="different">two authors</b>. '
        f"{100 * share(same):.0f} % of the pairs by one author and {100 * share(different):.0f} % of those by two are "
        "closer than this one.</figcaption></figure>"
    )


def render(verifier: Verifier, verdict: Verdict, texts: tuple[str, str], names: tuple[str, str]) -> str:
    """The whole page."""
    (first, second), batch = readings(verifier, texts)
    p = verdict.probability
    sentence = {
        None: "The answer is exactly 0.5: most members find the pair undecidable.",
        True: f"The probability that one person wrote both is {p:.3f}.",
        False: f"The probability that one person wrote both is {p:.3f}; that two did, {1 - p:.3f}.",
    }[verdict.decision]
    page = Template((files("pan21av.commands") / "page.html").read_text("utf-8"))
    return page.substitute(
        title=escape(f"{verdict.words}: {names[0]} / {names[1]}"),
        words=verdict.words.capitalize(),
        tone={None: "", True: "same", False: "different"}[verdict.decision],
        sentence=sentence,
        scale=_scale(p),
        members=verifier.network.n_members,
        dots=_dots(verdict),
        scores=_scores(verdict),
        histogram=_histogram(verifier.ensemble.info.get("distances"), verdict.distance or 0.0),
        habits=_habits(verifier, batch),
        texts=_text(names[0], first) + _text(names[1], second),
        attended=_attended(names[0], first) + _attended(names[1], second),
        provenance=escape(
            f"pan21av {__version__}, ensemble {verifier.ensemble.name}, {verifier.network.n_members} members. "
            f"Read: {len(first.tokens):,} and {len(second.tokens):,} tokens, of at most {verifier.config.max_tokens:,}."
        ),
    )
