"""Makes fast calls: writes down for native code what a program takes, gives and needs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xladev.hlo.physical import is_plain, physical_nbytes
from xladev.hlo.shape import Shape
from xladev.platforms.cpu.block_pool import BlockHome, BlockPool
from xladev.platforms.cpu.native_fast_call import NativeFastCall
from xladev.runtime.buffers.native_accounting import NativeAccounting
from xladev.runtime.fast_call import FastCall, FastCallSpec

MOST_ARRAYS = 4096
"""Most parameters and results: their addresses are on the stack."""

WRAP_ALIGNMENT = 16
"""What xladev-calls asks of the address of a NumPy array."""


class _Parameter(ctypes.Structure):
    _fields_ = [("dtype", ctypes.c_void_p), ("shape", ctypes.c_void_p), ("rank", ctypes.c_int64),
                ("dims", ctypes.c_void_p)]  # fmt: skip


class _Result(ctypes.Structure):
    _fields_ = [("bucket", ctypes.c_void_p), ("shape", ctypes.c_void_p), ("kind", ctypes.c_int64),
                ("live", ctypes.c_void_p), ("dtype", ctypes.c_void_p), ("rank", ctypes.c_int64),
                ("dims", ctypes.c_void_p)]  # fmt: skip


class _Alias(ctypes.Structure):
    _fields_ = [("result", ctypes.c_int64), ("parameter", ctypes.c_int64),
                ("nbytes", ctypes.c_int64)]  # fmt: skip


class _Plan(ctypes.Structure):
    _fields_ = [("parameter_count", ctypes.c_int64), ("parameters", ctypes.c_void_p),
                ("result_count", ctypes.c_int64), ("results", ctypes.c_void_p),
                ("alias_count", ctypes.c_int64), ("aliases", ctypes.c_void_p),
                ("scratch", ctypes.c_void_p), ("entry", ctypes.c_void_p),
                ("accounting", ctypes.c_void_p), ("device", ctypes.c_void_p),
                ("clear", ctypes.c_void_p), ("account", ctypes.c_void_p),
                ("is_bare", ctypes.c_int64)]  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Owner:
    """What a plan refers to; lives as long as its fast call."""

    spec: FastCallSpec
    loaded: object
    accounting: NativeAccounting
    records: Sequence[Any]


def make_fast_call(
    native: NativeFastCall, pool: BlockPool, spec: FastCallSpec, entry: int, loaded: object
) -> FastCall | None:
    """The fast call of a program; None if it has too many arrays.

    Args:
        native: the code that it runs through.
        pool: where its results come from.
        spec: what it takes and gives.
        entry: address of the program, as in `NativeEntry`.
        loaded: what the address belongs to.
    """
    if len(spec.parameters) + len(spec.results) > MOST_ARRAYS:
        return None
    home = BlockHome(pool, spec)
    accounting = _accounting(spec, home)
    forms = [_Form(shape) for shape in spec.parameters]
    parameters = _table(_Parameter, [(f.dtype, f.shape, f.rank, f.dims) for f in forms])
    results = _results(spec, home, accounting)
    scratch = ctypes.addressof(results[-1]) if spec.scratch else None
    aliases = _table(_Alias, spec.aliases)
    plan = _Plan(
        len(parameters), _address(parameters), len(spec.results), _address(results),
        len(aliases), _address(aliases), scratch, entry, id(accounting),
        id(spec.device), spec.clear.buffer_info()[0], spec.account.address,
        int(spec.is_bare),
    )  # fmt: skip
    spec.register(accounting)
    owner = _Owner(spec, loaded, accounting, (plan, parameters, aliases, forms))
    return native.function(ctypes.addressof(plan), owner)


class _Form:
    """A shape as native code compares it with arrays; lives as long as what refers to it.

    NumPy arrays are taken and shown as they are if memory holds just what they do.
    """

    def __init__(self, shape: Shape) -> None:
        is_like_numpy = is_plain(shape) and physical_nbytes(shape) > 0
        self._dims = (ctypes.c_int64 * shape.rank)(*shape.dims)
        self.dtype = id(shape.element_type.np) if is_like_numpy else None
        self.shape = id(shape)
        self.rank = shape.rank
        self.dims = ctypes.addressof(self._dims)


def _accounting(spec: FastCallSpec, home: BlockHome) -> NativeAccounting:
    """One kind of buffer for each result, the last one for scratch."""
    kinds = (*spec.buffers, *([spec.scratch] if spec.scratch else []))
    return NativeAccounting([k.label for k in kinds], [k.nbytes for k in kinds], home)


def _results(
    spec: FastCallSpec, home: BlockHome, accounting: NativeAccounting
) -> ctypes.Array[_Result]:
    """A record for each result, the last one for scratch; blocks refer to them."""
    forms = [_Form(shape) for shape in spec.results]
    table = (_Result * len(accounting.sizes))()
    home.pool.make_room(sum(accounting.sizes))
    for kind, nbytes in enumerate(accounting.sizes):
        row: tuple[Any, ...] = (home.pool.bucket(nbytes), None, kind, accounting.address(kind))
        table[kind] = _Result(*row)
    for record, form in zip(table, forms, strict=False):
        record.shape, record.dtype = form.shape, form.dtype
        record.rank, record.dims = form.rank, form.dims
    home.records += (table, forms)
    return table


def _table(record: type[ctypes.Structure], rows: Sequence[Sequence[Any]]) -> ctypes.Array[Any]:
    return (record * len(rows))(*[record(*row) for row in rows])


def _address(table: ctypes.Array[Any]) -> int:
    return ctypes.addressof(table)
