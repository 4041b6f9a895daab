"""The same commands on a real Ray cluster: two raylets of one core each, on loopback."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from support import HANGS, WORDS, small, weights, write_random_ensemble

from pan21av.commands.predict import predict
from pan21av.errors import InputError
from pan21av.training.run import train

pytest.importorskip("ray", reason="Ray is an extra: pip install 'pan21av[ray]'")
from ray.cluster_utils import Cluster

from pan21av.engines.on_ray import parse_resources

pytestmark = pytest.mark.ray


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


@contextmanager
def killed(cluster, node, moment, unfinished):
    """Kill `node` as soon as `moment()` holds, while the body runs; what `unfinished()` finds when it is dead must be
    something, or the kill has interrupted nothing."""
    over = threading.Event()
    left = []

    def kill():
        while not moment():
            if over.wait(0.01):
                return
        cluster.remove_node(node, allow_graceful=False)
        left.append(unfinished())

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    try:
        yield
    finally:
        over.set()
        killer.join(HANGS)
    assert left, "the work was done before the node could be killed"
    assert left[0], "the node was killed too late"


def has_answers(folder):
    try:
        return (folder / "answers.jsonl.part").stat().st_size > 0
    except FileNotFoundError:
        return False


def test_predict_survives_the_death_of_a_node(cluster, second, trials, tmp_path):
    folder, models, expected = trials
    with killed(
        cluster, second, lambda: has_answers(tmp_path), unfinished=lambda: not (tmp_path / "answers.jsonl").exists()
    ):
        predict(str(folder), tmp_path, models=models, engine="ray", address=cluster.address)
    assert (tmp_path / "answers.jsonl").read_bytes() == expected


def test_a_broken_run_on_the_cluster_goes_on_locally(cluster, second, trials, tmp_path):
    folder, models, expected = trials
    command = [sys.executable, "-m", "pan21av", "predict", "-i", folder, "-o", tmp_path, "--models", models]
    run = subprocess.Popen([*command, "--engine", "ray", "--address", cluster.address], start_new_session=True)
    while not has_answers(tmp_path):
        assert run.poll() is None, "it was over too soon"
        time.sleep(0.01)
    os.killpg(run.pid, signal.SIGKILL)
    assert run.wait(HANGS) == -signal.SIGKILL
    assert predict(str(folder), tmp_path, models=models)["resumed_after"] >= 32
    assert (tmp_path / "answers.jsonl").read_bytes() == expected


def test_training_survives_the_death_of_a_node(cluster, second, small_corpus, tmp_path):
    """Five members (an ensemble is odd). When two of them are at work, each node has one: then the second dies."""
    train(small_corpus, tmp_path / "local", n_members=5, settings=small(), jobs=2)
    work = tmp_path / "work"

    def at_work():
        begun = {path.parent for path in work.glob("member-*/history.jsonl") if path.stat().st_size}
        return begun - {path.parent for path in work.glob("member-*/result.json")}

    with killed(cluster, second, lambda: len(at_work()) == 2, unfinished=at_work):
        train(
            small_corpus, tmp_path / "cluster", n_members=5, settings=small(), work=work, engine="ray",
            address=cluster.address,
        )  # fmt: skip
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
    code = "import sys, pan21av; pan21av.predict, pan21av.train, pan21av.verify; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


MEASURED = """
import pathlib, re, sys, threading, time
from pan21av.commands.predict import predict
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
