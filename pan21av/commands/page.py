"""One self-contained page: the template page.html, filled, in its frame. Texts in it are data, never mark-up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from .. import __version__
from ..data.batch import Batch
from ..verdict import CAUTION, Verdict, three_figures
from ..verifier import Verifier
from ..vote import PlattScaling, says_same, vote
from .reading import TYPED, Habit, Reading, habits, readings
from .topic import Masked, masked_verdict

SHOWN_WORDS = 15
MEANINGS = {
    "dml": ("Distance", "how close the two style vectors are, turned into a probability of one author"),
    "bfs": ("Likelihood ratio", "the probability of one author that the likelihood ratio of the two vectors gives"),
    "ual": ("Corrected", "the same, corrected by how pairs like this one are usually misjudged"),
    "o2d2": ("Undecidable", "the probability that a member would be wrong or unsure here; from 0.5 on it abstains"),
}


def render(
    verifier: Verifier,
    verdict: Verdict,
    texts: tuple[str, str],
    names: tuple[str, str],
    prior: float | None = None,
) -> str:
    """The whole page."""
    (first, second), batch = readings(verifier, texts)
    return fill(
        "page.html",
        title=escape(f"{verdict.words}: {names[0]} / {names[1]}"),
        words=escape(verdict.words[0].upper() + verdict.words[1:]),
        tone=_tone(verdict),
        sentence=escape(_sentence(verdict)),
        ratio=escape(_ratio(verdict, prior)),
        caution=escape(CAUTION),
        notes=_notes(verdict),
        scale=_scale(verdict.probability),
        evidence=_evidence(verifier, verdict, texts, batch),
        reading=_reading(names, (first, second), asked=verdict.scores is not None),
        provenance=escape(
            f"pan21av {__version__}, ensemble {verifier.ensemble.name}, {verifier.network.n_members} members. "
            f"Read: {len(first.tokens):,} and {len(second.tokens):,} tokens, of at most {verifier.config.max_tokens:,}."
            + (f" Judged with {verifier.population.words}." if verifier.population else "")
        ),
    )


def _evidence(verifier: Verifier, verdict: Verdict, texts: tuple[str, str], batch: Batch) -> str:
    """What the verdict rests on; nothing where no member was asked."""
    if verdict.scores is None:
        return ""
    calibration = verifier.ensemble.calibration or PlattScaling()
    moved = "" if calibration == PlattScaling() else ", made as sure as such answers have proved right"
    members = (
        f"Each dot is one of {verifier.network.n_members} members of the ensemble, placed at its own probability of "
        "one author. Hollow dots abstain: they find the pair undecidable. If most abstain, the answer is 0.5; else it "
        f"is the mean of the full ones{moved}."
    )
    scores = f'<p class="soft">Means over the members.</p><div class="cards">{_scores(verdict)}</div>'
    return "\n".join(
        [
            f'<h2>The members</h2><p class="soft">{members}</p>{_dots(verdict)}',
            f"<h2>Four scores</h2>{scores}",
            _topic(verdict, masked_verdict(verifier, texts)),
            f"<h2>How far apart</h2>{_histogram(verifier.ensemble.info.get('distances'), verdict.distance)}",
            _habits(habits(verifier, batch), habits(verifier, batch, TYPED)),
        ]
    )


def fill(template: str, *, title: str, **content: object) -> str:
    """A template of this folder, in the frame and style that all pages share. Scripts run only if it has some of its
    own."""
    here = files("pan21av.commands")
    frame, style, body = ((here / name).read_text("utf-8") for name in ("frame.html", "style.css", template))
    scripts = " script-src 'unsafe-inline';" if "<script>" in body else ""
    page = Template(body).substitute(content)
    return Template(frame).substitute(title=title, style=style, scripts=scripts, body=page)


# ---- the verdict -----------------------------------------------------------------------------------


def _tone(verdict: Verdict) -> str:
    """A colour only where the evidence supports a side."""
    return {None: "", True: "same", False: "different"}[verdict.decision] if verdict.supported else ""


def _sentence(verdict: Verdict) -> str:
    p = verdict.probability
    if verdict.scores is None:
        return "The answer is exactly 0.5: the texts do not allow a decision."
    if verdict.decision is None:
        return "The answer is exactly 0.5: most members find the pair undecidable."
    one, two = map(three_figures, (p, 1 - p))
    return f"The probability that one person wrote both is {one}; that two did, {two}."


def _ratio(verdict: Verdict, prior: float | None) -> str:
    words = verdict.ratio_words
    if prior is not None and (posterior := verdict.posterior(prior)) is not None:
        words += f" With a prior probability of {prior:g} that of one author becomes {three_figures(posterior)}."
    return words


def _topic(verdict: Verdict, masked: Masked | None) -> str:
    if masked is None:
        return ""
    cards = "".join(
        f'<div class="card"><h3>{title}</h3><b>{escape(three_figures(said.probability))}</b>'
        f'<p class="soft">{escape(said.words)}</p></div>'
        for title, said in (("As written", verdict), ("Content words exchanged", masked.verdict))
    )
    return (
        '<h2>Topic</h2><p class="soft">The probability of one author again, with every word that is not among the '
        f"commonest ({masked.share:.0%} of the tokens) exchanged for a random one of the same kind. What is left is "
        "function words, punctuation and how sentences are built: less evidence, and random words make any two texts "
        "a little more alike. An answer for one author that turns round rested on what the texts are about.</p>"
        f'<div class="cards">{cards}</div>'
    )


def _notes(verdict: Verdict) -> str:
    items = "".join(f"<li>{escape(str(note))}</li>" for note in verdict.notes)
    return f'<ul class="notes">{items}</ul>' if items else ""


# ---- texts and habits ------------------------------------------------------------------------------


def _ranks(values: np.ndarray) -> np.ndarray:
    """Near 0 for the least, 1 for the most; equal values share their rank. Never 0, which is not shaded at 100 %."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    upto = np.cumsum(counts)[inverse]
    return np.maximum(upto / max(1, len(values)), 0.01)


