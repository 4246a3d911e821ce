"""dot, ragged-dot and scaled-dot: all forms of dimension numbers, types, precisions.

Sizes are no multiples of 16, so that the last tile of a matrix unit is partial. Sums of products
are held to the sum of their absolute terms.
"""

from collections.abc import Iterator
from typing import Any

from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.shape import Layout, array
from xladev.testing.conformance.case import Case, special
from xladev.testing.conformance.cells import Node, Template, cells

Dims = tuple[int, ...]


def dot(
    lhs: Dims, rhs: Dims, contract: tuple[Dims, Dims], batch: tuple[Dims, Dims] = ((), ()),
    result: PrimitiveType | None = None, layouts: tuple[Dims, Dims] | None = None, **attrs: Any,
) -> Template:  # fmt: skip
    """Contracting and batch dimensions of the left and the right operand."""

    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        orders = layouts or ((), ())
        operands = [
            b.parameter(array(dtype, dims, layout=Layout(order) if order else None))
            for dims, order in zip((lhs, rhs), orders, strict=True)
        ]
        numbers: dict[str, Any] = {
            "lhs_contracting_dims": contract[0], "rhs_contracting_dims": contract[1],
            "lhs_batch_dims": batch[0], "rhs_batch_dims": batch[1],
        }  # fmt: skip
        made = HloBuilder("shape").op("dot", *operands, **numbers)
        shape = array(result or dtype, made.shape.dims)
        return b.op("dot", *operands, shape=shape, **numbers, **attrs)

    return template


MATMUL = dot((17, 33), (33, 20), ((1,), (0,)))
FORMS: dict[str, Template] = {
    "tiles": dot((16, 16), (16, 16), ((1,), (0,))),
    "several-tiles": dot((48, 65), (65, 33), ((1,), (0,))),
    "transposed-lhs": dot((33, 17), (33, 20), ((0,), (0,))),
    "transposed-rhs": dot((17, 33), (20, 33), ((1,), (1,))),
    "transposed-both": dot((33, 17), (20, 33), ((0,), (1,))),
    "vectors": dot((1025,), (1025,), ((0,), (0,))),
    "outer": dot((17,), (20,), ((), ())),
    "matrix-vector": dot((33, 65), (65,), ((1,), (0,))),
    "vector-matrix": dot((65,), (65, 33), ((0,), (0,))),
    "batch": dot((3, 17, 33), (3, 33, 20), ((2,), (1,)), ((0,), (0,))),
    "two-batches": dot((2, 3, 5, 17), (2, 3, 17, 4), ((3,), (2,)), ((0, 1), (0, 1))),
    "batch-last": dot((17, 33, 3), (33, 20, 3), ((1,), (0,)), ((2,), (2,))),
    "batch-differs": dot((5, 3, 17), (17, 3, 4), ((2,), (0,)), ((1,), (1,))),
    "two-contracted": dot((5, 7, 9), (7, 9, 4), ((1, 2), (0, 1))),
    "contracted-swapped": dot((5, 7, 9), (9, 7, 4), ((1, 2), (1, 0))),
    "all-contracted": dot((5, 7), (5, 7), ((0, 1), (0, 1))),
    "batch-only": dot((5, 7), (5, 7), ((), ()), ((0, 1), (0, 1))),
    "nothing": dot((3, 4), (5, 2), ((), ())),
    "scalars": dot((), (), ((), ())),
    "scalar-matrix": dot((), (5, 7), ((), ())),
    "one": dot((1, 1), (1, 1), ((1,), (0,))),
    "row-column": dot((1, 129), (129, 1), ((1,), (0,))),
    "empty-contracted": dot((5, 0), (0, 7), ((1,), (0,))),
    "empty-result": dot((0, 5), (5, 7), ((1,), (0,))),
    "attention": dot((2, 5, 3, 8), (2, 7, 3, 8), ((3,), (3,)), ((0, 2), (0, 2))),
    "rank6": dot((2, 3, 2, 1, 2, 5), (2, 3, 5, 2), ((4, 5), (3, 2)), ((0, 1), (0, 1))),
    "long": dot((3, 4099), (4099, 5), ((1,), (0,))),
    "layout-01": dot((17, 33), (33, 20), ((1,), (0,)), layouts=((0, 1), (1, 0))),
    "layout-both-01": dot((17, 33), (33, 20), ((1,), (0,)), layouts=((0, 1), (0, 1))),
    "layout-batch": dot((3, 17, 9), (3, 9, 5), ((2,), (1,)), ((0,), (0,)),
                        layouts=((0, 2, 1), (1, 2, 0))),
    "highest": dot((17, 33), (33, 20), ((1,), (0,)), operand_precision=("highest", "highest")),
    "high": dot((17, 33), (33, 20), ((1,), (0,)), operand_precision=("high", "default")),
}  # fmt: skip
WIDER: dict[PrimitiveType, tuple[PrimitiveType, ...]] = {
    dt.F32: (dt.BF16, dt.F16, dt.F8E4M3FN, dt.F8E5M2, dt.F8E4M3FNUZ, dt.F8E5M2FNUZ),
    dt.S32: (dt.S4, dt.S8, dt.U4, dt.U8, dt.S16),
    dt.BF16: (dt.F8E4M3FN, dt.F8E5M2),
    dt.F64: (dt.F32,),
}


