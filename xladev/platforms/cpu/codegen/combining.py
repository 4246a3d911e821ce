"""What the last of the ranks does in a collective: every result straight from every operand.

It has the frames of all ranks: addresses of their operands, then of their results. Sums are taken
in the order of ranks, each step in the operands' type, in blocks that stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType

from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import I64, PTR, VOID, FunctionBuilder, ModuleBuilder, Parameter, Value
from xladev.codegen.llvm.values import Operand
from xladev.compiler.program.collective_thunk import simple_reduction
from xladev.errors import CompileError
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.shape import Shape, array, flattened_shapes
from xladev.platforms.cpu.codegen.sharing import PARALLEL
from xladev.platforms.cpu.codegen.table import emit_kernel

BLOCK_NBYTES = 1 << 14
"""So many bytes are reduced at a time: with a source beside them, they stay in the L1 cache."""

LEAST_SHARED_NBYTES = 1 << 19
"""Of all operands of all ranks; less is not worth a second thread."""


LIGHT_PIECE_NBYTES = 256
"""Pieces of so many bytes are moved by calls, which good code around them makes no faster."""

MOST_LIGHT_PIECES = 64
"""So few may be smaller than that: far less than a microsecond."""

Run = tuple[str, int, int]
"""A function of units: its name, how many there are, and the bytes of an operand."""


def step_kernel(name: str, opcode: str, dtype: PrimitiveType, count: int) -> KernelSpec:
    """Adds one array of ``count`` elements to another, in its place."""
    b = HloBuilder(name)
    flat = array(dtype, (count,)).with_default_layout()
    b.op(opcode, b.parameter(flat), b.parameter(flat))
    return KernelSpec(name, b.build(), frozenset({(0, 0)}), dtype.host_nbytes)


class Combine:
    """What the last of the ranks does: a function of the frames of all.

    Args:
        module: where to write it.
        spec: the collective's kernel.
        ranks: devices of a group.
        threads: see `Exchanges`.
    """

    def __init__(
        self, module: ModuleBuilder, spec: KernelSpec, ranks: int, threads: int | None
    ) -> None:
        self._module = module
        self.root = spec.computation.root
        self.name = f"{spec.name}.combine"
        self.ranks = ranks
        self._threads = threads
        self._shapes = [o.shape for o in self.root.operands]
        self._results = flattened_shapes(self.root.shape)
        _check_row_major(spec, (*self._shapes, *self._results))
        self.b: FunctionBuilder
        self.frames: Value

    def define(self) -> None:
        """Writes the function."""
        emit = EMITTERS[self.root.opcode]
        runs = [emit(self, number) for number in range(len(self._shapes))]
        self.b = self._module.function(
            self.name, VOID, [Parameter(PTR, "frames")], linkage="internal"
        )
        for run, units, nbytes in runs:
            self._call(run, units, nbytes)
        self.b.ret()

    def _call(self, run: str, units: int, nbytes: int) -> None:
        """Runs all units, by several threads where there is much to do."""
        b, null = self.b, Value("null", PTR)
        (frames,) = b.arguments
        is_shared = self._threads is not None and self._threads != 1
        if not is_shared or units < 2 or nbytes * self.ranks < LEAST_SHARED_NBYTES:
            b.call_void(run, frames, null, b.const(I64, 0), b.const(I64, units))
            return
        grain = max(1, units * LEAST_SHARED_NBYTES // (4 * nbytes * self.ranks))
        numbers = [b.const(I64, n) for n in (units, grain, 0, self._threads or 0)]
        self._module.declare(PARALLEL, VOID, ("ptr", "ptr", "ptr", "i64", "i64", "i64", "i64"))
        b.call_void(PARALLEL, Value(f"@{run}", PTR), frames, null, *numbers)

    @property
    def is_light(self) -> bool:
        """Whether the time goes to copies and steps of many bytes, not to the loops around them."""
        return all(map(self._is_light, range(len(self._shapes))))

    def _is_light(self, number: int) -> bool:
        root = self.root
        if root.opcode in ("all-reduce", "collective-permute"):
            return True
        outer, piece = self.cut(number, self._shapes[number])
        if root.opcode != "all-gather":
            piece //= self.ranks
        return piece >= LIGHT_PIECE_NBYTES or outer * self.ranks**2 <= MOST_LIGHT_PIECES

    # The parts of a function of units

    def units(self, number: int, count: int, body: Callable[[Value], None]) -> Run:
        """A function that runs ``body`` for units begin to end; its name, count and bytes."""
        names = [Parameter(PTR, "frames"), Parameter(PTR, "private"),
                 Parameter(I64, "begin"), Parameter(I64, "end")]  # fmt: skip
        run = f"{self.name}.{number}"
        self.b = self._module.function(run, VOID, names, linkage="internal")
        self.frames, _, begin, end = self.b.arguments
        with self.b.loop(begin, end) as unit:
            body(unit)
        self.b.ret()
        return run, count, self._shapes[number].nbytes

    def place(self, rank: Value | int, number: int, *, is_result: bool) -> Value:
        """Address of an operand or a result of a rank."""
        index = number + len(self._shapes) * is_result
        frame = self.b.load(PTR, self.b.element_address(self.frames, rank, PTR))
        return self.b.load(PTR, self.b.element_address(frame, index, PTR))

    def at(self, base: Value, *terms: tuple[Operand, int]) -> Value:
        """``base`` plus products, in bytes."""
        offset: Value = self.b.const(I64, 0)
        for factor, nbytes in terms:
            value = factor if isinstance(factor, Value) else self.b.const(I64, int(factor))
            offset = self.b.add(offset, self.b.mul(value, nbytes))
        return self.b.byte_address(base, offset)

    def cut(self, number: int, shape: Shape) -> tuple[int, int]:
        """Of an array cut in one dimension: how many pieces lie apart, and the bytes of each."""
        (axis,) = self.root["dimensions"]
        return prod(shape.dims[:axis]), shape.nbytes // max(prod(shape.dims[:axis]), 1)

    # The collectives

    def all_gather(self, number: int) -> Run:
        """Unit: a source. Its pieces go to their places in all results."""
        outer, piece = self.cut(number, self._shapes[number])

        def body(source: Value) -> None:
            origin = self.place(source, number, is_result=False)
            with self.b.loop(0, self.ranks) as target, self.b.loop(0, outer) as o:
                result = self.place(target, number, is_result=True)
                there = self.at(result, (o, self.ranks * piece), (source, piece))
                self.b.copy_bytes(there, self.at(origin, (o, piece)), piece)

        return self.units(number, self.ranks, body)

    def all_to_all(self, number: int) -> Run:
        """Unit: a target. It gets its piece of each source."""
        outer, row = self.cut(number, self._shapes[number])
        piece = row // self.ranks

        def body(target: Value) -> None:
            result = self.place(target, number, is_result=True)
            with self.b.loop(0, self.ranks) as source, self.b.loop(0, outer) as o:
                origin = self.place(source, number, is_result=False)
                there = self.at(result, (o, row), (source, piece))
                self.b.copy_bytes(there, self.at(origin, (o, row), (target, piece)), piece)

        return self.units(number, self.ranks, body)

    def permute(self, number: int) -> Run:
        """One unit: each target gets its source's array, the others zeros."""
        sources = {int(target): int(source) for source, target in self.root["source_target_pairs"]}
        nbytes = self._shapes[number].nbytes

        def body(_: Value) -> None:
            for target in range(self.ranks):
                result = self.place(target, number, is_result=True)
                if target in sources:
                    origin = self.place(sources[target], number, is_result=False)
                    self.b.copy_bytes(result, origin, nbytes)
                else:
                    _emit_zeros(self.b, result, nbytes)

        return self.units(number, 1, body)

    def all_reduce(self, number: int) -> Run:
        """Unit: a block. It is reduced in the first result, and copied to the others."""

        def done(result: Value, offset: Value, nbytes: int) -> None:
            with self.b.loop(1, self.ranks) as target:
                there = self.at(self.place(target, number, is_result=True), (offset, 1))
                self.b.copy_bytes(there, result, nbytes)

        nbytes = self._shapes[number].nbytes
        blocks = max(1, -(-nbytes // BLOCK_NBYTES))

        def body(unit: Value) -> None:
            result = self.place(0, number, is_result=True)
            self._reduce_blocks(number, unit, nbytes, result, self.b.const(I64, 0), done)

        return self.units(number, blocks, body)

    def reduce_scatter(self, number: int) -> Run:
        """Unit: a piece of a target, reduced where it is wanted."""
        outer, row = self.cut(number, self._shapes[number])
        piece = row // self.ranks

        def body(unit: Value) -> None:
            target, o = self.b.sdiv(unit, outer), self.b.srem(unit, outer)
            result = self.at(self.place(target, number, is_result=True), (o, piece))
            behind = self.b.add(self.b.mul(o, row), self.b.mul(target, piece))
            with self.b.loop(0, max(1, -(-piece // BLOCK_NBYTES))) as block:
                self._reduce_blocks(number, block, piece, result, behind, lambda *_: None)

        return self.units(number, self.ranks * outer, body)

    def _reduce_blocks(
        self,
        number: int,
        block: Value,
        nbytes: int,
        result: Value,
        behind: Value,
        done: Callable[[Value, Value, int], None],
    ) -> None:
        """One block of ``nbytes`` that begin ``behind`` bytes into each operand."""
        whole, rest = divmod(nbytes, BLOCK_NBYTES)
        offset = self.b.mul(block, BLOCK_NBYTES)
        for size, test in ((BLOCK_NBYTES, "slt"), (rest, "sge")):
            if not size or (size == BLOCK_NBYTES and not whole):
                continue
            with self.b.when(self.b.icmp(test, block, whole)):
                here = self.b.byte_address(result, offset)
                self._reduce(number, here, self.b.add(behind, offset), size)
                done(here, offset, size)

    def _reduce(self, number: int, result: Value, offset: Value, nbytes: int) -> None:
        first = self.at(self.place(0, number, is_result=False), (offset, 1))
        self.b.copy_bytes(result, first, nbytes)
        step = self._step(self._shapes[number], nbytes)
        with self.b.loop(1, self.ranks) as rank:
            operand = self.at(self.place(rank, number, is_result=False), (offset, 1))
            self.b.call_void(step, result, operand, result)

    def _step(self, shape: Shape, nbytes: int) -> str:
        """The kernel that adds one block to another in place, defined once."""
        (reducer,) = self.root.called
        opcode, count = simple_reduction(reducer), nbytes // shape.element_type.host_nbytes
        name = f"step.{opcode}.{shape.element_type}.{count}"
        if name not in self._module.names:
            dtype = shape.element_type
            emit_kernel(self._module, step_kernel(name, opcode, dtype, count))
        return name


def _emit_zeros(b: FunctionBuilder, place: Value, nbytes: int) -> None:
    b.module.declare_intrinsic("llvm.memset.p0.i64", VOID, ("ptr", "i8", "i64", "i1"))
    b.do(f"call void @llvm.memset.p0.i64({place}, i8 0, i64 {nbytes}, i1 false)")


def _check_row_major(spec: KernelSpec, shapes: Sequence[Shape]) -> None:
    for shape in shapes:
        if shape.minor_to_major != tuple(reversed(range(len(shape.dims)))):
            raise CompileError(
                f"a collective of an array in the layout of {shape}", where=spec.name
            )


EMITTERS: Mapping[str, Callable[[Combine, int], Run]] = MappingProxyType(
    {
        "all-gather": Combine.all_gather,
        "all-reduce": Combine.all_reduce,
        "all-to-all": Combine.all_to_all,
        "collective-permute": Combine.permute,
        "reduce-scatter": Combine.reduce_scatter,
    }
)
"""By opcode: gives the function of one operand."""
