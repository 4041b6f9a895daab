"""The cores of this machine: tasks in processes of their own, and what becomes of those when one of them fails.

Tasks are functions of the standard library: a process of its own cannot import this file.
"""

import math
import os
import time

import pytest

from pan21av.data.trials import Trial
from pan21av.engines.local import FEW_PAIRS, Local
from pan21av.errors import EnvironmentFault
from pan21av.verifier import Verifier


def test_results_as_tasks_finish():
    ticks = []
    results = Local().run_tasks(math.sqrt, [1, 4, 9, 16], jobs=2, tick=lambda: ticks.append(1))
    assert sorted(results) == [1, 2, 3, 4]
    assert ticks, "whoever watches is called meanwhile"


def test_an_error_ends_the_rest_at_once():
    """The others are not waited for: their work folders resume."""
    began = time.perf_counter()
    with pytest.raises(TypeError, match="must be real number, not str"):
        list(Local().run_tasks(_Sleeper(), ["x", 3600.0], jobs=2, tick=lambda: None))
    assert time.perf_counter() - began < 300, "it slept to the end"


class _Sleeper:
    """math.sqrt for a string, a long sleep for a number; pickled as one of the two."""

    def __reduce__(self):
        return eval, ("lambda x: __import__('math').sqrt(x) if isinstance(x, str) else __import__('time').sleep(x)",)


def test_a_killed_process_is_the_machines_fault():
    with pytest.raises(EnvironmentFault, match=r"a training process was killed.*run the same command again to go on"):
        list(Local().run_tasks(os._exit, [9], jobs=1, tick=lambda: None))


def texts(n):
    return (
        f"the cat was {'not ' * (n % 7)}here, but that is a story for you. " * 4,
        "it is what it is! " * (3 + n % 5),
    )


@pytest.mark.parametrize("count", [3, FEW_PAIRS + 1])
def test_answers_with_and_without_tokenisers(tiny_ensemble, count):
    """Processes that tokenise ahead are started for more than a few pairs; the answers are the same, in order."""
    trials = [Trial(str(n), texts(n)) for n in range(count)]
    with Local().answering(tiny_ensemble, pairs=count, device="cpu", threads=2) as engine:
        assert (engine.tokenisers is None) == (count <= FEW_PAIRS)
        assert "2 threads" in engine.description
        answers = list(engine.verify(iter(trials)))
    expected = list(Verifier.load(tiny_ensemble).predict(trial.texts for trial in trials))
    assert [trial for trial, _ in answers] == trials
    assert [verdict for _, verdict in answers] == expected
    assert len({verdict.probability for _, verdict in answers}) > 1