def mixed(first: PrimitiveType, second: PrimitiveType, result: PrimitiveType) -> Case:
    def build(b: HloBuilder) -> Node:
        x, y = b.parameter(array(first, (17, 33))), b.parameter(array(second, (33, 20)))
        return b.op("dot", x, y, shape=array(result, (17, 20)), lhs_contracting_dims=(1,),
                    rhs_contracting_dims=(0,))  # fmt: skip

    return Case(f"dot-{first}-{second}-{result}", build, "dot", first.name, ("lowprec",))


def dots() -> Iterator[Case]:
    yield from cells("dot", MATMUL)
    yield from cells("dot", MATMUL, types=(dt.F32, dt.F64), suffix="-special", inputs=special)
    for name, form in FORMS.items():
        yield from cells("dot", form, types=(dt.F32, dt.BF16, dt.S32), suffix=f"-{name}")
    for result, types in WIDER.items():
        made = dot((17, 33), (33, 20), ((1,), (0,)), result=result)
        yield from cells("dot", made, types=types, suffix=f"-to-{result}", tags=("lowprec",))
    for pair in ((dt.F8E4M3FN, dt.F8E5M2), (dt.BF16, dt.F32), (dt.S8, dt.U8)):
        yield mixed(*pair, dt.S32 if pair[0].is_integral else dt.F32)


def ragged(lhs: Dims, rhs: Dims, groups: Dims, **numbers: Any) -> Template:
    """Sizes of groups are clamped to the ragged dimension, so that any input is legal."""

    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        x, y = b.parameter(array(dtype, lhs)), b.parameter(array(dtype, rhs))
        sizes = b.parameter(array(dt.S32, groups))
        least, most = b.constant(0, dt.S32), b.constant(4, dt.S32)
        clamped = b.op("clamp", least, sizes, most)
        return b.op("ragged-dot", x, y, clamped, **numbers)

    return template


RAGGED = {
    "rows": ragged((11, 5), (3, 5, 4), (3,), lhs_contracting_dims=(1,), rhs_contracting_dims=(1,),
                   lhs_ragged_dims=(0,), rhs_group_dims=(0,)),
    "terms": ragged((5, 11), (11, 4), (3,), lhs_contracting_dims=(1,), rhs_contracting_dims=(0,),
                    lhs_ragged_dims=(1,)),
    "batches": ragged((6, 5, 3), (6, 3, 4), (2,), lhs_contracting_dims=(2,),
                      rhs_contracting_dims=(1,), lhs_batch_dims=(0,), rhs_batch_dims=(0,),
                      lhs_ragged_dims=(0,)),
}  # fmt: skip


def scaled(width: int, scale: PrimitiveType, result: PrimitiveType) -> Template:
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        x, y = b.parameter(array(dtype, (7, 3 * width))), b.parameter(array(dtype, (3 * width, 5)))
        scales = b.parameter(array(scale, (7, 3))), b.parameter(array(scale, (3, 5)))
        return b.op("scaled-dot", x, y, *scales, shape=array(result, (7, 5)),
                    lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))  # fmt: skip

    return template


SCALED = {
    "bf16-scale": scaled(4, dt.BF16, dt.F32),
    "to-bf16": scaled(8, dt.F8E8M0FNU, dt.BF16),
    "one-each": scaled(1, dt.F32, dt.F32),
}
NARROW = (dt.F8E4M3FN, dt.F8E5M2, dt.BF16, dt.F4E2M1FN)

CASES = (
    *dots(),
    *cells("ragged-dot", RAGGED["rows"]),
    *(
        c
        for n, r in RAGGED.items()
        for c in cells("ragged-dot", r, types=(dt.F32, dt.BF16), suffix=f"-{n}")
    ),
    *cells("scaled-dot", scaled(4, dt.F8E8M0FNU, dt.F32), tags=("lowprec",)),
    *(
        c
        for n, s in SCALED.items()
        for c in cells("scaled-dot", s, types=NARROW, suffix=f"-{n}", tags=("lowprec",))
    ),
)
