"""How short a text may be, from the settings; tests/data/test_fitness.py has the limits that are learnt."""

import pytest
from support import small

from pan21av.training.limits import min_tokens


@pytest.mark.parametrize(("documents", "crops", "limit"), [(77, 33, 77), (33, 77, 77), (50, 50, 50)])
def test_the_shortest_text_that_something_is_said_of(documents, crops, limit):
    """As long as the documents that training takes; and no shorter than the crops that scores learnt from."""
    assert min_tokens(small(f"calibration.min_tokens={crops}", f"data.min_tokens={documents}")) == limit
