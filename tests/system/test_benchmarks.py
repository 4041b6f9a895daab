"""The plain implementation that we measure ourselves against computes the same; what is measured is what is meant."""

import subprocess
import sys

import bench
import memory
import pytest
import torch
from plain import PlainEncoder, plain_vectors
from support import TINY, TINY_FULL, random_network, tiny_vocabulary, write_random_ensemble

from pan21av.data.batch import batch_of
from pan21av.data.tokeniser import encode_all
from pan21av.network import kernel, recurrent


@pytest.fixture
def batch():
    texts = ["the cat was here, and that is it. " * n for n in (1, 4, 9, 2)]
    return batch_of(encode_all(texts), tiny_vocabulary(), TINY)


def test_same_vectors(batch):
    network = random_network(3)
    expected = network.embed(batch).vectors
    torch.testing.assert_close(plain_vectors(network, [batch], [0, 1, 2]), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("backend", ["kernel", "reference"])
def test_same_gradients(batch, backend):
    if backend == "kernel" and not kernel.available():
        pytest.skip("the kernel was not built")
    network = random_network(1).requires_grad_(True)
    with recurrent.only(backend):
        network.encoder(batch).vectors.square().sum().backward()
    plain = PlainEncoder(network, 0)
    plain(batch).square().sum().backward()
    torch.testing.assert_close(plain.words.grad, network.encoder.words.grad[0], atol=1e-4, rtol=1e-4)
    matrix = network.encoder.window.att_matrix.grad[0]
    torch.testing.assert_close(plain.window.matrix.grad, matrix, atol=1e-4, rtol=1e-4)


@pytest.mark.skipif(not kernel.available(), reason="the kernel was not built")
def test_variants_do_the_same_work():
    """Equal positions and checksums: a variant that skipped something would look fast."""
    base = bench.predict_task("kernel", "compact", pairs=1, cores=1, members=3, characters=2000)
    kernel_run, torch_run = (bench.measure({**base, "variant": variant}) for variant in ("kernel", "torch"))
    assert kernel_run["checksum"] == pytest.approx(torch_run["checksum"], rel=1e-4)
    shared = bench.measure({**base, "variant": "plain", "onednn": True, "processes": 2})
    assert kernel_run["positions"] == torch_run["positions"] == shared["positions"] > 3 * 2 * 300

    step = {"what": "train", "preset": "compact", "pairs": 2, "characters": 1000, "steps": 1}
    kernel_run, torch_run, plain_run = (
        bench.measure({**step, "variant": variant}) for variant in ("kernel", "torch", "plain")
    )
    assert kernel_run["checksum"] == pytest.approx(torch_run["checksum"], rel=1e-3)
    assert kernel_run["positions"] == torch_run["positions"] == plain_run["positions"]


def test_memory_counts_children():
    """A child of a child that fills 200 MB shows in the tree of its grandparent, and is gone with it."""
    fill = "import sys; b = bytearray(b'x' * (200 << 20)); print(flush=True); sys.stdin.read()"
    start = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {fill!r}])"
    with subprocess.Popen([sys.executable, "-c", start], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        parent.stdout.readline()
        tree = memory.tree_of(parent.pid)
        own, total = memory.proportional_bytes(parent.pid), sum(map(memory.proportional_bytes, tree))
    assert len(tree) == 2
    assert own < 100 << 20 < 200 << 20 <= total < 400 << 20
    assert memory.proportional_bytes(parent.pid) == 0


def test_memory_of_a_run(tiny_ensemble, tmp_path):
    result = memory.measure(3, str(tiny_ensemble), tmp_path)
    assert result["pairs"] == 3
    assert 50 < result["MiB"] < 4000


def test_trained_ensembles_are_measured_too(tmp_path):
    """With their n-grams, as they are on disk; and what is around their network, and the arithmetic of a position."""
    models = str(write_random_ensemble(tmp_path / "full", config=TINY_FULL))
    task = bench.predict_task("kernel", "shipped", pairs=2, cores=1, characters=400, models=models)
    run = bench.measure(task)
    assert run["seconds"] > 0
    assert run["positions"] % 3 == 0  # members
    around = {"what": "around", "models": models, "pairs": 2, "characters": 400}
    for name in bench.AROUND:
        assert bench.measure({**around, "variant": name})["seconds"] > 0
    product = bench.measure({"what": "arithmetic"})
    # Nobody's core does less than 1 or more than 1,000 GFLOP/s.
    assert 1e9 < bench.FLOP_PER_POSITION * product["positions"] / product["seconds"] < 1e12


def test_ratios_of_a_table():
    """Counted by hand: 8 pairs in 4 s of 2,000,000 positions on 2 cores, plain 4 in 8 s, last time 8 in 6 s."""

    def run(seconds, pairs, threads=2):
        task = {"what": "predict", "pairs": pairs, "threads": threads}
        return {"seconds": seconds, "positions": 2_000_000, "megabytes": 100, "task": task}

    text = bench.table("T", {"kernel": run(4, 8), "plain": run(8, 4)}, 1e-6, {"kernel": run(6, 8)})
    kernel_row, plain_row = text.splitlines()[-2:]
    # 2 us a position and 0.5 a pair; 1 us of arithmetic on two cores is 0.5 us: a quarter.
    assert kernel_row == "| kernel | 2.00 | 0.5000 | 2.00 | 100 | 4.00x | 25% | 1.50x |"
    assert plain_row.endswith("| 1.00x | 12% |  |")


def test_shares_of_what_is_around_the_encoder():
    """Counted by hand: a pair takes 100 ms in all; counting is within the batch, and not added to it."""

    def run(seconds, pairs):
        return {"seconds": seconds, "positions": 1, "megabytes": 1, "task": {"what": "around", "pairs": pairs}}

    parts = {"tokenise": run(0.012, 4), "batch, with counting": run(0.008, 4), "count n-grams": run(0.004, 4)}
    lines = bench.around_table(parts, run(0.2, 2)).splitlines()
    assert lines[-4] == "| tokenise | 3.00 | 3.0% |"
    assert lines[-2] == "| count n-grams | 1.00 | 1.0% |"
    assert lines[-1] == "| together | 5.00 | 5.0% |"


def test_commands_are_told_by_their_rate():
    line = bench.commands_table({"short": {"pairs": 3_000, "seconds": 2.0, "MiB": 511.6}}).splitlines()[-1]
    assert line == "| short | 3,000 | 2.0 | 1,500.0 | 512 |"


def test_the_page_keeps_its_words_and_takes_new_tables(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(f"words\n\n{bench.TABLES_BELOW}\n\nold tables\n")
    bench.refresh(readme, "new tables")
    assert readme.read_text() == f"words\n\n{bench.TABLES_BELOW}\n\nnew tables\n"
    assert bench.TABLES_BELOW in (bench.HERE / "README.md").read_text()
