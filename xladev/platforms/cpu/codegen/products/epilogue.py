"""Kernels of a convolution that go on with elementwise instructions on its result.

A block of the result is still in the second cache when it has been summed: there it is read once
more, and what the kernel makes of it written in its place. Whoever takes the block does so, so that
both are shared among threads as one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from xladev.codegen.arrays import IrArray
from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.rules import ELEMENT_RULES
from xladev.codegen.elemental.vectors import VectorEmitter
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import Value
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.opset import opdef
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.merged_dimensions import with_merged_dimensions

Finish = Callable[[IndexValue, Value, IndexValue, Value], None]
"""Goes on with a block: first pixel, number of pixels, first feature, number of features."""

CORE = "convolution"
"""What a kernel may go on from."""
LEAST_LANES = 4
"""Shorter vectors are not worth code of their own."""
ROWS = 4
"""Pixels that one loop goes over, so that what is the same for them is read once."""


def core_of(computation: HloComputation) -> HloInstruction | None:
    """The convolution that a kernel goes on from; None if it ends with one, or has none."""
    root = computation.root
    if not root.op.elementwise:
        return None
    return next((i for i in computation.instructions if i.opcode == CORE), None)


def core_spec(spec: KernelSpec) -> KernelSpec:
    """A kernel's part up to its convolution, or all of it if it does not go on from one."""
    core = core_of(spec.computation)
    if core is None:
        return spec
    instructions = spec.computation.instructions
    kept = instructions[: instructions.index(core) + 1]
    parameters = [p for p in spec.computation.parameters if p not in kept]
    computation = HloComputation(spec.computation.name, (*parameters, *kept), core)
    return replace(spec, computation=computation)


def rest_of(k: KernelBuild, core: HloInstruction) -> KernelBuild:
    """What the kernel makes of the convolution's result, which it reads and overwrites."""
    computation = k.spec.computation
    number = len(computation.parameters)
    result = HloInstruction(
        opdef("parameter"), core.shape, (), {"parameter_number": number}, f"{core.name}.result"
    )
    made: dict[HloInstruction, HloInstruction] = {p: p for p in computation.parameters}
    made[core] = result
    needed = _needed(computation.root, core)
    for i in computation.instructions:
        if i in needed and i not in made:
            made[i] = replace(i, operands=tuple(made[o] for o in i.operands))
    rest = HloComputation(computation.name, tuple(made.values()), made[computation.root])
    merged = with_merged_dimensions(rest)
    if merged.root.shape.rank > 1 and merged.root.shape.dims[-1] != core.shape.dims[-1]:
        merged = rest
    arrays = (*k.operands, k.results[0])
    held = {
        p: (IrArray(a.base, p.shape, a.metadata),)
        for p, a in zip(merged.parameters, arrays, strict=True)
    }
    final = (IrArray(k.results[0].base, merged.root.shape, k.results[0].metadata),)
    e = ElementalEmitter(k.b, ELEMENT_RULES, held)
    spec = replace(k.spec, computation=merged)
    return replace(k, spec=spec, e=e, operands=k.operands, results=final)


def _needed(root: HloInstruction, core: HloInstruction) -> set[HloInstruction]:
    """What the root is made of, behind the convolution."""
    found, waiting = {root}, [root]
    while waiting:
        for operand in waiting.pop().operands:
            if operand is not core and operand not in found:
                found.add(operand)
                waiting.append(operand)
    return found


@dataclass(frozen=True, slots=True)
class BlockLoop:
    """Goes on with one block of a convolution whose features are neighbours in memory.

    Attributes:
        k: what `rest_of` gives.
        features: of a pixel, groups together.
        run: of a pixel, in the blocks that begin with the same one and lie side by side.
    """

    k: KernelBuild
    features: int
    run: int

    def emit(self, row: IndexValue, rows: Value, column: IndexValue, columns: Value) -> None:
        """Writes the loops, a few pixels at a time; see `Finish`."""
        b, at = self.k.b, self.k.e.at
        whole = b.sub(rows, b.and_(rows, ROWS - 1))
        with b.loop(0, whole, ROWS) as n, self.k.e.scope():
            self._rows(at.add(row, n), ROWS, column, columns)
        with b.loop(whole, rows) as n, self.k.e.scope():
            self._rows(at.add(row, n), 1, column, columns)

    def _rows(self, row: IndexValue, count: int, column: IndexValue, columns: Value) -> None:
        """In vectors, and what is left in shorter ones; single elements at the end."""
        b, lanes = self.k.b, self._lanes
        begin: Value | int = 0
        while lanes >= LEAST_LANES:
            left = b.sub(columns, begin)
            end = b.add(begin, b.sub(left, b.and_(left, lanes - 1)))
            emit = partial(self._vectors, row, count, column, (begin, end), lanes)
            if not self.k.attempt(emit):
                break
            if self.run % lanes == 0:
                return
            begin, lanes = end, lanes // 2
        at = self.k.e.at
        with b.loop(begin, columns) as n, self.k.e.scope():
            feature = at.add(column, n)
            for number in range(count):
                index = self._index(at.add(row, number), feature)
                element = self.k.e.element(self.k.root, index)
                self.k.results[0].store(b, index, element)

    @property
    def _lanes(self) -> int:
        """Of the longest vectors."""
        return max(self.k.b.module.target.vector_nbytes // self._nbytes, 1)

    @property
    def _nbytes(self) -> int:
        """Bytes of the widest element."""
        shapes = (i.shape for i in self.k.spec.computation.instructions)
        return max(s.element_type.host_nbytes for s in shapes if s.is_array)

    def _vectors(
        self,
        row: IndexValue,
        count: int,
        column: IndexValue,
        span: tuple[Value | int, Value],
        lanes: int,
    ) -> None:
        b, result = self.k.b, self.k.results[0]
        e = VectorEmitter(self.k.e, lanes)
        rows = [self._row(e, row, number) for number in range(count)]
        with b.loop(*span, lanes) as n, e.scope():
            feature = self.k.e.at.value(self.k.e.at.add(column, n))
            e.at.start(feature, 1, (0, self.features))
            indices = [self._at(e, outer, feature) for outer in rows]
            elements = [e.element(self.k.root, index) for index in indices]
            for index, element in zip(indices, elements, strict=True):
                e.store(result, e.offset(result, index), element)

    def _row(self, e: ElementalEmitter, row: IndexValue, number: int) -> Index:
        """Where a pixel is: its position in memory, or its place in all dimensions but the last."""
        dims, pixel = self.k.root.shape.dims, e.at.add(row, number)
        if len(dims) == 1:
            return (e.at.mul(pixel, self.features),)
        return e.at.delinear(pixel, dims[:-1])

    def _at(self, e: ElementalEmitter, row: Index, feature: IndexValue) -> Index:
        if len(self.k.root.shape.dims) == 1:
            return (e.at.add(row[0], feature),)
        return (*row, feature)

    def _index(self, row: IndexValue, feature: IndexValue) -> Index:
        return self._at(self.k.e, self._row(self.k.e, row, 0), feature)