WITH_ENCODER = """<h2>What the encoder looked at</h2>
<p class="soft">The texts as the program reads them. A shaded word got much attention; a line under words marks passages
that got much. Attention shows where it looked, not why it decided. Point at a word for its weight.</p>
<div class="slider"><label for="share">Shade the most attended</label>
<input id="share" type="range" min="0" max="100" value="20" step="1">
<output for="share" id="shown">20 %</output></div>"""
UNASKED = '<h2>The texts</h2><p class="soft">As the program reads them. No member was asked.</p>'
WITHOUT = '<h2>The texts</h2><p class="soft">As the program reads them. This ensemble has no encoder.</p>'


def _reading(names: tuple[str, str], readings: tuple[Reading, Reading], asked: bool) -> str:
    title = WITHOUT if readings[0].word is None else WITH_ENCODER
    if not asked:  # so no attention led to an answer
        title, readings = UNASKED, (replace(readings[0], word=None), replace(readings[1], word=None))
    every = list(zip(names, readings, strict=True))
    texts, attended = ("".join(show(name, reading) for name, reading in every) for show in (_text, _attended))
    return f'{title}<div class="two">{texts}</div><div class="two" style="margin-top:1rem">{attended}</div>'


def _text(name: str, reading: Reading) -> str:
    if reading.word is None or reading.passage is None:
        pieces = ("<br><br>" if piece == "\n\n" else escape(piece) for piece, _ in reading.pieces)
        body = "".join(pieces)
        return f'<section><h3>{escape(name)}</h3><div class="text" tabindex="0" role="document">{body}</div></section>'
    word, passage = _ranks(reading.word), _ranks(reading.passage)
    even = 1 / len(reading.tokens)
    parts = [f'<section><h3>{escape(name)}</h3><div class="text" tabindex="0" role="document">']
    for piece, number in reading.pieces:
        if number < 0:
            parts.append("<br><br>" if piece == "\n\n" else escape(piece))
            continue
        # Short, for there may be ten thousand of them; the script says what the number means when pointed at.
        times = reading.word[number] / even
        parts.append(
            f'<i style="--w:{word[number]:.2f};--v:{passage[number]:.2f}" data-t="{times:.1f}">{escape(piece)}</i>'
        )
    return "".join(parts) + "</div></section>"


def _attended(name: str, reading: Reading) -> str:
    """The words that got most attention for each time they stand there."""
    if reading.word is None:
        return ""
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


