"""Where to compute: decided once, logged at the start."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ..errors import InputError
from ..network import kernel
from ..network.recurrent import uses_kernel

log = logging.getLogger("pan21av")


def choose_device(name: str = "auto") -> torch.device:
    """`auto`, `cpu`, `cuda` or `cuda:n`. A CUDA device that cannot run one operation (an old
    card under a new build of torch, say) gives way to the CPU with a warning."""
    if name == "cpu":
        return torch.device("cpu")
    if name != "auto" and not (name == "cuda" or (name.startswith("cuda:") and name[5:].isdigit())):
        raise InputError(f"--device takes auto, cpu, cuda or cuda:N, not {name!r}")
    if not torch.cuda.is_available():
        if name != "auto":
            log.warning("%s asked for, but torch finds no CUDA device here: computing on the CPU", name)
        return torch.device("cpu")
    device = torch.device("cuda" if name == "auto" else name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns at length of cards it was not built for
            probe = torch.ones(8, 8, device=device)
            torch.baddbmm(probe[None], probe[None], probe[None]).sum().item()
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        log.warning("%s cannot run this build of torch (%s): computing on the CPU", device, reason)
        return torch.device("cpu")
    return device


def describe(device: torch.device, threads: int) -> str:
    if device.type == "cuda":
        return f"{device} ({torch.cuda.get_device_name(device)})"
    if uses_kernel(device):
        return f"cpu, native kernel ({kernel.instruction_set()}), {threads} thread{'s' * (threads > 1)}"
    return f"cpu, torch only, {threads} thread{'s' * (threads > 1)}"


def warn_without_kernel(device: torch.device) -> None:
    if device.type == "cpu" and not uses_kernel(device):
        log.warning(
            "the native kernel was not built, so this is several times slower than it could be: "
            "install a C compiler and reinstall (pip install --force-reinstall --no-deps pan21av)"
        )


_lock = threading.Lock()
_users, _before = 0, 1


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """One thread of torch for each of ours: they would fight over the cores otherwise.

    The setting is the whole process's, so whoever begins first keeps what was there, and who ends last puts it back.
    """
    global _users, _before
    with _lock:
        if not _users:
            _before = torch.get_num_threads()
            torch.set_num_threads(1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                torch.set_num_threads(_before)
