"""Sort of each row, stable: rows go to the workspace, a microkernel sorts them there, and back."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from xladev.codegen.arrays import IrArray, element_strides
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import I32, I64, FunctionBuilder, Value
from xladev.errors import CompileError
from xladev.hlo.dtype import S32, U32
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape, array
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.sorting.sort_microkernel import Rows, SortedRows, call_row_sort
from xladev.platforms.cpu.codegen.sorting.sorting_network import network_nbytes
from xladev.platforms.cpu.codegen.tactics import DEFAULT, Tactic

_ALIGNMENT = 64


def _row_shapes(spec: KernelSpec) -> list[Shape]:
    """One row of each operand of the sort."""
    root = spec.computation.root
    (axis,) = root["dimensions"]
    return [array(o.shape.element_type, (o.shape.dims[axis],)) for o in root.operands]


def _rounded(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def row_sort(spec: KernelSpec, tactic: Tactic = DEFAULT) -> SortedRows:
    """What sorts the rows of a kernel."""
    rows = _row_shapes(spec)
    dtypes = [row.element_type for row in rows]
    return SortedRows.of(spec.computation.root["to_apply"], dtypes, rows[0].size, tactic.sort_way)


def _rows_nbytes(spec: KernelSpec) -> int:
    return 2 * sum(_rounded(row.nbytes) for row in _row_shapes(spec))


def sort_workspace_nbytes(spec: KernelSpec, tactic: Tactic = DEFAULT) -> int:
    """Two rows of each operand: what is sorted, and where it is moved to; and a network's row."""
    (row, *_) = _row_shapes(spec)
    network = network_nbytes(row.size) if row_sort(spec, tactic).has_network else 0
    return _rows_nbytes(spec) + network


def emit_sort(k: KernelBuild) -> None:
    """Sorts along one dimension; all operands move together."""
    if k.workspace is None:
        raise CompileError("a sort kernel has no workspace", where=k.spec.name)
    _Sort(k, k.workspace).emit()


class _Sort:
    def __init__(self, k: KernelBuild, workspace: Value) -> None:
        self.k, self.b, self.workspace = k, k.b, workspace
        (self.axis,) = k.root["dimensions"]
        self.dims = k.root.operands[0].shape.dims
        self.size = self.dims[self.axis]
        self.is_copied = all(map(self._is_line, k.results)) and all(
            self._is_count(o) or self._is_stored(o) for o in k.root.operands
        )

    def emit(self) -> None:
        """Row by row, in parts."""
        extents = [1 if d == self.axis else size for d, size in enumerate(self.dims)]
        nbytes = sort_workspace_nbytes(self.k.spec, self.k.tactic)
        self.k.split_nest(extents, self._row, private_nbytes=nbytes)

    def _row(self, outer: Index) -> None:
        b, axis = self.b, self.axis
        rows, spare = self._rows_in_workspace()

        def full(x: IndexValue) -> Index:
            return (*outer[:axis], x, *outer[axis + 1 :])

        self._fill(rows, full)
        memory = b.byte_address(self.workspace, _rows_nbytes(self.k.spec))
        bases = call_row_sort(
            b,
            row_sort(self.k.spec, self.k.tactic),
            [row.base for row in rows],
            [row.base for row in spare],
            memory,
            b.const(I64, self.size),
            is_long=self.is_copied,
        )
        final = tuple(IrArray(base, row.shape) for base, row in zip(bases, rows, strict=True))
        self._write(final, full)

    def _rows_in_workspace(self) -> tuple[Rows, Rows]:
        made: list[IrArray] = []
        offset = 0
        shapes = _row_shapes(self.k.spec)
        for shape in shapes * 2:
            made.append(IrArray(self.b.byte_address(self.workspace, offset), shape))
            offset += _rounded(shape.nbytes)
        return tuple(made[: len(shapes)]), tuple(made[len(shapes) :])

    # Rows that are in memory as they are sorted

    def _is_line(self, held: IrArray) -> bool:
        """True if the elements of a row are neighbours."""
        return element_strides(held.shape)[self.axis] == 1 and prod(held.shape.dims) > 0

    def _is_stored(self, operand: HloInstruction) -> bool:
        held = self.k.e.arrays.get(operand, ())
        return len(held) == 1 and self._is_line(held[0])

    def _is_count(self, operand: HloInstruction) -> bool:
        """True for 0, 1, 2... along the row."""
        is_number = operand.shape.element_type in (S32, U32)
        return operand.opcode == "iota" and is_number and operand["iota_dimension"] == self.axis

    def _line(self, held: IrArray, full: Callable[[IndexValue], Index]) -> Value:
        """Address of the first element of a row."""
        at = self.k.e.at
        nbytes = held.shape.element_type.host_nbytes
        return self.b.byte_address(
            held.base, at.value(at.mul(held.offset(self.b, full(0)), nbytes))
        )

    def _fill(self, rows: Rows, full: Callable[[IndexValue], Index]) -> None:
        """Brings a row of each operand into the workspace."""
        k, operands = self.k, self.k.root.operands
        if not self.is_copied:
            with k.b.loop(0, self.size) as x, k.e.scope():
                for operand, row in zip(operands, rows, strict=True):
                    row.store(k.b, (x,), k.e.element(operand, full(x)))
            return
        for operand, row in zip(operands, rows, strict=True):
            if self._is_count(operand):
                _call_count(k.b, row.base, k.b.const(I64, self.size))
            else:
                source = self._line(k.e.arrays[operand][0], full)
                k.b.copy_bytes(row.base, source, row.shape.nbytes)

    def _write(self, final: Rows, full: Callable[[IndexValue], Index]) -> None:
        """Brings sorted rows into the results."""
        k = self.k
        if self.is_copied:
            for result, row in zip(k.results, final, strict=True):
                k.b.copy_bytes(self._line(result, full), row.base, row.shape.nbytes)
            return
        with k.b.loop(0, self.size) as x, k.e.scope():
            for result, row in zip(k.results, final, strict=True):
                result.store(k.b, full(x), row.load(k.b, (x,)))


def _call_count(b: FunctionBuilder, row: Value, size: Value) -> None:
    """Fills a row with 0, 1, 2..."""

    def emit(inner: FunctionBuilder, values: tuple[Value, ...]) -> None:
        with inner.loop(0, values[1]) as x:
            number = inner.resize(x, I32, signed=False)
            inner.store(number, inner.element_address(values[0], x, I32))

    b.call_microkernel("count.32", (row, size), emit, is_long=False)
