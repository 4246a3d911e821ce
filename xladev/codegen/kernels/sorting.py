"""Sort of each row, stable: by the bytes of a key, or merging bottom-up with any comparator."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.codegen.arrays import IrArray
from xladev.codegen.elemental.choose import choose
from xladev.codegen.elemental.computation import Elements, emit_computation
from xladev.codegen.index import Index
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.kernels.build import KernelBuild
from xladev.codegen.kernels.radix_sort import is_by_radix, radix_passes
from xladev.codegen.kernels.sort_keys import SortKey, sort_key
from xladev.codegen.kernels.sorting_network import (
    is_by_network,
    network_nbytes,
    sort_in_network,
    write_keys,
)
from xladev.codegen.llvm import I1, I64, Value
from xladev.codegen.scalar.elements import real_of
from xladev.errors import CompileError
from xladev.hlo.shape import Shape, array

Rows = tuple[IrArray, ...]

_ALIGNMENT = 64


def _row_shapes(spec: KernelSpec) -> list[Shape]:
    """One row of each operand of the sort."""
    root = spec.computation.root
    (axis,) = root["dimensions"]
    return [array(o.shape.element_type, (o.shape.dims[axis],)) for o in root.operands]


def _rounded(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def _network_key(spec: KernelSpec) -> SortKey | None:
    """The key of rows that a network sorts."""
    key, rows = sort_key(spec.computation.root["to_apply"]), _row_shapes(spec)
    dtypes = [row.element_type for row in rows]
    fits = key is not None and is_by_network(key, dtypes, rows[0].size)
    return key if fits else None


def _rows_nbytes(spec: KernelSpec) -> int:
    return 2 * sum(_rounded(row.nbytes) for row in _row_shapes(spec))


def sort_workspace_nbytes(spec: KernelSpec) -> int:
    """Two rows of each operand: what is sorted, and where it is moved to; and a network's row."""
    (row, *_) = _row_shapes(spec)
    network = 0 if _network_key(spec) is None else network_nbytes(row.size)
    return _rows_nbytes(spec) + network


def emit_sort(k: KernelBuild) -> None:
    """Sorts along one dimension; all operands move together."""
    workspace = k.workspace
    if workspace is None:
        raise CompileError("a sort kernel has no workspace", where=k.spec.name)
    i = k.root
    (axis,) = i["dimensions"]
    dims = i.operands[0].shape.dims

    def per_row(outer: Index) -> None:
        rows, spare = _rows_in_workspace(k, workspace)

        def full(x: Value) -> Index:
            return (*outer[:axis], x, *outer[axis + 1 :])

        with k.b.loop(0, dims[axis]) as x, k.e.scope():
            for operand, row in zip(i.operands, rows, strict=True):
                row.store(k.b, (x,), k.e.element(operand, full(x)))
        final = _sorted(k, workspace, rows, spare)
        with k.b.loop(0, dims[axis]) as x, k.e.scope():
            for result, row in zip(k.results, final, strict=True):
                result.store(k.b, full(x), row.load(k.b, (x,)))

    extents = [1 if d == axis else size for d, size in enumerate(dims)]
    k.split_nest(extents, per_row, private_nbytes=sort_workspace_nbytes(k.spec))


def _sorted(k: KernelBuild, workspace: Value, rows: Rows, spare: Rows) -> Rows:
    """Where the elements of a row are in order."""
    key = _network_key(k.spec)
    if key is None:
        return _moved_in_order(k, rows, spare)
    memory = k.b.byte_address(workspace, _rows_nbytes(k.spec))

    def in_network() -> Sequence[Value]:
        sort_in_network(k.b, key, rows[0], memory)
        return [rows[0].base]

    def otherwise() -> Sequence[Value]:
        with k.e.scope():
            return [row.base for row in _moved_in_order(k, rows, spare)]

    return _moved(rows, k.b.branch(write_keys(k, key, rows[0], memory), in_network, otherwise))


