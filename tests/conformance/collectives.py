"""Collectives on two and four devices, device numbers, and asynchronous pairs.

All devices get the same arguments, so operands are mixed with the number of the device first: what
comes from the wrong one is seen. A platform with fewer devices does not offer the case.
"""

from collections.abc import Iterator
from typing import Any

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import ReplicaGroups
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.literal import Literal, literal_of
from xladev.hlo.shape import Shape, array, tuple_of
from xladev.testing.conformance.case import Case
from xladev.testing.conformance.cells import Node, Template, cells, combine

Dims = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


def own(b: HloBuilder, dtype: PrimitiveType, dims: Dims, number: str = "replica-id") -> Node:
    """A parameter with the number of the device added."""
    x = b.parameter(array(dtype, dims))
    mine = b.op("convert", b.op(number), shape=array(dtype))
    spread = b.op("broadcast", mine, shape=x.shape, dimensions=())
    return b.op("xor" if dtype is dt.PRED else "add", x, spread)


def groups(*rows: Dims) -> dict[str, Any]:
    return {"replica_groups": ReplicaGroups(rows)} if rows else {}


def grown(dims: Dims, axis: int, factor: int) -> Dims:
    return (*dims[:axis], dims[axis] * factor, *dims[axis + 1 :])


def all_gather(dims: Dims, axis: int, size: int, **attrs: Any) -> Template:
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        shape = array(dtype, grown(dims, axis, size))
        return b.op("all-gather", own(b, dtype, dims), shape=shape, dimensions=(axis,), **attrs)

    return template


def all_reduce(dims: Dims, opcode: str = "add", name: str = "all-reduce", **attrs: Any) -> Template:
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        body = combine("or" if dtype is dt.PRED else opcode, dtype)
        return b.op(name, own(b, dtype, dims), to_apply=body, **attrs)

    return template


def reduce_scatter(dims: Dims, axis: int, size: int, **attrs: Any) -> Template:
    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        body = combine("or" if dtype is dt.PRED else "add", dtype)
        x = own(b, dtype, grown(dims, axis, size))
        return b.op("reduce-scatter", x, shape=array(dtype, dims), dimensions=(axis,),
                    to_apply=body, **attrs)  # fmt: skip

    return template


def all_to_all(dims: Dims, axis: int | None, **attrs: Any) -> Template:
    """Of one array cut along a dimension, or of one array for each member."""

    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        x = own(b, dtype, dims)
        if axis is None:
            return b.op("all-to-all", x, own(b, dtype, dims), **attrs)
        return b.op("all-to-all", x, dimensions=(axis,), **attrs)

    return template


def simple(opcode: str, dims: Dims, **attrs: Any) -> Template:
    return lambda b, dtype: b.op(opcode, own(b, dtype, dims), **attrs)


def ragged_by(number: str, **attrs: Any) -> Template:
    """Each device keeps one row and sends two; where they are written depends on the sender."""

    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        x = own(b, dtype, (4, 3), number)
        into = b.parameter(array(dtype, (12, 3)))
        two = array(dt.S32, (2,))
        mine = b.op("convert", b.op(number), shape=array(dt.S32))
        at = b.op("broadcast", mine, shape=two, dimensions=())
        starts, sizes, steps = (
            b.op("constant", literal=_numbers(v), shape=two) for v in ((0, 2), (2, 2), (3, 3))
        )
        outputs = b.op("multiply", at, steps)
        return b.op("ragged-all-to-all", x, into, starts, sizes, outputs, sizes, **attrs)

    return template


def _numbers(values: tuple[int, ...]) -> Literal:
    return literal_of(list(values), dt.S32)


def shuffle(b: HloBuilder, dtype: PrimitiveType) -> Node:
    x = b.parameter(array(dtype, (5, 17)))
    return b.op("shuffle", x, dimensions=(1, 0), mode="rotate", shifts=(3, -2))


def number(opcode: str) -> Template:
    return lambda b, dtype: b.op("convert", b.op(opcode), shape=array(dtype))


