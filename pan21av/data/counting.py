"""Counting n-grams fast: csrc/ngrams.c behind ctypes, or the plain rules of ngrams.py where it was not built."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, Structure, byref, c_int32, c_int64, c_uint8, c_uint64, c_void_p
from functools import cache
from itertools import accumulate
from pathlib import Path

import numpy as np

from . import layout
from .characters import kinds
from .ngrams import MAX_GAP, SIGNS, TOKEN_VIEWS, Pool, gap_bin, shape_number


class _Table(Structure):
    _fields_ = [("keys", c_void_p), ("values", c_void_p), ("mask", c_uint64)]


class _Pool(Structure):
    _fields_ = [
        ("words", _Table), ("anchors", _Table), ("letters", _Table), ("signs", _Table), ("kinds", c_void_p),
        ("n_anchors", c_int32),
    ]  # fmt: skip


class _Types(Structure):
    _fields_ = [(name, c_void_p) for name in ("word", "symbol", "length", "mark", "shape", "first", "letters")]


class _Grams(Structure):
    _fields_ = [
        ("pair", c_void_p), ("triples", _Table), ("shapes", _Table), ("offset", c_void_p), ("bins", c_void_p),
        ("symbols", c_int32), ("max_gap", c_int32),
    ]  # fmt: skip


@cache
def library() -> ctypes.CDLL | None:
    """None where it was not built."""
    for path in sorted(Path(__file__).parent.glob("_ngrams*.so")):
        try:
            lib = ctypes.CDLL(str(path))
        except OSError:  # built for another platform
            continue
        lib.pan_fill.argtypes = [c_int32, c_void_p, c_uint64, c_void_p, c_void_p]
        lib.pan_spell.argtypes = [c_int32, c_void_p, c_void_p, c_void_p]
        lib.pan_analyse.argtypes = [c_int32, *[c_void_p] * 4, POINTER(_Pool), POINTER(_Types)]
        lib.pan_count.argtypes = [c_int32, c_void_p, POINTER(_Types), POINTER(_Grams), *[c_void_p] * 3]
        lib.pan_layout.argtypes, lib.pan_layout.restype = [c_int64, c_void_p, c_void_p, c_uint8, c_void_p], c_int64
        lib.pan_count_layout.argtypes = [c_int64, c_void_p, POINTER(_Table), c_int32, c_void_p]
        for name in ("pan_fill", "pan_spell", "pan_analyse", "pan_count", "pan_count_layout"):
            getattr(lib, name).restype = None
        return lib
    return None


def layout_of(text: str) -> np.ndarray:
    """`layout.layout` of a text: its symbols (n) uint8."""
    lib = library()
    if lib is None:
        return layout.layout(text)
    points, out = _code_points([text])[0], np.empty(len(text), dtype=np.uint8)
    other = layout.SIGN + layout.OTHER
    found = lib.pan_layout(len(text), points.ctypes.data, layout.characters().ctypes.data, other, out.ctypes.data)
    return out[:found].copy()


class TypeTable:
    """What there is to know of distinct tokens."""

    def __init__(self, types: Sequence[str], arrays: dict[str, np.ndarray]) -> None:
        self.types, self.arrays = types, arrays
        self.seen = np.zeros(len(types), dtype=np.int32)  # scratch, zero between documents
        self.pointers = _Types(**{name: array.ctypes.data for name, array in arrays.items()})


class Counter:
    """Counts the n-grams of a pool. `native` False takes the plain rules even where the fast ones are there."""

    def __init__(self, pool: Pool, *, native: bool = True) -> None:
        self.pool = pool
        self.lib = library() if native else None
        if self.lib is not None:
            self._keep: list[np.ndarray] = []  # arrays whose memory the structures point to
            self._set_up()

    def analyse(self, types: Sequence[str]) -> TypeTable:
        """Of distinct tokens, none empty."""
        if self.lib is None:
            return TypeTable(types, {})
        n = len(types)
        text, start = _code_points(types)
        lower, low_start = _code_points([token.lower() for token in types])
        arrays = {name: np.empty(n, dtype=np.int32) for name in ("word", "symbol", "length")}
        arrays |= {name: np.empty(n, dtype=np.uint8) for name in ("mark", "shape")}
        arrays["first"] = np.empty(n + 1, dtype=np.int64)
        # A word of k letters between its bounds has k + 1 pairs, k triples and k - 1 quadruples, at most 3 k.
        arrays["letters"] = np.empty(3 * len(lower) + 3, dtype=np.int32)
        table = TypeTable(types, arrays)
        self.lib.pan_analyse(
            n, text.ctypes.data, start.ctypes.data, lower.ctypes.data, low_start.ctypes.data, byref(self._pool),
            byref(table.pointers),
        )  # fmt: skip
        return table

    def count(
        self, table: TypeTable, documents: Sequence[np.ndarray], layouts: Sequence[np.ndarray] | None = None
    ) -> np.ndarray:
        """Documents as ids (n) into the table's types, and the symbols of their layout, where that is known -> relative
        frequencies (documents, features) float32."""
        out = np.zeros((len(documents), len(self.pool)), dtype=np.float32)
        where = self.pool.views["layout"]
        for row, document, symbols in zip(out, documents, layouts or [layout.NO_LAYOUT] * len(documents), strict=True):
            if self.lib is None:
                row[:] = self.pool.count([table.types[i] for i in document], symbols)
                continue
            typed = np.ascontiguousarray(symbols, dtype=np.uint8)
            self.lib.pan_count_layout(
                len(typed), typed.ctypes.data, byref(self._layout), where.stop - where.start, row[where].ctypes.data
            )
            ids = np.ascontiguousarray(document, dtype=np.int32)
            touched = np.empty(len(ids), dtype=np.int32)
            self.lib.pan_count(
                len(ids), ids.ctypes.data, byref(table.pointers), byref(self._grams), table.seen.ctypes.data,
                touched.ctypes.data, row.ctypes.data,
            )  # fmt: skip
        return out

    def _set_up(self) -> None:
        pool = self.pool
        of_characters = self._kept(kinds())
        n = len(pool.symbols)
        triples = np.array([_joined(pool, triple) for triple in pool.triples], dtype=np.uint64)
        pair = self._kept(np.full(n * n, -1, dtype=np.int32))
        pair[[_joined(pool, entry) for entry in pool.pairs]] = np.arange(len(pool.pairs))
        bounds = [0, *(pool.views[view].stop for view in TOKEN_VIEWS)]
        offset = self._kept(np.array(bounds, dtype=np.int32))
        bins = self._kept(np.array([gap_bin(gap) for gap in range(MAX_GAP + 1)], dtype=np.uint8))
        letters = np.array([_packed(gram) for gram in pool.letters], dtype=np.uint64)
        self._pool = _Pool(
            *(self._table(keys) for keys in map(self._spelled, (pool.words, pool.anchors))), self._table(letters),
            self._table(self._spelled(SIGNS)), of_characters.ctypes.data, len(pool.anchors),
        )  # fmt: skip
        shapes = np.array([shape_number(gram) for gram in pool.shapes], dtype=np.uint64)
        self._grams = _Grams(
            pair.ctypes.data, self._table(triples), self._table(shapes), offset.ctypes.data, bins.ctypes.data, n,
            MAX_GAP,
        )  # fmt: skip
        self._layout = self._table(np.array([layout.gram_number(gram) for gram in pool.layout], dtype=np.uint64))

    def _kept(self, array: np.ndarray) -> np.ndarray:
        self._keep.append(array)
        return array

    def _spelled(self, words: Sequence[str]) -> np.ndarray:
        assert self.lib is not None
        text, start = _code_points(words)
        hashes = np.empty(len(words), dtype=np.uint64)
        self.lib.pan_spell(len(words), text.ctypes.data, start.ctypes.data, hashes.ctypes.data)
        return hashes

    def _table(self, entries: np.ndarray) -> _Table:
        assert self.lib is not None
        slots = 1 << max(4, (2 * len(entries)).bit_length())  # at most half full
        keys, values = np.zeros(slots, dtype=np.uint64), np.full(slots, -1, dtype=np.int32)
        self.lib.pan_fill(len(entries), entries.ctypes.data, slots - 1, keys.ctypes.data, values.ctypes.data)
        return _Table(self._kept(keys).ctypes.data, self._kept(values).ctypes.data, slots - 1)


def _joined(pool: Pool, skeleton: str) -> int:
    number = 0
    for symbol in skeleton.split(" "):
        number = number * len(pool.symbols) + pool.symbol_ids[symbol]
    return number


def _packed(gram: str) -> int:
    number = 0
    for char in gram:
        number = number << 16 | ord(char)
    return number


def _code_points(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """All characters together (n) uint32, and where each text begins (texts + 1)."""
    joined = "".join(texts).encode("utf-32-le", "surrogatepass")
    start = np.fromiter(accumulate(map(len, texts), initial=0), dtype=np.int64, count=len(texts) + 1)
    return np.frombuffer(joined or b"\0\0\0\0", dtype=np.uint32), start
