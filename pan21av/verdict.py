"""What the ensemble says of one pair."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .vote import NON_RESPONSE, SCORES, says_same, vote


@dataclass(frozen=True)
class Verdict:
    probability: float  # that one author wrote both; exactly 0.5: it cannot tell
    abstained: int  # members that could not decide
    same: int  # members, of the others, for "same author"
    different: int
    scores: np.ndarray | None = None  # (4, M): what every member says, in the order of SCORES; None: nobody was asked
    distance: float | None = None  # squared, between the embeddings as DML reads them; mean over members

    @classmethod
    def unusable(cls, n_members: int) -> Verdict:
        """Of a pair without two usable texts."""
        return cls(NON_RESPONSE, n_members, 0, 0)

    @property
    def decision(self) -> bool | None:
        """True: same author; False: different authors; None: cannot tell."""
        return None if self.probability == NON_RESPONSE else bool(says_same(np.float64(self.probability)))

    @property
    def words(self) -> str:
        return {None: "cannot tell", True: "same author", False: "different authors"}[self.decision]

    def score(self, name: str) -> np.ndarray | None:
        """(M) of one of SCORES: "dml", "bfs" and "ual" are p(same author), "o2d2" is p(undecidable)."""
        return None if self.scores is None else self.scores[SCORES.index(name)]


def verdicts(scores: np.ndarray, distances: np.ndarray) -> Iterator[Verdict]:
    """Scores (4, M, P) and distances (P) of P pairs -> their verdicts."""
    votes = vote(scores[SCORES.index("ual")], scores[SCORES.index("o2d2")])
    for p, answer in enumerate(votes.answers):
        yield Verdict(
            float(answer), int(votes.abstains[:, p].sum()), int(votes.same[p]), int(votes.different[p]),
            scores[:, :, p], float(distances[p]),
        )  # fmt: skip
