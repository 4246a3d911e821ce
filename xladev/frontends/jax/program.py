"""A compiled program as the shim sees it: its record, and its executions by Python."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence
from typing import Any

from xladev.client import CompiledModule
from xladev.compiler.program import Program
from xladev.compiler.thunks import RunExecutable
from xladev.frontends.jax.compile_options import write_device_assignment
from xladev.frontends.jax.conversion import ShownProgram
from xladev.frontends.jax.element_types import number_of
from xladev.frontends.jax.entry_interface import (
    EntryInterface,
    logical_dims,
    minor_to_major,
    places,
)
from xladev.frontends.jax.records import ProgramRecord, Storage
from xladev.hlo.physical import is_plain
from xladev.hlo.shape import Shape
from xladev.runtime.array import DeviceArray
from xladev.runtime.host_executor import host_address

Described = tuple[DeviceArray, int, int]
"""An array with its address (0: it has none that the host knows) and its size in bytes."""

SHORT_WORK = 4 << 20
"""Operations and bytes up to which a program runs in the caller's thread: about a millisecond."""


class JaxProgram:
    """A program on its devices.

    Args:
        compiled: the program.
        shown: what clients are shown of it.
        options: serialized CompileOptionsProto.
        rows: ids of its devices, one row per replica.
        interface: where arguments and results lie.

    Attributes:
        host_addressable: True if results have addresses.
        held: what the program needs as long as it lives.
    """

    def __init__(
        self,
        compiled: CompiledModule,
        shown: ShownProgram,
        options: bytes,
        rows: tuple[tuple[int, ...], ...],
        interface: EntryInterface,
    ) -> None:
        self.host_addressable = compiled.devices[0].description.host_addressable
        self.held: Sequence[object] = ()
        self.compiled = compiled
        self.shown = shown
        self.options = options
        self.rows = rows
        signature = compiled.program.signature
        self.parameters = signature.parameter_leaves
        self.results = signature.result_leaves
        self.interface = EntryInterface(
            places(interface.parameters, len(self.parameters)),
            places(interface.results, len(self.results)),
        )
        self._storage = Storage()
        self.record = self._make_record()

    @property
    def address(self) -> int:
        """The address of the record."""
        return ctypes.addressof(self.record)

    def execute(
        self, rows: Sequence[Sequence[DeviceArray]], donate: Sequence[int]
    ) -> list[tuple[DeviceArray, ...]]:
        """Runs the program on arrays of its devices; one row of results for each."""
        return self.compiled.execute_leaves(rows, donate)

    # The record

    def _make_record(self) -> ProgramRecord:
        record = ProgramRecord()
        self._fill_texts(record)
        self._fill_interface(record)
        self._fill_entry(record)
        self._fill_costs(record)
        return record

    def _fill_texts(self, record: ProgramRecord) -> None:
        program = self.compiled.program
        fingerprint = hashlib.sha256(self.shown.code + self.options + str(program).encode())
        texts = {
            "name": program.name.encode(),
            "fingerprint": fingerprint.hexdigest().encode(),
            "shown": self.shown.code,
            "shown_format": self.shown.form.encode(),
            "compile_options": self.options,
            "device_assignment": write_device_assignment(self.rows),
        }
        for field, text in texts.items():
            setattr(record, field, self._storage.address(text))
            setattr(record, f"{field}_size", len(text))

    def _fill_interface(self, record: ProgramRecord) -> None:
        numbers = self._storage.numbers
        record.num_replicas, record.num_partitions = len(self.rows), len(self.rows[0])
        record.device_ids = numbers(ctypes.c_int, [i for row in self.rows for i in row])
        for kind, shapes in (("parameter", self.parameters), ("output", self.results)):
            setattr(record, f"num_{kind}s", len(shapes))
            types = [number_of(s.element_type) for s in shapes]
            setattr(record, f"{kind}_types", numbers(ctypes.c_int, types))
            setattr(record, f"{kind}_nbytes", numbers(ctypes.c_size_t, _host_sizes(shapes)))
            setattr(record, f"{kind}_ranks", numbers(ctypes.c_size_t, [s.rank for s in shapes]))
        self._fill_places(record)
        donors = set(self.compiled.program.donors)
        flags = [int(i in donors) for i in range(len(self.parameters))]
        record.donated = numbers(ctypes.c_uint8, flags)

    def _fill_places(self, record: ProgramRecord) -> None:
        """Parameters are told by their dims in memory, results by those that clients see."""
        numbers = self._storage.numbers
        sides = (
            ("parameter", self.parameters, self.interface.parameters),
            ("output", self.results, self.interface.results),
        )
        for kind, shapes, at in sides:
            pairs = list(zip(shapes, at, strict=True))
            layouts = [axis for s, p in pairs for axis in minor_to_major(p.order, s.rank)]
            setattr(record, f"{kind}_layouts", numbers(ctypes.c_int64, layouts))
            setattr(record, f"{kind}_kinds", numbers(ctypes.c_int, [p.kind for p in at]))
        memory = [d for s in self.parameters for d in s.dims]
        record.parameter_dims = numbers(ctypes.c_int64, memory)
        results = zip(self.results, self.interface.results, strict=True)
        seen = [d for s, p in results for d in logical_dims(s.dims, p.order)]
        record.output_dims = numbers(ctypes.c_int64, seen)

    def _fill_entry(self, record: ProgramRecord) -> None:
        signature = self.compiled.program.signature
        entry = self.compiled.native_entry
        if entry is None or not all(map(_is_flat, self.parameters + self.results)):
            return
        self._entry = entry
        record.entry = entry.address
        record.scratch_nbytes = signature.scratch_nbytes
        aliases = {a.result: a.parameter for a in signature.aliases}
        parameters = [aliases.get(i, -1) for i in range(len(self.results))]
        record.alias = self._storage.numbers(ctypes.c_int64, parameters)

    def _fill_costs(self, record: ProgramRecord) -> None:
        program = self.compiled.program
        arguments, results = sum(_host_sizes(self.parameters)), sum(_host_sizes(self.results))
        work = sum(count for _, count in program.work_counts)
        record.flops = work
        record.nbytes_accessed = arguments + results
        record.argument_nbytes, record.result_nbytes = arguments, results
        aliased = [a.parameter for a in program.signature.aliases]
        record.alias_nbytes = sum(_host_sizes([self.parameters[p] for p in aliased]))
        record.code_nbytes = sum(len(e.payload) for e in program.executables)
        record.is_short = work + arguments + results <= SHORT_WORK and not _has_loops(program)


def _host_sizes(shapes: Sequence[Shape]) -> list[int]:
    """Bytes of arrays as the shim holds them: row-major, at least a byte for each element."""
    return [s.size * s.element_type.host_nbytes if s.is_array else 0 for s in shapes]


def _is_flat(shape: Shape) -> bool:
    return shape.is_array and not shape.is_dynamic and is_plain(shape)


def _has_loops(program: Program) -> bool:
    """True unless the program is straight code of its kernels."""
    return any(
        not isinstance(thunk, RunExecutable)
        for procedure in program.procedures
        for thunk in procedure.thunks
    )


def described(array: DeviceArray, *, with_address: bool) -> Described:
    """An array as the shim takes it: with address and size where the host can address it."""
    if not with_address:
        return array, 0, 0
    buffer: Any = array.buffer
    if buffer is None:
        return array, 0, 0
    return array, host_address(buffer.memory), array.nbytes
