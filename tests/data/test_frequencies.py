from dataclasses import replace

import numpy as np
from support import TINY

from pan21av.data.frequencies import count_frequencies

CONFIG = replace(TINY, lda_dim=4, lda_words=3, lda_chars=2)


def test_frequencies_by_hand():
    """Words 2, 3, 4 are the commonest three, 1 is unknown, 9 a rarer one; letters 2 and 3 the common ones."""
    words = np.array([2, 9, 1, 4])
    chars = np.array([[2, 3, 0], [3, 7, 0], [7, 7, 7], [2, 0, 0]])
    (found,) = count_frequencies(words, chars, [np.array([0, 0, 1, 2, 3])], CONFIG)
    np.testing.assert_allclose(found[:4], [1 / 5, 2 / 5, 0, 1 / 5])
    # Pairs of (0 other or end, 1, 2): word 0 twice "ab": 01 12 20; word 1 "b?": 02 20 (00); word 3 "a": 01 10
    pairs = {(0, 1): 3, (1, 2): 2, (2, 0): 3, (0, 2): 1, (1, 0): 1}
    expected = np.zeros(9)
    for (a, b), n in pairs.items():
        expected[3 * a + b] = n / 10
    np.testing.assert_allclose(found[4:], expected, rtol=1e-6)
    assert CONFIG.lda_features == 4 + 9


def test_documents_do_not_mix():
    words, chars = np.array([2, 3, 1]), np.array([[2, 0], [3, 0], [9, 9]])
    documents = [np.array([0, 0, 1]), np.array([1]), np.array([2, 2])]
    together = count_frequencies(words, chars, documents, CONFIG)
    assert together.dtype == np.float32
    for row, document in zip(together, documents, strict=True):
        np.testing.assert_array_equal(count_frequencies(words, chars, [document], CONFIG)[0], row)
    # Only an unknown word, with none of the common letters: nothing to divide by.
    np.testing.assert_array_equal(together[2], [1, *[0] * 12])