def joined(start: str, shape: Shape | None = None, **attrs: Any) -> Template:
    """An asynchronous pair with work between its halves."""

    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        x = own(b, dtype, (9, 5))
        more = dict(attrs)
        if start == "all-gather-start":
            more["shape"] = tuple_of(array(dtype, (9, 5)), array(dtype, (18, 5)))
        if start == "all-reduce-start":
            more["to_apply"] = combine("or" if dtype is dt.PRED else "add", dtype)
        begun = b.op(start, x, **more)
        between = b.op("copy", x)
        done = b.op(start.replace("-start", "-done"), begun)
        return b.op("tuple", done, between)

    return template


def copied(b: HloBuilder, dtype: PrimitiveType) -> Node:
    begun = b.op("copy-start", b.parameter(array(dtype, (9, 5))))
    return b.op("copy-done", begun)


def wrapped(steps: int) -> Template:
    """A computation begun, perhaps continued, and finished."""

    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        part = array(dtype, (9, 5))
        inner = HloBuilder("wrapped")
        body = inner.build(inner.op("reverse", inner.parameter(part), dimensions=(0,)))
        made = b.op("async-start", b.parameter(part), shape=tuple_of(tuple_of(part), part),
                    calls=body)  # fmt: skip
        for _ in range(steps):
            made = b.op("async-update", made, calls=body)
        return b.op("async-done", made, calls=body)

    return template


COMMON = (dt.F32, dt.S32, dt.BF16)
RING: Pairs = ((0, 1), (1, 2), (2, 3), (3, 0))
TWO: dict[str, Any] = {"tier": 6, "replicas": 2}
FOUR: dict[str, Any] = {"tier": 6, "replicas": 4}
HALVES = groups((0, 2), (3, 1))
GLOBAL = {**HALVES, "channel_id": 1, "use_global_device_ids": True}


def types() -> Iterator[Case]:
    for opcode, made in (
        ("all-gather", all_gather((5, 3), 0, 2)),
        ("all-reduce", all_reduce((9, 5))),
        ("reduce-scatter", reduce_scatter((5, 3), 0, 2)),
        ("all-to-all", all_to_all((6, 3), 0)),
        ("collective-broadcast", simple("collective-broadcast", (9, 5), **groups((1, 0)))),
        ("collective-reduce", all_reduce((9, 5), "add", "collective-reduce", **groups((1, 0)))),
        ("collective-permute", simple("collective-permute", (9,), source_target_pairs=((0, 1),))),
        ("ragged-all-to-all", ragged_by("replica-id", **groups((0, 1)))),
        ("all-gather-start", joined("all-gather-start", dimensions=(0,))),
        ("all-gather-done", joined("all-gather-start", dimensions=(0,))),
        ("all-reduce-start", joined("all-reduce-start")),
        ("all-reduce-done", joined("all-reduce-start")),
        ("collective-permute-start",
         joined("collective-permute-start", source_target_pairs=((0, 1), (1, 0)))),
        ("collective-permute-done",
         joined("collective-permute-start", source_target_pairs=((1, 0),))),
    ):  # fmt: skip
        yield from cells(opcode, made, **TWO)


def forms() -> Iterator[Case]:
    for name, attrs in (("all", {}), ("halves", HALVES), ("global-ids", GLOBAL)):
        size = 4 if name == "all" else 2
        yield from cells("all-reduce", all_reduce((17,), **attrs), types=COMMON,
                         suffix=f"-{name}", **FOUR)  # fmt: skip
        yield from cells("all-gather", all_gather((3, 5), 1, size, **attrs), types=COMMON,
                         suffix=f"-{name}", **FOUR)  # fmt: skip
        yield from cells("reduce-scatter", reduce_scatter((3, 5), 1, size, **attrs), types=COMMON,
                         suffix=f"-{name}", **FOUR)  # fmt: skip
    for opcode in ("multiply", "maximum", "minimum"):
        yield from cells("all-reduce", all_reduce((17,), opcode), types=(dt.F32, dt.S32),
                         suffix=f"-by-{opcode}", **FOUR)  # fmt: skip
    yield from cells("all-to-all", all_to_all((3, 8), 1), types=COMMON, suffix="-minor", **FOUR)
    yield from cells("all-to-all", all_to_all((3, 5), None, **groups((1, 0))), types=COMMON,
                     suffix="-tuple", **TWO)  # fmt: skip
    yield from cells("collective-permute", simple("collective-permute", (3, 5),
                     source_target_pairs=RING), types=COMMON, suffix="-ring", **FOUR)  # fmt: skip
    yield from cells("collective-permute", simple("collective-permute", (3, 5),
                     source_target_pairs=()), types=COMMON, suffix="-nobody", **TWO)  # fmt: skip
    for dims in ((), (0, 3), (1,)):
        name = "x".join(map(str, dims)) or "scalar"
        yield from cells("all-reduce", all_reduce(dims), types=(dt.F32,), suffix=f"-{name}", **TWO)