def _moved_in_order(k: KernelBuild, rows: Rows, spare: Rows) -> Rows:
    """Moves elements from one set of rows to the other until they are in order."""
    key, size = sort_key(k.root["to_apply"]), rows[0].shape.size
    if key is not None and is_by_radix(key, size):
        return radix_passes(k, key, rows, spare, size)
    return _merge_passes(k, rows, spare, size)


def _rows_in_workspace(
    k: KernelBuild, workspace: Value
) -> tuple[tuple[IrArray, ...], tuple[IrArray, ...]]:
    made: list[IrArray] = []
    offset = 0
    shapes = _row_shapes(k.spec)
    for shape in shapes * 2:
        made.append(IrArray(k.b.byte_address(workspace, offset), shape))
        offset += _rounded(shape.nbytes)
    return tuple(made[: len(shapes)]), tuple(made[len(shapes) :])


def _moved(rows: Rows, bases: Sequence[Value]) -> Rows:
    return tuple(IrArray(base, row.shape) for base, row in zip(bases, rows, strict=True))


def _merge_passes(k: KernelBuild, rows: Rows, spare: Rows, size: int) -> Rows:
    """Merges runs of 1, 2, 4... elements from one set of rows to the other; where they end."""
    count = len(rows)
    initial = (k.b.const(I64, 1), *(r.base for r in rows), *(r.base for r in spare))

    def condition(values: Sequence[Value]) -> Value:
        return k.b.icmp("slt", values[0], size)

    def body(values: Sequence[Value]) -> Sequence[Value]:
        width, source, target = values[0], values[1 : 1 + count], values[1 + count :]
        _merge_all(k, width, _moved(rows, source), _moved(spare, target), size)
        return (k.b.shl(width, 1), *target, *source)

    final = k.b.while_loop(initial, condition, body)
    return _moved(rows, final[1 : 1 + count])


def _merge_all(k: KernelBuild, width: Value, source: Rows, target: Rows, size: int) -> None:
    def condition(values: Sequence[Value]) -> Value:
        return k.b.icmp("slt", values[0], size)

    def body(values: Sequence[Value]) -> Sequence[Value]:
        left = values[0]
        middle = k.b.intrinsic("smin", k.b.add(left, width), size)
        right = k.b.intrinsic("smin", k.b.add(middle, width), size)
        _merge(k, source, target, left, middle, right)
        return (right,)

    with k.e.scope():
        k.b.while_loop((k.b.const(I64, 0),), condition, body)


def _merge(
    k: KernelBuild, source: Rows, target: Rows, left: Value, middle: Value, right: Value
) -> None:
    """Merges two sorted runs; equal elements of the left run come first."""
    with k.b.carried_loop(left, right, initial=(left, middle)) as loop, k.e.scope():
        i, j = loop.values
        second = choose(
            k.e,
            k.b.icmp("sge", j, right),
            lambda: k.b.const(I1, 0),
            lambda: choose(
                k.e,
                k.b.icmp("sge", i, middle),
                lambda: k.b.const(I1, 1),
                lambda: _precedes(k, source, j, i),
            ),
        )
        from_second = real_of(second, "a comparison")
        taken = k.b.select(from_second, j, i)
        for s, t in zip(source, target, strict=True):
            t.store(k.b, (loop.index,), s.load(k.b, (taken,)))
        loop.carry(
            k.b.select(from_second, i, k.b.add(i, 1)), k.b.select(from_second, k.b.add(j, 1), j)
        )


def _precedes(k: KernelBuild, rows: Rows, first: Value, second: Value) -> Value:
    """Whether the element at ``first`` must come before the one at ``second``."""
    arguments: Elements = tuple(row.load(k.b, (at,)) for row in rows for at in (first, second))
    (before,) = emit_computation(k.e, k.root["to_apply"], arguments)
    return real_of(before, "a comparison")
