"""Collectives in native code: a kernel that meets its peers, and what the last to come does.

Device numbers are here too, since they stand where the peers do.

A kernel of a collective hands over the addresses of its operands and results, its frame. Whoever
comes last has the frames of all ranks, and computes every result straight from every operand; the
others sleep (`exchange.ll`). Sums are taken in the order of ranks, each step in the operands' type,
in blocks that stay in the cache.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import (
    I32,
    I64,
    PTR,
    VOID,
    FunctionBuilder,
    ModuleBuilder,
    Parameter,
    Value,
)
from xladev.compiler.emitter_support import elementwise_support, first_refusal
from xladev.compiler.partition.assignment import DEVICE_NUMBER_OPCODES
from xladev.compiler.program.collective_thunk import simple_reduction
from xladev.compiler.support import YES, Support, no
from xladev.hlo.device_groups import Groups, device_groups
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cpu.codegen.combining import EMITTERS, Combine, step_kernel

EXCHANGE = "xladev_exchange"
"""``i32 xladev_exchange(ptr context, ptr groups, ptr frame, ptr combine)``: see `exchange.ll`."""

HEADER_NBYTES = 64
"""Of a block, before its slots."""

_ALONE = 2


@dataclass(frozen=True, slots=True)
class ExchangePlan:
    """What a program's collectives want.

    Attributes:
        devices: how many run the program together.
        nbytes: of the block that they share; 0 if they exchange nothing.
    """

    devices: int
    nbytes: int


def exchanges(spec: KernelSpec) -> bool:
    """True for the kernel of a collective."""
    return spec.computation.root.opcode in EMITTERS


def is_number(spec: KernelSpec) -> bool:
    """True for the kernel of a device number."""
    return spec.computation.root.opcode in DEVICE_NUMBER_OPCODES


def exchange_support(instruction: HloInstruction) -> Support:
    """Whether there is native code for a collective."""
    if instruction.opcode not in EMITTERS:
        return no(f"no kernel for {instruction.opcode}")
    if instruction.opcode == "all-to-all" and not instruction.attrs.get("dimensions"):
        return no("an all-to-all of several operands is no exchange of parts")
    if instruction.attrs.get("slice_sizes"):
        return no("a permutation in place writes over a part of its result")
    rows = instruction["replica_groups"].expand() if _has_groups(instruction) else ()
    if len({len(row) for row in rows}) > 1:
        return no("groups of unequal size")
    for operand in instruction.operands:
        bits = operand.shape.element_type.bits
        if not operand.shape.is_array or bits % 8 and bits != 1:
            return no(f"elements of {operand.shape.element_type} fill no bytes")
    return _reduction_support(instruction)


def _has_groups(instruction: HloInstruction) -> bool:
    return "replica_groups" in instruction.op.by_name


def _reduction_support(instruction: HloInstruction) -> Support:
    if not instruction.called:
        return YES
    (reducer,) = instruction.called
    opcode = simple_reduction(reducer)
    if not opcode:
        return no(f"{reducer.name} is no plain opcode")
    types = dict.fromkeys(o.shape.element_type for o in instruction.operands)
    steps = (step_kernel("step", opcode, dtype, 1).computation.root for dtype in types)
    return first_refusal(map(elementwise_support, steps))


class Exchanges:
    """Writes the kernels of a program's collectives.

    Args:
        module: where to.
        replicas, partitions: of the execution.
        threads: most threads that work on one; None for code that asks for none.
    """

    def __init__(
        self, module: ModuleBuilder, replicas: int, partitions: int, threads: int | None
    ) -> None:
        self._module = module
        self._counts = replicas, partitions
        self._threads = threads
        self._nbytes = HEADER_NBYTES
        self._has_numbers = False
        self._light: list[str] = []

    @property
    def light(self) -> Sequence[str]:
        """Kernels whose own code need not be good."""
        return self._light

    @property
    def plan(self) -> ExchangePlan | None:
        """What the program wants of whoever launches it; None for a program of one device."""
        replicas, partitions = self._counts
        if replicas * partitions == 1 and self._nbytes == HEADER_NBYTES:
            return None
        exchanges_nothing = self._nbytes == HEADER_NBYTES and not self._has_numbers
        return ExchangePlan(replicas * partitions, 0 if exchanges_nothing else self._nbytes)

    def emit_number(self, spec: KernelSpec) -> None:
        """Defines ``void name(ptr result, ptr context)``; of one device all numbers are 0."""
        b = self._module.function(
            spec.name, VOID, [Parameter(PTR, "r0"), Parameter(PTR, "context")]
        )
        result, context = b.arguments
        replicas, partitions = self._counts
        number = b.const(I64, 0)
        if replicas * partitions > 1:
            self._has_numbers = True
            number = b.load(I64, b.element_address(context, 1, I64))
            is_partition = spec.computation.root.opcode == "partition-id"
            number = (b.srem if is_partition else b.sdiv)(number, partitions)
        b.store(b.resize(number, I32, signed=False), result)
        b.ret()
        self._light.append(spec.name)

    def emit(self, spec: KernelSpec) -> None:
        """Defines ``i32 name(ptr operands..., ptr results..., ptr context)``; 0 is success."""
        root = spec.computation.root
        groups = device_groups(root, *self._counts)
        operands = [spec.computation.parameters.index(o) for o in root.operands]
        combine = Combine(self._module, spec, len(groups[0]), self._threads)
        combine.define()
        if combine.is_light:
            self._light.append(spec.name)
        names = [*(f"p{n}" for n in range(len(spec.operands)))]
        names += [*(f"r{n}" for n in range(len(spec.results))), "context"]
        b = self._module.function(
            spec.name, I32, [Parameter(PTR, name) for name in names], attributes="noinline"
        )
        *arrays, context = b.arguments
        places = [arrays[n] for n in operands] + arrays[len(spec.operands) :]
        frame = b.alloca(PTR, len(places))
        for n, place in enumerate(places):
            b.store(place, b.element_address(frame, n, PTR))
        table = self._module.constant_bytes(f"{spec.name}.groups", self._table(groups))
        self._module.declare(EXCHANGE, I32, ("ptr", "ptr", "ptr", "ptr"))
        last = Value(f"@{combine.name}", PTR)
        status = b.call(EXCHANGE, I32, context, table, frame, last)
        with b.leave_when(b.icmp("eq", status, _ALONE)):
            _emit_alone(b, root, places)
            b.ret(b.const(I32, 0))
        b.ret(status)

    def _table(self, groups: Groups) -> bytes:
        """See `exchange.ll`."""
        size = len(groups[0])
        slot_nbytes = -(-(8 + 8 * size) // 64) * 64
        words = [self._nbytes, slot_nbytes, size]
        places = {device: (g, r) for g, row in enumerate(groups) for r, device in enumerate(row)}
        for device in range(prod(self._counts)):
            words += places.get(device, (-1, 0))
        self._nbytes += slot_nbytes * len(groups)
        return struct.pack(f"<{len(words)}q", *words)


def _emit_alone(b: FunctionBuilder, root: HloInstruction, places: Sequence[Value]) -> None:
    """A device in no group keeps what it has."""
    count = len(root.operands)
    for operand, source, result in zip(root.operands, places, places[count:], strict=False):
        b.copy_bytes(result, source, operand.shape.nbytes)
