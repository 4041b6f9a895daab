"""What the ensemble says of one pair, in numbers and in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import log10
from typing import Any, NamedTuple

import numpy as np

from .vote import NON_RESPONSE, SCORES, PlattScaling, says_same, vote

# From which odds on evidence is called what: the scale that forensic institutes in Europe report by. Above the last
# comes nothing: no ensemble of ours was validated on enough pairs to say more.
SUPPORT = ((100.0, "moderately strong support"), (10.0, "moderate support"), (2.0, "weak support"))
CAUTION = "Research only: no forensic, legal, disciplinary or hiring decision may rest on this."
# What a likelihood ratio compares.
PROPOSITIONS = (
    "the person who wrote the known text wrote the questioned text too",
    "another person, who writes texts of the same kind, wrote the questioned text",
)


MIN_FAMILIAR = 0.5  # from which probability on a kind of text counts as known

TEXTS, BOTH = ("first text", "second text"), "both texts"  # what a note is on
IDENTICAL = "the two are identical: the answer says no more than that a text is like itself"
CONTAINED = "all of it stands in the other text, so it is compared with itself"


class Note(NamedTuple):
    """Something that a reader of a verdict should know."""

    kind: str  # what run.json counts: "too short", "language", "cut", ...
    where: str  # one of TEXTS, or BOTH
    words: str

    def __str__(self) -> str:
        return f"{self.where}: {self.words}"


NO_TEXTS = Note("no text", BOTH, "one of them is missing or empty")


def validated_bounds(manifest: dict[str, Any]) -> tuple[float, float] | None:
    """`ratio_bounds` of an ensemble, by the histogram of its validation pairs; None if it stores none."""
    pairs = manifest.get("distances")
    return ratio_bounds(sum(pairs["same"]), sum(pairs["different"])) if isinstance(pairs, dict) else None


def ratio_bounds(same: int, different: int) -> tuple[float, float]:
    """How small and how large a log10 likelihood ratio may be called after validation on so many pairs of each kind.

    A ratio of x in favour of one author says that at most one in x different-author pairs looks like that (Turing's
    rule); n of them cannot show anything rarer than one in n. So ratios lie between 1 / same and different: the bounds
    of Vergeer et al. (Science & Justice 56, 2016, 482-491), simplified to sets without a misleading pair.
    """
    return -log10(max(1, same)), log10(max(1, different))


def bounds_words(bounds: tuple[float, float] | None) -> str:
    """How far ratios can go, in a sentence."""
    if bounds is None:
        return "This ensemble does not say how many pairs it was validated on, so there is no likelihood ratio."
    same, different = (f"{10 ** abs(bound):,.0f}" for bound in bounds)
    return (
        f"Validation on {same} pairs by one author and {different} by two supports no ratio beyond 1/{same} and "
        f"{different}."
    )


def compare_texts(texts: Sequence[str]) -> tuple[Note, ...]:
    """Remarks on texts that are not two: a questioned one, and one or several known ones."""
    first, *known = (" ".join(text.split()) for text in texts)
    names = (TEXTS[1],) if len(known) == 1 else tuple(f"known text {n}" for n in range(1, len(known) + 1))
    notes = []
    for second, name in zip(known, names, strict=True):
        if first == second:
            where = BOTH if len(known) == 1 else name
            notes.append(Note("identical", where, IDENTICAL))
        elif first in second:
            notes.append(Note("contained", TEXTS[0], CONTAINED))
        elif second in first:
            notes.append(Note("contained", name, CONTAINED))
    for n, name in enumerate(names):
        if known[n] in known[:n]:
            notes.append(Note("repeated", name, "the same as another of them, and counts once"))
    return tuple(notes)


@dataclass(frozen=True, eq=False)
class Verdict:
    probability: float  # that one author wrote both; exactly 0.5: it cannot tell
    abstained: int  # members that could not decide
    same: int  # members, of the others, for "same author"
    different: int
    scores: np.ndarray | None = None  # (4, M): what every member says, in the order of SCORES; None: nobody was asked
    distance: float | None = None  # squared, between the embeddings as DML reads them; mean over members
    notes: tuple[Note, ...] = ()
    familiar: int | None = None  # members that take it for a kind of text that they know; None: they cannot say
    bounds: tuple[float, float] | None = None  # of log10_lr; None: validation pairs are not known, so it has no value

    @classmethod
    def unusable(cls, n_members: int, notes: Iterable[Note] = ()) -> Verdict:
        """Of a pair that cannot be decided, whatever members would say."""
        return cls(NON_RESPONSE, n_members, 0, 0, notes=tuple(notes))

    @property
    def decision(self) -> bool | None:
        """True: same author; False: different authors; None: cannot tell."""
        return None if self.probability == NON_RESPONSE else bool(says_same(np.float64(self.probability)))

    @property
    def log10_lr(self) -> float | None:
        """Of PROPOSITIONS, the first over the second, within `bounds`: above 0 it speaks for one author. `probability`
        is the posterior of even prior odds, so its odds are the ratio. None: it cannot tell, or the bounds are unknown.
        """
        if self.decision is None or self.bounds is None:
            return None
        low, high = self.bounds
        return min(max(self._log10_odds, low), high)

    @property
    def _log10_odds(self) -> float:
        p = min(max(self.probability, 1e-12), 1 - 1e-12)
        return log10(p / (1 - p))

    def posterior(self, prior: float) -> float | None:
        """The probability of one author for another prior than a half; that prior itself where the verdict is "cannot
        tell". None where the ratio has no value."""
        if not 0 < prior < 1:
            raise ValueError(f"a prior lies between 0 and 1, not at {prior}")
        if self.decision is None:
            return prior
        if self.log10_lr is None:
            return None
        odds = 10**self.log10_lr * prior / (1 - prior)
        return odds / (1 + odds)

    @property
    def ratio_words(self) -> str:
        """The likelihood ratio in a sentence, with what it compares and how far it can go."""
        if self.scores is None and self.decision is None:
            return "No likelihood ratio: the texts do not allow a decision."
        if self.decision is None:
            return "No likelihood ratio: the members cannot tell."
        if self.log10_lr is None:
            return bounds_words(None)
        favoured, other = PROPOSITIONS if self.log10_lr >= 0 else PROPOSITIONS[::-1]
        times = 10 ** abs(self.log10_lr)
        return (
            f"Likelihood ratio: log10 LR {self.log10_lr:+.2f}. The texts are {_rounded(times)} times as probable if "
            f"{favoured}, as if {other}. {bounds_words(self.bounds)}"
            f"{' This one was cut there.' if self.bounded else ''}"
        )

    @property
    def bounded(self) -> bool:
        """Whether the ratio would lie beyond its bounds."""
        return self.log10_lr is not None and self.log10_lr != self._log10_odds

    @property
    def words(self) -> str:
        """How far the evidence goes, by the odds that even prior odds become."""
        if self.decision is None:
            return "cannot tell"
        odds = 10 ** abs(self._log10_odds if self.log10_lr is None else self.log10_lr)
        side = "the same author" if self.decision else "different authors"
        for least, strength in SUPPORT:
            if odds >= least:
                return f"{strength} for {side}"
        return f"inconclusive, leaning towards {side}"

    @property
    def supported(self) -> bool:
        """Whether the evidence supports a side, however weakly."""
        return "support" in self.words

    @property
    def kind(self) -> str:
        """How familiar the kind of text is, in words; empty if that is not known."""
        if self.familiar is None:
            return ""
        members = self.abstained + self.same + self.different
        take = "takes it for a kind of text that it knows"
        if self.familiar != 1:
            take = "take it for a kind of text that they know"
        return f"{self.familiar} of {members} members {take}"

    def score(self, name: str) -> np.ndarray | None:
        """(M) of one of SCORES: "dml", "bfs" and "ual" are p(same author), "o2d2" is p(undecidable)."""
        return None if self.scores is None else self.scores[SCORES.index(name)]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists, for JSON."""
        scores = None if self.scores is None else dict(zip(SCORES, self.scores.tolist(), strict=True))
        return {
            "probability": self.probability,
            "words": self.words,
            "decision": self.decision,
            "log10_lr": self.log10_lr,
            "log10_lr_bounds": self.bounds and list(self.bounds),
            "members": self.abstained + self.same + self.different,
            "abstained": self.abstained,
            "same": self.same,
            "different": self.different,
            "distance": self.distance,
            "familiar": self.familiar,
            "notes": [note._asdict() for note in self.notes],
            "scores": scores,
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Verdict):
            return NotImplemented
        mine, theirs = ({**v.to_dict(), "scores": None} for v in (self, other))
        if self.scores is None or other.scores is None:
            return mine == theirs and self.scores is other.scores
        return mine == theirs and np.array_equal(self.scores, other.scores, equal_nan=True)

    def __hash__(self) -> int:
        return hash((self.probability, self.abstained, self.same, self.different))


def verdicts(
    scores: np.ndarray,
    distances: np.ndarray,
    notes: Iterable[tuple[Note, ...]],
    familiar: np.ndarray | None = None,
    bounds: tuple[float, float] | None = None,
    calibration: PlattScaling | None = None,
) -> Iterator[Verdict]:
    """Scores (4, M, P), distances (P) and notes of P pairs -> their verdicts; `familiar` (M, P): how probable it is
    that a member knows the kind of text; `bounds` of likelihood ratios; `calibration` of answers."""
    votes = vote(scores[SCORES.index("ual")], scores[SCORES.index("o2d2")], calibration)
    for p, (answer, remarks) in enumerate(zip(votes.answers, notes, strict=True)):
        yield Verdict(
            float(answer), int(votes.abstains[:, p].sum()), int(votes.same[p]), int(votes.different[p]),
            scores[:, :, p], float(distances[p]), remarks,
            None if familiar is None else int((familiar[:, p] >= MIN_FAMILIAR).sum()), bounds,
        )  # fmt: skip


def three_figures(probability: float) -> str:
    """A probability for a reader: nothing that is not certain is shown as if it were."""
    if 0.9995 <= probability < 1:
        return "> 0.999"
    if 0 < probability < 0.0005:
        return "< 0.001"
    return f"{probability:.3f}"


def _rounded(times: float) -> str:
    """To two figures: more would be a pretence."""
    return f"{times:.1f}" if times < 10 else f"{float(f'{times:.2g}'):,.0f}"