def ragged_forms() -> Iterator[Case]:
    """Groups of another order, and of partitions instead of replicas."""
    opcode, few = "ragged-all-to-all", (dt.F32, dt.S32)
    turned = ragged_by("replica-id", constrain_layout=True, **groups((1, 0)))
    yield from cells(opcode, turned, types=few, suffix="-turned", **TWO)
    halves = ragged_by("replica-id", **groups((0, 2), (3, 1)))
    yield from cells(opcode, halves, types=few, suffix="-halves", **FOUR)
    split = ragged_by("partition-id", channel_id=1, **groups((0, 1)))
    yield from cells(opcode, split, types=few, suffix="-partitions", tier=6, partitions=2)


def begun_slices(b: HloBuilder, dtype: PrimitiveType) -> Node:
    """Two rows of each device are written into the other's array."""
    x, into = own(b, dtype, (5,)), b.parameter(array(dtype, (4,)))
    starts = [b.op("tuple", b.op("constant", literal=literal_of(n, dt.S32), shape=array(dt.S32)))
              for n in (3, 1)]  # fmt: skip
    made = b.op("collective-permute-start", x, into, *starts, slice_sizes=((2,),),
                source_target_pairs=((0, 1), (1, 0)))  # fmt: skip
    return b.op("collective-permute-done", made)


def numbers(b: HloBuilder) -> Node:
    """Replica and partition of each of four devices."""
    return b.op("tuple", b.op("replica-id"), b.op("partition-id"))


def across_partitions(b: HloBuilder) -> Node:
    x = own(b, dt.F32, (9,), "partition-id")
    attrs = {**groups((0, 1), (2, 3)), "channel_id": 1, "use_global_device_ids": True}
    return b.op("all-reduce", x, to_apply=combine("add", dt.F32), **attrs)


def beside_kernels(size: int) -> Template:
    """A chain of steps, each of which is summed and joined, and a move that waits for none."""

    def template(b: HloBuilder, dtype: PrimitiveType) -> Node:
        x = made = own(b, dtype, (8, 8))
        moved = b.op("collective-permute", x, source_target_pairs=((size - 1, 0), (0, 1)))
        given = []
        for _ in range(3):
            made = b.op("maximum", b.op("transpose", made, dimensions=(1, 0)), x)
            joined_rows = array(dtype, (8 * size, 8))
            given.append(b.op("all-reduce", made, to_apply=combine("add", dtype)))
            given.append(b.op("all-gather", made, shape=joined_rows, dimensions=(0,)))
        return b.op("tuple", *(b.op("minimum", g, g) for g in given), moved)

    return template


CASES = (
    *types(),
    *forms(),
    *ragged_forms(),
    *cells("all-reduce", beside_kernels(2), types=COMMON, suffix="-beside-kernels", **TWO),
    *cells("all-reduce", beside_kernels(4), types=COMMON, suffix="-beside-kernels-of-four", **FOUR),
    *cells("collective-permute-start", begun_slices, types=(dt.F32, dt.S32), suffix="-slices",
           **TWO),
    *cells("shuffle", shuffle),
    *cells("replica-id", number("replica-id"), types=(dt.U32,), **TWO),
    *cells("partition-id", number("partition-id"), types=(dt.U32,), tier=6, partitions=2),
    Case("device-numbers", numbers, "replica-id", "u32", tier=6, replicas=2, partitions=2),
    Case("all-reduce-partitions", across_partitions, "all-reduce", "f32", tier=6, replicas=2,
         partitions=2),
    *cells("copy-start", copied),
    *cells("copy-done", copied),
    *cells("async-start", wrapped(0)),
    *cells("async-update", wrapped(2)),
    *cells("async-done", wrapped(1)),
)  # fmt: skip
