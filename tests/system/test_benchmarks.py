"""The plain implementation that we measure ourselves against computes the same; memory is that of the whole tree."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import TINY, random_members, tiny_vocabulary

from pan21av.documents import batch_of_tokens
from pan21av.text import tokenise_all

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
from memory import measure, proportional_bytes, tree_of
from plain import PlainEncoder, plain_levs


@pytest.fixture
def batch():
    texts = ["the cat was here, and that is it. " * n for n in (1, 4, 9, 2)]
    return batch_of_tokens(tokenise_all(texts), tiny_vocabulary(), TINY)


def test_same_vectors(batch):
    members = random_members(3)
    expected = members.lev(members.encoder(batch).vectors)
    torch.testing.assert_close(plain_levs(members, [batch], [0, 1, 2]), expected, atol=1e-5, rtol=0)


def test_same_gradients(batch):
    members = random_members(1).requires_grad_(True)
    members.encoder(batch).vectors.square().sum().backward()
    plain = PlainEncoder(members, 0)
    plain(batch).square().sum().backward()
    torch.testing.assert_close(plain.words.grad, members.encoder.words.grad[0], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(
        plain.window.matrix.grad, members.encoder.window.att_matrix.grad[0], atol=1e-4, rtol=1e-4
    )


def test_memory_counts_children():
    """A child of a child that fills 200 MB shows in the tree of its grandparent, and is gone with it."""
    fill = "import time; b = bytearray(200 << 20); b[::4096] = b'x' * len(b[::4096]); print(flush=True); time.sleep(60)"
    start = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {fill!r}])"
    with subprocess.Popen([sys.executable, "-c", start], stdout=subprocess.PIPE) as parent:
        parent.stdout.readline()
        tree = tree_of(parent.pid)
        own, total = proportional_bytes(parent.pid), sum(map(proportional_bytes, tree))
        for pid in reversed(tree):
            subprocess.run(["kill", "-9", str(pid)], check=True)
    assert len(tree) == 2
    assert own < 100 << 20 < 200 << 20 <= total < 400 << 20
    assert proportional_bytes(parent.pid) == 0


def test_memory_of_a_run(tiny_ensemble, tmp_path):
    result = measure(3, str(tiny_ensemble), tmp_path)
    assert result["pairs"] == 3
    assert 50 < result["MiB"] < 4000
