"""One kernel under construction: its function, its arrays, and loops over them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod

from xladev.codegen.arrays import IrArray
from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.moves import moved_as_bits
from xladev.codegen.elemental.rules import ELEMENT_RULES
from xladev.codegen.elemental.vectors import NotInVectorsError
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import PTR, VOID, FunctionBuilder, ModuleBuilder, Parameter, Value
from xladev.errors import CompileError
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cpu.codegen.sharing import (
    Part,
    Sharing,
    emit_shared,
    leading_units,
    sharing_of,
)
from xladev.platforms.cpu.codegen.tactics import DEFAULT, Tactic
from xladev.platforms.cpu.codegen.tiling import LoopTile

Extent = int | tuple[IndexValue, IndexValue]
"""How many indices a loop goes over, from 0 on; or the first, and the one after the last."""


@dataclass(frozen=True, slots=True)
class KernelBuild:
    """What a kernel emitter works with.

    Attributes:
        spec: what to compute.
        b: the function being written.
        e: elements of the spec's computation.
        operands, results: the arrays in memory.
        workspace: pointer to the kernel's own memory, if it asked for some.
        sharing: how its loops are shared among threads; None if they are not.
        tactic: how to compute, where there are several ways.
    """

    spec: KernelSpec
    b: FunctionBuilder
    e: ElementalEmitter
    operands: tuple[IrArray, ...]
    results: tuple[IrArray, ...]
    workspace: Value | None = None
    sharing: Sharing | None = None
    tactic: Tactic = DEFAULT

    @property
    def root(self) -> HloInstruction:
        """Root of the computation."""
        return self.spec.computation.root

    @property
    def scratch(self) -> Value:
        """The workspace.

        Raises:
            CompileError: the kernel has none.
        """
        if self.workspace is None:
            raise CompileError("a kernel without workspace wants some", where=self.spec.name)
        return self.workspace

    @property
    def is_shared(self) -> bool:
        """True if `split` makes parts, for several threads."""
        return self.sharing is not None and not self.sharing.is_inside

    def split(
        self,
        count: int,
        part: Part,
        *,
        captures: Sequence[IndexValue] = (),
        private_nbytes: int = 0,
        least: int = 1,
    ) -> None:
        """Runs ``part(begin, end)``, a loop over any part of ``count`` units, in several threads.

        Units must not depend on one another: nobody knows in which order they are computed.
        ``part`` may use the kernel's arrays, its workspace and the captured values; nothing else
        that was emitted before. If it writes to the workspace what other units must not see, it
        says of how many bytes each thread needs its own. Parts have at least ``least`` units.
        """
        if count < 2 or self.sharing is None or not self.is_shared:
            part(0, count)
            return
        values = [c for c in captures if isinstance(c, Value) and c.text.startswith("%")]
        emit_shared(
            self.b,
            self.e,
            self.sharing,
            count,
            part,
            captures=values,
            workspace=self.workspace,
            private_nbytes=private_nbytes,
            least=least,
        )

    def split_nest(
        self,
        extents: Sequence[int],
        body: Callable[[Index], None],
        *,
        captures: Sequence[IndexValue] = (),
        private_nbytes: int = 0,
    ) -> None:
        """As `nest`, in several threads: no index may depend on another; see `split`."""
        outer = tuple(extents[: leading_units(extents)])
        if not self.is_shared or prod(outer) < 2:
            self.nest(extents, body)
            return

        def part(begin: IndexValue, end: IndexValue) -> None:
            with self.b.loop(begin, end) as unit, self.e.scope():
                self._nest(tuple(extents[len(outer) :]), self.e.at.delinear(unit, outer), body)

        self.split(prod(outer), part, captures=captures, private_nbytes=private_nbytes)

    def nest(self, extents: Sequence[Extent], body: Callable[[Index], None]) -> None:
        """Runs ``body`` at every index of the extents, the last one innermost."""
        self._nest(tuple(extents), (), body)

    def _nest(
        self, extents: tuple[Extent, ...], outer: Index, body: Callable[[Index], None]
    ) -> None:
        if not extents:
            body(outer)
        elif extents[0] == 1:
            self._nest(extents[1:], (*outer, 0), body)
        else:
            begin, end = extents[0] if isinstance(extents[0], tuple) else (0, extents[0])
            with self.b.loop(begin, end) as i, self.e.scope():
                self._nest(extents[1:], (*outer, i), body)

    def nest_in_layout(self, array: IrArray, body: Callable[[Index], None]) -> None:
        """Runs ``body`` at every index of an array, in the order of its memory, or in any."""
        order = tuple(reversed(array.shape.minor_to_major))

        def logical(physical: Index) -> None:
            at = dict(zip(order, physical, strict=True))
            body(tuple(at[d] for d in range(len(order))))

        self.split_nest([array.shape.dims[d] for d in order], logical)

    def nest_in_tiles(self, array: IrArray, tile: LoopTile, body: Callable[[Index], None]) -> None:
        """As `nest_in_layout`, but in tiles of two dimensions."""
        order = tuple(reversed(array.shape.minor_to_major))
        dims = array.shape.dims
        steps = {tile.crossed: tile.crossed_size, tile.inner: tile.inner_size}

        def tile_at(positions: Index) -> None:
            starts = {d: self.e.at.mul(x, steps.get(d, 1))
                      for d, x in zip(order, positions, strict=True)}  # fmt: skip
            self._in_tile(starts, steps, dims, body)

        self.split_nest([-(-dims[d] // steps.get(d, 1)) for d in order], tile_at)

    def _in_tile(
        self,
        at: dict[int, IndexValue],
        steps: Mapping[int, int],
        dims: tuple[int, ...],
        body: Callable[[Index], None],
    ) -> None:
        """The loops within a tile that begins at ``at``; the last tile may be smaller."""
        with ExitStack() as nest:
            for d, size in steps.items():
                start = self.e.at.value(at[d])
                stop = self.b.add(start, size)
                if dims[d] % size:
                    stop = self.b.intrinsic("smin", stop, dims[d])
                at = {**at, d: nest.enter_context(self.b.loop(start, stop))}
                nest.enter_context(self.e.scope())
            body(tuple(at[d] for d in range(len(dims))))

    def attempt(self, emit: Callable[[], None]) -> bool:
        """Runs code that emits vectors; False, and nothing is emitted, where that cannot be."""
        mark, functions, held = self.b.mark(), self.b.module.mark(), self.e.scopes()
        try:
            emit()
        except NotInVectorsError:
            self.b.reset(mark)
            self.b.module.reset(functions)
            self.e.leave(held)
            return False
        return True

    def copy(self, source: IrArray, destination: IrArray) -> None:
        """Copies an array of the same dimensions."""
        self.nest_in_layout(
            destination, lambda at: destination.store(self.b, at, source.load(self.b, at))
        )


KernelEmitter = Callable[[KernelBuild], None]
"""Writes the body of a kernel, up to its return."""


def begin_kernel(
    module: ModuleBuilder,
    spec: KernelSpec,
    has_workspace: bool = False,
    threads: int | None = None,
    tactic: Tactic = DEFAULT,
) -> KernelBuild:
    """Opens ``void name(ptr operands..., ptr results..., [ptr workspace])``; see `sharing_of`."""
    shared = {i for pair in spec.in_place for i in _buffer_numbers(spec, pair)}
    count = len(spec.operands)
    names = [f"p{n}" for n in range(count)] + [f"r{n}" for n in range(len(spec.results))]
    names += ["workspace"] if has_workspace else []
    parameters = [
        Parameter(PTR, name, _attributes(spec, n, n < count, n in shared))
        for n, name in enumerate(names)
    ]
    sharing = sharing_of(spec, parameters, threads, tactic)
    if sharing is not None or has_workspace:  # which may hold the others' addresses
        parameters = [Parameter(p.type, p.name, _escaping(p.attributes)) for p in parameters]
    # Inlined into the entry, thousands of kernels would make one function LLVM is slow on.
    b = module.function(spec.name, VOID, parameters, attributes="noinline")
    b.keep()  # it may become bytecode
    shapes = moved_as_bits(spec.computation, (*spec.operands, *spec.results))
    arrays = tuple(IrArray(p, s) for p, s in zip(b.arguments, shapes, strict=False))
    held = {
        parameter: (array,)
        for parameter, array in zip(spec.computation.parameters, arrays, strict=False)
    }
    e = ElementalEmitter(b, ELEMENT_RULES, held)
    workspace = b.arguments[-1] if has_workspace else None
    return KernelBuild(spec, b, e, arrays[:count], arrays[count:], workspace, sharing, tactic)


def _buffer_numbers(spec: KernelSpec, pair: tuple[int, int]) -> tuple[int, int]:
    result, operand = pair
    return len(spec.operands) + result, operand


_NOT_KEPT = "captures(none)"


def _escaping(attributes: str) -> str:
    """Attributes of a pointer that is handed on to other threads."""
    return " ".join(word for word in attributes.split() if word != _NOT_KEPT)


def _attributes(spec: KernelSpec, number: int, is_operand: bool, shared: bool) -> str:
    words = [f"align {spec.alignment}", _NOT_KEPT]
    if not shared:
        words.append("noalias")
        if is_operand:
            words.append("readonly")
    return " ".join(words)
