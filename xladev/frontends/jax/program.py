"""A compiled program as the shim sees it: its record, and its executions by Python."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from xladev.client import CompiledModule, load_compiled
from xladev.compiler.program.program import Program
from xladev.compiler.program.thunks import Constant, Evaluate, RunExecutable, Thunk, Transfer
from xladev.frontends.jax.callbacks import Callback
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
from xladev.frontends.jax.shardings import Shardings
from xladev.hlo.physical import is_plain
from xladev.hlo.shape import Shape
from xladev.runtime.array import DeviceArray
from xladev.runtime.loaded_executable import JointEntry

SHORT_WORK = 4 << 20
"""Operations and bytes up to which a program runs in the caller's thread: about a millisecond.

Only straight code does; of loops nobody knows how long they take. What a callback does takes as
long as it does, but an error in it is of most use where the program was called.
"""

TINY_WORK = 64 << 10
"""As above, of one device: up to here it takes less than to wake a thread that does it."""

_STEPS_AROUND_CALLBACKS = (RunExecutable, Evaluate, Transfer, Constant)


class JaxProgram:
    """A program on its devices.

    Args:
        compiled: the program.
        shown: what clients are shown of it.
        options: serialized CompileOptionsProto.
        rows: ids of its devices, one row per replica.
        interface: where arguments and results are.
        callbacks: the Python functions that it calls, which live as long as it does.
        shardings: how they are laid out over the devices; None for a program of one partition.
        is_portable: each execution names its device; the program is loaded on those it meets.
        is_own: says of the id of a device whether it is in this process.

    Attributes:
        host_addressable: True if results have addresses.
    """

    def __init__(
        self,
        compiled: CompiledModule,
        shown: ShownProgram,
        options: bytes,
        rows: tuple[tuple[int, ...], ...],
        interface: EntryInterface,
        callbacks: Sequence[Callback] = (),
        shardings: Shardings | None = None,
        is_portable: bool = False,
        is_own: Callable[[int], bool] = lambda _: True,
    ) -> None:
        self._is_own = is_own
        self.is_portable = is_portable
        self._on_device = {rows[0][0]: compiled}
        self.host_addressable = any(d.description.host_addressable for d in compiled.devices)
        self.callbacks = callbacks
        self.compiled = compiled
        self.shown = shown
        self.options = options
        self.rows = rows
        self.shardings = shardings
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
        self, rows: Sequence[Sequence[DeviceArray]], donate: Sequence[int], device: int
    ) -> list[tuple[DeviceArray, ...]]:
        """Runs the program on arrays of its devices; one row of results for each.

        Args:
            rows: for each device its arguments.
            donate: numbers of arguments that end.
            device: number of the first device, which a portable program runs on.
        """
        compiled = self._on(device) if self.is_portable else self.compiled
        return compiled.execute_leaves(rows, donate)

    def _on(self, device: int) -> CompiledModule:
        """The program on a device; two threads may load it twice, and either is as good."""
        found = self._on_device.get(device)
        if found is None:
            program = self.compiled.program
            found = load_compiled(program, self.compiled.devices[0].platform, ((device,),))
            self._on_device[device] = found
        return found

    # The record

    def _make_record(self) -> ProgramRecord:
        record = ProgramRecord()
        self._fill_texts(record)
        self._fill_interface(record)
        self._fill_shardings(record)
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
        every = [i for row in self.rows for i in row]
        own = [at for at, i in enumerate(every) if self._is_own(i)]
        record.num_own, record.own = len(own), numbers(ctypes.c_int, own)
        record.device_ids = numbers(ctypes.c_int, [every[at] for at in own])
        record.is_spread = len(own) < len(every)
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
        self._fill_dynamic(record)

    def _fill_dynamic(self, record: ProgramRecord) -> None:
        if not any(shape.is_dynamic for shape in self.results):
            return
        flags = [
            int(flag)
            for shape, place in zip(self.results, self.interface.results, strict=True)
            for flag in logical_dims(shape.dynamic or (False,) * shape.rank, place.order)
        ]
        record.output_dynamic = self._storage.numbers(ctypes.c_uint8, flags)

    def _fill_shardings(self, record: ProgramRecord) -> None:
        if self.shardings is None:
            return
        for kind, given in (
            ("parameter", self.shardings.parameters),
            ("output", self.shardings.results),
        ):
            if not given:  # clients do not take a list of none
                continue
            texts = [self._storage.address(text) for text in given]
            sizes = [len(text) for text in given]
            numbers = self._storage.numbers
            setattr(record, f"{kind}_shardings", numbers(ctypes.c_void_p, texts))
            setattr(record, f"{kind}_sharding_sizes", numbers(ctypes.c_size_t, sizes))

    def explain(self, threads: Sequence[int]) -> NoReturn:
        """Raises why a joint launch failed in these threads; see `JointEntry.explain`."""
        assert self._joint is not None
        self._joint.explain(threads)

    def _fill_entry(self, record: ProgramRecord) -> None:
        signature = self.compiled.program.signature
        self._joint: JointEntry | None = None
        if not all(map(_is_flat, self.parameters + self.results)):
            return
        if (entry := self.compiled.native_entry) is not None:
            self._entry = entry
            record.entry = entry.address
        elif (joint := self.compiled.joint_entry) is not None:
            self._joint = joint
            addresses = self._storage.numbers
            record.joint_entries = addresses(ctypes.c_void_p, joint.addresses)
            record.joint_contexts = addresses(ctypes.c_void_p, joint.contexts)
            record.joint_failure = joint.failure
        else:
            return
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
        record.code_nbytes = sum(e.nbytes for e in program.executables)
        steps = _STEPS_AROUND_CALLBACKS if self.callbacks else (RunExecutable,)
        is_straight = all(isinstance(thunk, steps) for thunk in _thunks(program))
        is_straight &= self._joint is None or not self._joint.has_loops
        record.is_short = work + arguments + results <= SHORT_WORK and is_straight
        record.is_tiny = work + arguments + results <= TINY_WORK and is_straight
        record.has_callbacks = bool(self.callbacks)
        record.is_portable = self.is_portable


def _host_sizes(shapes: Sequence[Shape]) -> list[int]:
    """Bytes of arrays as the shim holds them: row-major, at least a byte for each element."""
    return [s.size * s.element_type.host_nbytes if s.is_array else 0 for s in shapes]


def _is_flat(shape: Shape) -> bool:
    return shape.is_array and not shape.is_dynamic and is_plain(shape)


def _thunks(program: Program) -> Iterator[Thunk]:
    for procedure in program.procedures:
        yield from procedure.thunks
