import pytest
import torch

from pan21av.errors import InputError
from pan21av.network import kernel, recurrent
from pan21av.runtime.device import choose_device, describe, one_torch_thread, warn_without_kernel

CPU = torch.device("cpu")


def test_cpu_where_there_is_nothing_else(monkeypatch, caplog):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_device("auto").type == choose_device("cpu").type == "cpu"
    assert not caplog.records
    assert choose_device("cuda:1").type == "cpu"
    assert "no CUDA device" in caplog.text


def test_a_card_that_cannot_compute_gives_way(monkeypatch, caplog):
    """There is no GPU here, so torch's refusal is played: that of an old card under a new build."""

    def refuse(*_, **__):
        raise RuntimeError("CUDA error: no kernel image is available for execution on the device\nlong story")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "ones", refuse)
    assert choose_device("auto").type == "cpu"
    assert "no kernel image is available" in caplog.text
    assert "long story" not in caplog.text


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "mps", ""])
def test_unknown_devices(name):
    with pytest.raises(InputError, match="--device takes"):
        choose_device(name)


@pytest.mark.skipif(not kernel.available(), reason="the native kernel was not built")
def test_the_kernel_is_named(caplog):
    assert describe(CPU, 1) == f"cpu, native kernel ({kernel.instruction_set()}), 1 thread"
    warn_without_kernel(CPU)
    assert not caplog.records


def test_a_missing_kernel_is_told(caplog):
    with recurrent.only("reference"):
        assert describe(CPU, 2) == "cpu, torch only, 2 threads"
        warn_without_kernel(CPU)
        warn_without_kernel(torch.device("cuda"))  # needs none
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "the native kernel was not built" in caplog.text


def test_torch_has_its_threads_back_when_the_last_has_ended():
    """In whatever order they end."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        one, other = one_torch_thread(), one_torch_thread()
        one.__enter__()
        other.__enter__()
        assert torch.get_num_threads() == 1
        one.__exit__(None, None, None)
        assert torch.get_num_threads() == 1
        other.__exit__(None, None, None)
        assert torch.get_num_threads() == 3
        with pytest.raises(ValueError, match="mine"), one_torch_thread():
            raise ValueError("mine")
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
