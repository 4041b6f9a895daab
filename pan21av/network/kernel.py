"""The native kernel (csrc/kernel.c) behind ctypes: raw pointers in, GIL released."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_int32
from functools import cache
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from ..config import MAX_CHAR_POSITIONS


class _Shape(ctypes.Structure):
    _fields_ = [(name, c_int32) for name in ("hidden", "stride", "gates", "width", "sequences", "longest")]


class _Inputs(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_void_p)
        for name in ("rows", "ids", "start", "length", "recurrent", "att_matrix", "att_bias", "att_vector")
    ]


class _Gradients(ctypes.Structure):
    _fields_ = [(name, ctypes.c_void_p) for name in ("rows", "recurrent", "att_matrix", "att_bias", "att_vector")]


@cache
def library() -> ctypes.CDLL | None:
    """The compiled kernel, or None where it was not built."""
    for path in sorted(Path(__file__).parent.glob("_kernel*.so")):
        try:
            lib = ctypes.CDLL(str(path))
        except OSError:  # built for another platform or Python
            continue
        lib.pan_isa.restype = ctypes.c_char_p
        return lib
    return None


def available() -> bool:
    return library() is not None


def _lib() -> ctypes.CDLL:
    lib = library()
    if lib is None:
        raise RuntimeError("the native kernel was not built")
    return lib


def instruction_set() -> str:
    return str(_lib().pan_isa().decode())


def use(name: str) -> bool:
    """Switch to instruction set `name` ("best" for the default); False if this CPU lacks it."""
    return int(_lib().pan_use(name.encode())) == 0


def padded(size: int) -> int:
    """`size` rounded up to whole vectors."""
    lanes = _lib().pan_lanes()
    return int((size + lanes - 1) // lanes * lanes)


def packed(gates: Tensor) -> Tensor:
    """(..., 4, H) -> (..., G), as csrc/kernel.c has the gates: few lanes of its vectors stay empty."""
    hidden = gates.shape[-1]
    whole = hidden - hidden % _lib().pan_lanes()
    flat = torch.cat([gates[..., :whole].flatten(-2), gates[..., whole:].flatten(-2)], -1)
    return F.pad(flat, (0, padded(4 * hidden) - 4 * hidden))


def _pointer(tensor: Tensor, dtype: torch.dtype = torch.float32) -> int:
    if tensor.dtype is not dtype or not tensor.is_contiguous() or tensor.device.type != "cpu":
        raise ValueError(f"the kernel needs contiguous {dtype} on the CPU")
    return tensor.data_ptr()


def _check(status: int) -> None:
    if status:
        raise MemoryError("the recurrent kernel could not get its scratch memory")


class SequenceArgs:
    """Inputs of one kernel call; see csrc/kernel.c for the shapes.

    `rows` (R, 2, G), `ids` flat int32, `start` (N) int64, `length` (N) int32,
    `recurrent` (2, H, G), attention `matrix` (2H, width), `bias` and `vector` (width).
    """

    def __init__(
        self,
        rows: Tensor,
        ids: Tensor,
        start: Tensor,
        length: Tensor,
        recurrent: Tensor,
        att_matrix: Tensor,
        att_bias: Tensor,
        att_vector: Tensor,
    ) -> None:
        self.hidden, self.sequences = recurrent.shape[1], len(start)
        stride, gates, width = (padded(units * self.hidden) for units in (1, 4, 2))
        expected = {
            "rows": (rows, (len(rows), 2, gates)),
            "recurrent": (recurrent, (2, self.hidden, gates)),
            "att_matrix": (att_matrix, (2 * self.hidden, width)),
            "att_bias": (att_bias, (width,)),
            "att_vector": (att_vector, (width,)),
            "length": (length, (self.sequences,)),
        }
        for name, (tensor, shape) in expected.items():
            if tuple(tensor.shape) != shape:
                raise ValueError(f"{name} has shape {tuple(tensor.shape)}, the kernel needs {shape}")
        self.kept = (rows, ids, start, length, recurrent, att_matrix, att_bias, att_vector)
        self.longest = int(length.max()) if self.sequences else 0
        self.shape = _Shape(self.hidden, stride, gates, width, self.sequences, self.longest)
        self.inputs = _Inputs(
            _pointer(rows),
            _pointer(ids, torch.int32),
            _pointer(start, torch.int64),
            _pointer(length, torch.int32),
            _pointer(recurrent),
            _pointer(att_matrix),
            _pointer(att_bias),
            _pointer(att_vector),
        )

    def forward(self, with_weights: bool) -> tuple[Tensor, Tensor | None]:
        """Pooled states (N, 2H), and attention weights (N, longest) if asked for."""
        pooled = torch.empty(self.sequences, 2 * self.hidden)
        weights = torch.empty(self.sequences, self.longest) if with_weights else None
        _check(
            _lib().pan_forward(
                byref(self.shape),
                byref(self.inputs),
                ctypes.c_void_p(pooled.data_ptr()),
                ctypes.c_void_p(weights.data_ptr() if weights is not None else None),
            )
        )
        return pooled, weights

    def backward(self, grad_pooled: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Gradients of rows, recurrent, att_matrix, att_bias, att_vector."""
        rows, _, _, _, recurrent, att_matrix, att_bias, att_vector = self.kept
        out = tuple(torch.zeros_like(t) for t in (rows, recurrent, att_matrix, att_bias, att_vector))
        gradients = _Gradients(*(_pointer(t) for t in out))
        grad_pooled = grad_pooled.contiguous()
        _check(
            _lib().pan_backward(
                byref(self.shape),
                byref(self.inputs),
                ctypes.c_void_p(_pointer(grad_pooled)),
                byref(gradients),
            )
        )
        return out  # type: ignore[return-value]


