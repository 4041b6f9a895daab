"""What the ensemble says of one pair, in numbers and in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .vote import NON_RESPONSE, SCORES, Calibration, says_same, vote

# From which odds on evidence is called what: the scale that forensic institutes in Europe report by. Above the last
# comes nothing: no ensemble of ours was validated on enough pairs to say more.
SUPPORT = ((100.0, "moderately strong support"), (10.0, "moderate support"), (2.0, "weak support"))
CAUTION = "Research only: no forensic, legal, disciplinary or hiring decision may rest on this."


MIN_FAMILIAR = 0.5  # from which probability on a kind of text counts as known

TEXTS, BOTH = ("first text", "second text"), "both texts"  # what a note is on


class Note(NamedTuple):
    """Something that a reader of a verdict should know."""

    kind: str  # what run.json counts: "too short", "language", "cut", ...
    where: str  # one of TEXTS, or BOTH
    words: str

    def __str__(self) -> str:
        return f"{self.where}: {self.words}"


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

    @classmethod
    def unusable(cls, n_members: int, notes: Iterable[Note] = ()) -> Verdict:
        """Of a pair that cannot be decided, whatever members would say."""
        return cls(NON_RESPONSE, n_members, 0, 0, notes=tuple(notes))

    @property
    def decision(self) -> bool | None:
        """True: same author; False: different authors; None: cannot tell."""
        return None if self.probability == NON_RESPONSE else bool(says_same(np.float64(self.probability)))

    @property
    def words(self) -> str:
        """How far the evidence goes, by the odds that even prior odds become."""
        if self.decision is None:
            return "cannot tell"
        likelier = max(self.probability, 1 - self.probability)
        odds = likelier / max(1 - likelier, 1e-12)
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
        return f"{self.familiar} of {members} members take it for a kind of text that they know"

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
    calibration: Calibration | None = None,
) -> Iterator[Verdict]:
    """Scores (4, M, P), distances (P) and notes of P pairs -> their verdicts; `familiar` (M, P): how probable it is
    that a member knows the kind of text."""
    votes = vote(scores[SCORES.index("ual")], scores[SCORES.index("o2d2")], calibration)
    for p, (answer, remarks) in enumerate(zip(votes.answers, notes, strict=True)):
        yield Verdict(
            float(answer), int(votes.abstains[:, p].sum()), int(votes.same[p]), int(votes.different[p]),
            scores[:, :, p], float(distances[p]), remarks,
            None if familiar is None else int((familiar[:, p] >= MIN_FAMILIAR).sum()),
        )  # fmt: skip
