"""Which engine, and what a Ray task may ask for; tests/system/test_ray.py has a cluster."""

import subprocess
import sys

import pytest

from pan21av.engines import find_engine
from pan21av.engines.local import Local
from pan21av.errors import InputError


def test_engines_by_name():
    assert isinstance(find_engine("local"), Local)
    with pytest.raises(InputError, match="--engine takes local or ray, not 'cloud'"):
        find_engine("cloud")


def test_ray_is_not_loaded_unless_asked_for():
    code = "import sys; from pan21av.engines import find_engine; find_engine('local'); print('ray' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.fixture
def on_ray():
    pytest.importorskip("ray")
    from pan21av.engines import on_ray

    return on_ray


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, {}),
        ("", {}),
        ("CPU=2", {"num_cpus": 2.0}),
        ("CPU=2, GPU=0.5", {"num_cpus": 2.0, "num_gpus": 0.5}),
        ("memory=1e9", {"memory": 1e9}),
    ],
)
def test_resources(on_ray, text, expected):
    assert on_ray.parse_resources(text) == expected


@pytest.mark.parametrize("text", ["CPU", "CPU=two", "TPU=1", "CPU=1;GPU=1", "CPU=1=2"])
def test_resources_that_are_refused(on_ray, text):
    with pytest.raises(InputError, match="--resources takes CPU=, GPU= and memory= with numbers"):
        find_engine("ray", None, text)


def test_a_node_of_another_version_is_refused(on_ray):
    from pan21av import __version__
    from pan21av.errors import EnvironmentFault

    assert on_ray._run_one(abs, -3, __version__) == 3
    with pytest.raises(EnvironmentFault, match=f"has pan21av {__version__}, the command was version 0.0.1"):
        on_ray._run_one(abs, -3, "0.0.1")
