"""Scatter and discriminants against NumPy's covariances, and what defines a generalised eigenvector."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan21av.training.discriminant import Scatter, discriminants, group_means


def drawn(seed, documents=60, features=4, authors=9, sources=2):
    rng = np.random.default_rng(seed)
    author = rng.integers(authors, size=documents)
    author[:authors] = np.arange(authors)
    own = rng.normal(size=(authors, features))
    return own[author] + rng.normal(size=(documents, features)), author, author % sources


def test_group_means():
    means, index = group_means(np.array([[1.0], [5.0], [3.0], [9.0]]), np.array([7, 2, 7, 2]))
    assert means.tolist() == [[7.0], [2.0]]  # of group 2, of group 7
    assert index.tolist() == [1, 0, 1, 0]


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.integers(1, 3))
def test_scatter_is_made_of_covariances(seed, sources):
    z, author, source = drawn(seed, sources=sources)
    scatter = Scatter.of(z, author, source)
    pooled = sum(
        (np.sum(author == a) - 1) * np.cov(z[author == a].T)
        for a in np.unique(author)
        if np.sum(author == a) > 1
    )  # fmt: skip
    np.testing.assert_allclose(scatter.within, pooled / (len(z) - len(np.unique(author))), atol=1e-12)
    numbers = np.unique(source)
    total = sum(np.mean(source == s) * np.cov(z[source == s].T, bias=True) for s in numbers)
    np.testing.assert_allclose(scatter.total, total, atol=1e-12)
    means = np.stack([z[source == s].mean(0) for s in numbers])
    np.testing.assert_allclose(scatter.source_means, means, atol=1e-12)
    between = np.cov(means.T, bias=True) if sources > 1 else np.zeros((4, 4))
    np.testing.assert_allclose(scatter.between_sources, between, atol=1e-12)
    np.testing.assert_allclose(scatter.inside, z - means[source], atol=1e-12)


def test_an_author_of_one_document_adds_no_noise():
    z = np.array([[0.0, 1.0], [2.0, 1.0], [50.0, -80.0]])
    scatter = Scatter.of(z, np.array([0, 0, 1]), np.zeros(3, dtype=int))
    np.testing.assert_allclose(scatter.within, [[2.0, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize("dim", [1, 3, 6])
def test_discriminants_are_generalised_eigenvectors(dim):
    """signal v = lambda noise v, for the largest lambda; noise is white in them."""
    rng = np.random.default_rng(dim)
    a, b = rng.normal(size=(2, 6, 9))
    noise, signal = a @ a.T, b @ b.T
    v, found = discriminants(noise, signal, dim)
    assert v.shape == (6, dim)
    np.testing.assert_allclose(v.T @ noise @ v, np.eye(dim), atol=1e-9)
    ratio = np.diag(v.T @ signal @ v)
    np.testing.assert_allclose(found, ratio, rtol=1e-9)
    np.testing.assert_allclose(np.linalg.inv(noise) @ signal @ v, v * ratio, atol=1e-8)
    eigenvalues = np.sort(np.linalg.eigvals(np.linalg.inv(noise) @ signal).real)
    np.testing.assert_allclose(np.sort(ratio), eigenvalues[-dim:], rtol=1e-9)


def test_no_direction_has_more_signal_for_its_noise():
    z, author, source = drawn(0)
    scatter = Scatter.of(z, author, source)
    (best,) = discriminants(scatter.within, scatter.total, 1)[0].T

    def ratio(v):
        return (v @ scatter.total @ v) / (v @ scatter.within @ v)

    others = np.random.default_rng(1).normal(size=(2_000, 4))
    assert ratio(best) >= max(map(ratio, others))
