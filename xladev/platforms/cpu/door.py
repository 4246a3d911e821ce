"""Opens doors: writes down for native code what a program takes, gives and needs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xladev.hlo.physical import is_plain, physical_nbytes
from xladev.hlo.shape import Shape
from xladev.platforms.cpu.block_pool import BlockHome, BlockPool
from xladev.platforms.cpu.native_door import NativeDoor
from xladev.runtime.buffers.ledger import Ledger
from xladev.runtime.launch.door import Door, Doorway

MOST_ARRAYS = 4096
"""Most parameters and results: their addresses lie on the stack."""

WRAP_ALIGNMENT = 16
"""What `door.ll` asks of the address of a NumPy array."""


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
                ("ledger", ctypes.c_void_p), ("device", ctypes.c_void_p),
                ("clear", ctypes.c_void_p), ("account", ctypes.c_void_p),
                ("is_bare", ctypes.c_int64)]  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Owner:
    """What a plan refers to; lives as long as its door."""

    doorway: Doorway
    loaded: object
    ledger: Ledger
    records: Sequence[Any]


def open_door(
    native: NativeDoor, pool: BlockPool, doorway: Doorway, entry: int, loaded: object
) -> Door | None:
    """The door of a program; None if it has too many arrays.

    Args:
        native: the code that it runs through.
        pool: where its results come from.
        doorway: what it takes and gives.
        entry: address of the program, as in `NativeEntry`.
        loaded: what the address belongs to.
    """
    if len(doorway.parameters) + len(doorway.results) > MOST_ARRAYS:
        return None
    home = BlockHome(pool, doorway)
    ledger = _ledger(doorway, home)
    forms = [_Form(shape) for shape in doorway.parameters]
    parameters = _table(_Parameter, [(f.dtype, f.shape, f.rank, f.dims) for f in forms])
    results = _results(doorway, home, ledger)
    scratch = ctypes.addressof(results[-1]) if doorway.scratch else None
    aliases = _table(_Alias, doorway.aliases)
    plan = _Plan(
        len(parameters), _address(parameters), len(doorway.results), _address(results),
        len(aliases), _address(aliases), scratch, entry, id(ledger),
        id(doorway.device), doorway.clear.buffer_info()[0], doorway.account.address,
        int(doorway.is_bare),
    )  # fmt: skip
    doorway.register(ledger)
    owner = _Owner(doorway, loaded, ledger, (plan, parameters, aliases, forms))
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


def _ledger(doorway: Doorway, home: BlockHome) -> Ledger:
    """One kind of buffer for each result, the last one for scratch."""
    kinds = (*doorway.buffers, *([doorway.scratch] if doorway.scratch else []))
    return Ledger([k.label for k in kinds], [k.nbytes for k in kinds], home)


def _results(doorway: Doorway, home: BlockHome, ledger: Ledger) -> ctypes.Array[_Result]:
    """A record for each result, the last one for scratch; blocks refer to them."""
    forms = [_Form(shape) for shape in doorway.results]
    table = (_Result * len(ledger.sizes))()
    for kind, nbytes in enumerate(ledger.sizes):
        row: tuple[Any, ...] = (home.pool.bucket(nbytes), None, kind, ledger.address(kind))
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