def _habits(of_words: tuple[list[Habit], list[Habit]] | None, typed: tuple[list[Habit], list[Habit]] | None) -> str:
    if of_words is None:
        return ""

    def table(title: str, note: str, rows: list[Habit]) -> str:
        if not rows:
            return f'<section><h3>{title}</h3><p class="soft">Nothing worth showing.</p></section>'
        cells = "".join(
            f"<tr><td>{escape(h.name)}</td><td>{h.first:.1f}</td><td>{h.second:.1f}</td><td>{h.usual:.1f}</td></tr>"
            for h in rows
        )
        return (
            f'<section><h3>{title}</h3><p class="soft">{note}</p><table><thead><tr><th>habit</th><th>first</th>'
            f"<th>second</th><th>usual</th></tr></thead><tbody>{cells}</tbody></table></section>"
        )

    def both(found: tuple[list[Habit], list[Habit]]) -> str:
        common = table("In common", "Both use these more, or both less, than is usual.", found[0])
        apart = table("Different", "One uses these more than the other.", found[1])
        return f'<div class="two">{common}{apart}</div>'

    page = (
        '<h2>Habits</h2><p class="soft">How often words, and ways to put words together, stand among 1,000, where it '
        "counts most; “…ing” is any less common word with that ending. A part of the style vector comes from such "
        f"frequencies.</p>{both(of_words)}"
    )
    if typed is not None:
        page += (
            '<h2>Typing</h2><p class="soft">How often signs, blanks (“␣”) and ends of lines stand among 1,000 words '
            "and signs, where it counts most. Another part of the style vector comes from these; it knows nothing of "
            f"words.</p>{both(typed)}"
        )
    return page


# ---- pictures ----------------------------------------------------------------------------------------


def _x(value: float) -> float:
    return round(20 + 560 * min(max(value, 0.0), 1.0), 1)


def _wide(tick: float) -> str:
    """Labels between those at the ends and in the middle, for which a telephone has no room."""
    return ' class="quarter"' if tick in (0.25, 0.75) else ""


def _axis(y: int) -> str:
    anchor = {0.0: "start", 1.0: "end"}
    labels = {0.0: "two authors", 0.25: "0.25", 0.5: "0.5", 0.75: "0.75", 1.0: "one author"}
    ticks = "".join(
        f'<line x1="{_x(t)}" x2="{_x(t)}" y1="{y - 4}" y2="{y + 4}" stroke="currentColor" opacity=".5"/>'
        f'<text x="{_x(t)}" y="{y + 20}" text-anchor="{anchor.get(t, "middle")}"{_wide(t)}>{label}</text>'
        for t, label in labels.items()
    )
    return f'<line x1="{_x(0)}" x2="{_x(1)}" y1="{y}" y2="{y}" stroke="currentColor" opacity=".5"/>{ticks}'


def _scale(probability: float) -> str:
    x, shown = _x(probability), escape(three_figures(probability))
    return (
        f'<svg viewBox="0 -12 600 74" role="img" aria-label="probability {shown} on a scale from 0 to 1">'
        f'{_axis(34)}<path d="M{x} 30 l-7 -12 h14 z" fill="currentColor"/>'
        f'<text x="{min(max(x, 30), 570)}" y="13" text-anchor="middle" style="fill:currentColor;font-weight:700">'
        f"{shown}</text></svg>"
    )


def _dots(verdict: Verdict) -> str:
    p_same, p_undecidable = verdict.score("ual"), verdict.score("o2d2")
    assert p_same is not None
    assert p_undecidable is not None
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
            f'stroke="currentColor" stroke-width="1.5"><title>a member {word} {escape(three_figures(value))}</title>'
            "</circle>"
        )
    height = 13 * max(stacked.values(), default=0) + 14
    said = f"{verdict.same} for one author, {verdict.different} for two, {verdict.abstained} abstain"
    return (
        f'<svg viewBox="0 0 600 {height + 40}" role="img" aria-label="{said}">'
        f'<g transform="translate(0 {height - 4})">{"".join(marks)}</g>{_axis(height + 12)}</svg>'
        f'<p class="soft">{said}.{f" {verdict.kind}." if verdict.kind else ""}</p>'
    )


def _scores(verdict: Verdict) -> str:
    cards = []
    for key, (name, meaning) in MEANINGS.items():
        values = verdict.score(key)
        assert values is not None
        shown = escape(three_figures(float(values.mean())))
        cards.append(
            f'<div class="card"><h3>{name} <span class="soft">p<sub>{key.upper()}</sub></span></h3><b>{shown}</b>'
            f'<p class="soft">{meaning}.</p></div>'
        )
    return "".join(cards)


def _histogram(distances: Any, distance: float | None) -> str:
    if distance is None:
        return '<p class="soft">The distance was not measured.</p>'
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