def chars_forward(ids: Tensor, table: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """tanh(max over positions) of a CNN given as `table` (taps, chars, stride); see csrc/kernel.c.

    `ids` (types, chars_per_token) int32 -> out (types, stride), argmax (types, stride) uint8.
    """
    (types, letters), (taps, chars, stride) = ids.shape, table.shape
    if letters + taps - 1 > MAX_CHAR_POSITIONS:
        raise ValueError(f"the kernel tells {MAX_CHAR_POSITIONS} positions of a token apart, not {letters + taps - 1}")
    out = torch.empty(types, stride)
    argmax = torch.empty(types, stride, dtype=torch.uint8)
    _lib().pan_chars_forward(
        *map(c_int32, (types, letters, taps, chars, stride)),
        *(
            ctypes.c_void_p(p)
            for p in (
                _pointer(ids, torch.int32),
                _pointer(table),
                _pointer(bias),
                out.data_ptr(),
                argmax.data_ptr(),
            )
        ),
    )
    return out, argmax


def chars_backward(
    ids: Tensor, chars: int, taps: int, out: Tensor, argmax: Tensor, grad_out: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of table and bias of `chars_forward`."""
    (types, letters), stride = ids.shape, out.shape[1]
    grad_table, grad_bias = torch.zeros(taps, chars, stride), torch.zeros(stride)
    grad_out = grad_out.contiguous()
    _lib().pan_chars_backward(
        *map(c_int32, (types, letters, taps, chars, stride)),
        *(
            ctypes.c_void_p(p)
            for p in (
                _pointer(ids, torch.int32),
                _pointer(out),
                _pointer(argmax, torch.uint8),
                _pointer(grad_out),
                grad_table.data_ptr(),
                grad_bias.data_ptr(),
            )
        ),
    )
    return grad_table, grad_bias


def activations(x: Tensor) -> tuple[Tensor, Tensor]:
    """The kernel's tanh and sigmoid of `x` (n), n a multiple of the vector length."""
    tanh, sigmoid = torch.empty_like(x), torch.empty_like(x)
    pointers = (ctypes.c_void_p(_pointer(t)) for t in (x, tanh, sigmoid))
    _lib().pan_activations(c_int32(len(x)), *pointers)
    return tanh, sigmoid
