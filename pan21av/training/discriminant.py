"""Linear discriminant analysis: scatter of authors and sources, and the directions that tell authors apart best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


def group_means(z: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows (N, F) in groups (N) -> the groups' means (G, F), and which of them is each row's (N)."""
    _, index, counts = np.unique(group, return_inverse=True, return_counts=True)
    sums = np.zeros((len(counts), z.shape[1]))
    np.add.at(sums, index, z)
    return sums / counts[:, None], index


@dataclass(frozen=True)
class Scatter:
    """Covariances (F, F) of documents."""

    within: np.ndarray  # of an author's documents around their mean
    total: np.ndarray  # of all documents around the mean of their source
    source_means: np.ndarray  # (sources, F)
    inside: np.ndarray  # (N, F): the documents without the mean of their source

    @classmethod
    def of(cls, z: np.ndarray, author: np.ndarray, source: np.ndarray) -> Scatter:
        authors, own = group_means(z, author)
        sources, home = group_means(z, source)
        spread, inside = z - authors[own], z - sources[home]
        freedom = max(1, len(z) - len(authors))
        return cls(spread.T @ spread / freedom, inside.T @ inside / len(z), sources, inside)

    @property
    def between_sources(self) -> np.ndarray:
        """A pair always shares its source: what sources differ in must not count."""
        centred = self.source_means - self.source_means.mean(0)
        return centred.T @ centred / len(centred)


def discriminants(noise: np.ndarray, signal: np.ndarray, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """The `dim` directions (F, dim) with most signal for their noise, generalised eigenvectors with the noise made
    white; and how much that is (dim)."""
    whiten = np.linalg.inv(np.linalg.cholesky(noise))
    values, vectors = np.linalg.eigh(whiten @ signal @ whiten.T)
    return np.asarray(whiten.T @ vectors[:, -dim:]), np.asarray(values[-dim:])
