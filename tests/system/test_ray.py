"""The same commands on a real Ray cluster: two raylets of one core each, on loopback."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import SMALL, WORDS, weights, write_random_ensemble

from pan21av.predict import predict
from pan21av.train import train

pytest.importorskip("ray", reason="Ray is an extra: pip install 'pan21av[ray]'")
from ray.cluster_utils import Cluster

from pan21av.engines.ray import parse_resources
from pan21av.errors import InputError

pytestmark = [pytest.mark.slow, pytest.mark.ray]


@pytest.fixture(scope="module")
def cluster():
    """A head and a second node; tests may kill the second, the next test gets a new one."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield made
    made.shutdown()


@pytest.fixture
def second(cluster):
    for node in list(cluster.worker_nodes):
        cluster.remove_node(node)
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    return node


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    """600 pairs, an ensemble, and what the local engine answers."""
    folder = tmp_path_factory.mktemp("trials")
    rng = random.Random(0)
    texts = [" ".join(rng.choices(WORDS, k=rng.randint(20, 600))) for _ in range(900)]
    rows = [{"id": f"t{n}", "pair": rng.sample(texts, 2) if n % 50 else None} for n in range(600)]
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    models = write_random_ensemble(folder / "models", count=21)
    predict(str(folder), folder / "local", models=models)
    return folder, models, (folder / "local" / "answers.jsonl").read_bytes()


def test_predict_gives_the_same_bytes(cluster, second, trials, tmp_path):
    folder, models, expected = trials
    report = predict(str(folder), tmp_path, models=models, engine="ray", address=cluster.address, resources="CPU=0.5")
    assert (tmp_path / "answers.jsonl").read_bytes() == expected
    assert "2 nodes, 4 workers, 0.5 CPU each" in report["device"]


def test_predict_survives_the_death_of_a_node(cluster, second, trials, tmp_path):
    folder, models, expected = trials
    part = tmp_path / "answers.jsonl.part"
    killed = []

    def kill():
        while not (part.exists() and part.stat().st_size):
            time.sleep(0.01)
        cluster.remove_node(second, allow_graceful=False)
        killed.append(True)

    killer = threading.Thread(target=kill)
    killer.start()
    predict(str(folder), tmp_path, models=models, engine="ray", address=cluster.address)
    killer.join(30)
    assert killed
    assert (tmp_path / "answers.jsonl").read_bytes() == expected


def test_a_broken_run_on_the_cluster_goes_on_locally(cluster, second, trials, tmp_path):
    folder, models, expected = trials
    command = [sys.executable, "-m", "pan21av", "predict", "-i", folder, "-o", tmp_path, "--models", models]
    run = subprocess.Popen([*command, "--engine", "ray", "--address", cluster.address], start_new_session=True)
    part = tmp_path / "answers.jsonl.part"
    while not (part.exists() and part.stat().st_size):
        assert run.poll() is None
        time.sleep(0.01)
    os.killpg(run.pid, 9)
    run.wait()
    assert predict(str(folder), tmp_path, models=models)["resumed_after"] >= 32
    assert (tmp_path / "answers.jsonl").read_bytes() == expected


def test_training_survives_the_death_of_a_node(cluster, second, small_corpus, tmp_path):
    """Five members (an ensemble is odd); the second node dies when one of them has begun."""
    train(small_corpus, tmp_path / "local", members=5, assignments=SMALL, jobs=2)
    work = tmp_path / "work"

    def kill():
        while not list(work.glob("member-*/history.jsonl")):
            time.sleep(0.01)
        cluster.remove_node(second, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    train(
        small_corpus, tmp_path / "cluster", members=5, assignments=SMALL, work=work, engine="ray",
        address=cluster.address,
    )  # fmt: skip
    killer.join(30)
    assert weights(tmp_path / "cluster") == weights(tmp_path / "local")


def test_no_cluster_there(trials, tmp_path, process):
    folder, models, _ = trials
    done = process(
        "predict", "-i", folder, "-o", tmp_path, "--models", models, "--engine", "ray", "--address", "127.0.0.1:1"
    )  # fmt: skip
    assert done.returncode == 3
    assert b"no Ray cluster at 127.0.0.1:1" in done.stderr
    assert b"Traceback" not in done.stderr


def test_resources():
    assert parse_resources("CPU=2, GPU=0.5") == {"num_cpus": 2.0, "num_gpus": 0.5}
    assert parse_resources(None) == {}
    for wrong in ("CPU", "TPU=1", "CPU=many", "CPU=1,"):
        with pytest.raises(InputError, match="--resources takes"):
            parse_resources(wrong)


def test_the_default_is_free_of_ray():
    code = "import sys, pan21av.predict, pan21av.train, pan21av.cli; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


MEASURED = """
import pathlib, re, sys, threading, time
from pan21av.predict import predict
peak = 0
def watch():  # the process's own memory: the object store is shared, and has a limit of its own
    global peak
    while True:
        status = pathlib.Path("/proc/self/status").read_text()
        peak = max(peak, int(re.search(r"RssAnon:\\s+(\\d+)", status).group(1)))
        time.sleep(0.02)
threading.Thread(target=watch, daemon=True).start()
predict(sys.argv[1], sys.argv[2], models=sys.argv[3], engine="ray", address=sys.argv[4])
print(peak)
"""


def test_driver_memory_does_not_grow_with_the_pairs(cluster, second, trials, tmp_path):
    """Ten times the pairs, the same peak to 10 %."""
    folder, models, _ = trials
    rows = (folder / "pairs.jsonl").read_text().splitlines()
    peaks = []
    for copies in (1, 10):
        source = tmp_path / f"{copies}.jsonl"
        source.write_text("\n".join(r.replace('"id": "t', f'"id": "{c}t') for c in range(copies) for r in rows))
        arguments = [source, tmp_path / str(copies), models, cluster.address]
        done = subprocess.run([sys.executable, "-c", MEASURED, *map(str, arguments)], capture_output=True, check=True)
        peaks.append(int(done.stdout))
        assert len((Path(arguments[1]) / "answers.jsonl").read_text().splitlines()) == 600 * copies
    assert peaks[1] < 1.1 * peaks[0], peaks
