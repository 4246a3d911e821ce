"""Attributes that no other family varies: accuracy, algorithms, layouts, aliasing, threads.

Most of them promise or ask for something that changes no result; what must not happen is that a
backend stumbles over them.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import OutputAlias, ReplicaGroups, ResultAccuracy
from xladev.hlo.builder import HloBuilder
from xladev.hlo.opset import OPSET
from xladev.hlo.shape import array, tuple_of
from xladev.testing.conformance.case import Build, Case, given
from xladev.testing.conformance.cells import Node, combine, elementwise, of_type
from xladev.testing.conformance.windows import convolution, features_last

Dims = tuple[int, ...]
FUNCTIONS = tuple(n for n, op in OPSET.items() if "result_accuracy" in op.by_name)


def accuracies() -> Iterator[Case]:
    for opcode in FUNCTIONS:
        made = elementwise(opcode, 1, (9, 17), result_accuracy=ResultAccuracy(mode="highest"))
        yield Case(f"{opcode}-highest-accuracy", of_type(made, dt.F32), opcode, "f32",
                   ("attributes",))  # fmt: skip


def f32(b: HloBuilder, *dims: int) -> Node:
    return b.parameter(array(dt.F32, dims))


def dot_by(algorithm: str) -> Build:
    return lambda b: b.op("dot", f32(b, 9, 17), f32(b, 17, 5), lhs_contracting_dims=(1,),
                          rhs_contracting_dims=(0,), algorithm=algorithm)  # fmt: skip


def convolution_with(**attrs: Any) -> Build:
    def build(b: HloBuilder) -> Node:
        x, kernel = f32(b, 2, 5, 6, 3), f32(b, 3, 2, 3, 4)
        made = convolution(HloBuilder("shape"), x, kernel, features_last(2))
        given_attrs = {k: made[k] for k in ("window", "dim_labels")}
        return b.op("convolution", x, kernel, **given_attrs, **attrs)

    return build


def ragged_with(**attrs: Any) -> Build:
    def build(b: HloBuilder) -> Node:
        sizes = b.constant(np.array([2, 4, 5], np.int32))
        return b.op("ragged-dot", f32(b, 11, 5), f32(b, 3, 5, 4), sizes, lhs_contracting_dims=(1,),
                    rhs_contracting_dims=(1,), lhs_ragged_dims=(0,), rhs_group_dims=(0,),
                    **attrs)  # fmt: skip

    return build


def scaled_with(**attrs: Any) -> Build:
    def build(b: HloBuilder) -> Node:
        x, y = (b.parameter(array(dt.BF16, d)) for d in ((2, 7, 12), (2, 5, 12)))
        scales = (b.parameter(array(dt.BF16, d)) for d in ((2, 7, 3), (2, 5, 3)))
        return b.op("scaled-dot", x, y, *scales, shape=array(dt.F32, (2, 7, 5)),
                    lhs_batch_dims=(0,), rhs_batch_dims=(0,), lhs_contracting_dims=(2,),
                    rhs_contracting_dims=(2,), **attrs)  # fmt: skip

    return build


BEST: dict[str, Any] = {"operand_precision": ("highest", "highest")}
EXACT: dict[str, Any] = {"algorithm": "dot_f32_f32_f32"}
PRODUCTS: dict[str, tuple[str, Build]] = {
    "dot-f32-algorithm": ("dot", dot_by("dot_f32_f32_f32")),
    "dot-f32-any-algorithm": ("dot", dot_by("dot_unset")),
    "convolution-algorithm": ("convolution", convolution_with(**EXACT)),
    "convolution-fprop": ("convolution", convolution_with(convolution_kind="fprop")),
    "ragged-dot-highest": ("ragged-dot", ragged_with(**BEST)),
    "ragged-dot-algorithm": ("ragged-dot", ragged_with(**EXACT)),
    "scaled-dot-batch": ("scaled-dot", scaled_with()),
    "scaled-dot-highest": ("scaled-dot", scaled_with(operand_precision=("highest",) * 4)),
    "scaled-dot-algorithm": ("scaled-dot", scaled_with(**EXACT)),
}


def two_carries(b: HloBuilder) -> Node:
    """Running sum and running maximum."""
    part, inner = array(dt.F32, (3,)), HloBuilder("scanned")
    x, total, most = (inner.parameter(part) for _ in range(3))
    total, most = inner.op("add", total, x), inner.op("maximum", most, x)
    body = inner.build(inner.op("tuple", inner.op("subtract", most, total), total, most))
    return b.op("scan", f32(b, 9, 3), f32(b, 3), f32(b, 3), dimensions=(0,), num_carries=2,
                to_apply=body)  # fmt: skip


def inferred(b: HloBuilder) -> Node:
    """A dynamic dimension goes into the one that is inferred."""
    x = b.parameter(array(dt.F32, (9, 4), dynamic=(True, False)))
    return b.op("reshape", x, shape=array(dt.F32, (36,), dynamic=(True,)), inferred_dimension=0)


def body_of(opcode: str) -> Any:
    inner = HloBuilder("inner")
    return inner.build(inner.op(opcode, inner.parameter(array(dt.F32, (9, 17)))))


def composite(b: HloBuilder) -> Node:
    return b.op("call", f32(b, 9, 17), to_apply=body_of("negate"), is_composite=True)


def unstable(b: HloBuilder) -> Node:
    return b.op("topk", f32(b, 33), k=5, largest=True, is_stable=False)


IN_PLACE = "output_to_operand_aliasing={{}: (0, {})}"
TEXT = {
    "call-in-place": ("call", f"r = f32[9] call(n), to_apply=inner, {IN_PLACE}"),
    "fusion-in-place": ("fusion", f"r = f32[9] fusion(n), kind=kLoop, calls=inner, {IN_PLACE}"),
    "custom-call-layouts": (
        "custom-call",
        'r = f32[9] custom-call(n), custom_call_target="Sharding", '
        "operand_layout_constraints={f32[9]{0}}",
    ),
    "custom-call-side-effect": (
        "custom-call",
        'r = f32[9] custom-call(n), custom_call_target="Sharding", '
        "custom_call_has_side_effect=true",
    ),
    "custom-call-api": (
        "custom-call",
        'r = f32[9] custom-call(n), custom_call_target="Sharding", '
        "api_version=API_VERSION_STATUS_RETURNING",
    ),
}  # fmt: skip


def module(instruction: str) -> str:
    return f"""HloModule m
inner {{ p = f32[9] parameter(0)
  ROOT q = f32[9] exponential(p) }}
ENTRY e {{ x = f32[9] parameter(0)
  n = f32[9] negate(x)
  ROOT {instruction} }}"""


def own(b: HloBuilder, number: str, *dims: int) -> Node:
    x = f32(b, *dims)
    mine = b.op("convert", b.op(number), shape=array(dt.F32))
    return b.op("add", x, b.op("broadcast", mine, shape=x.shape, dimensions=()))


def collective(opcode: str, number: str = "replica-id", **attrs: Any) -> Build:
    def build(b: HloBuilder) -> Node:
        more = dict(attrs)
        if "to_apply" in OPSET[opcode].by_name:
            more["to_apply"] = combine("add", dt.F32)
        return b.op(opcode, own(b, number, 4, 6), **more)

    return build


PAIR: dict[str, Any] = {"replica_groups": ReplicaGroups(((1, 0),))}
LAYOUT: dict[str, Any] = {"constrain_layout": True}
CHANNEL: dict[str, Any] = {"channel_id": 1}
SHARED: dict[str, Any] = {"use_global_device_ids": True, "channel_id": 1}
ROWS: dict[str, Any] = {"dimensions": (0,)}
DONE = {"all-gather-start": "all-gather-done", "all-reduce-start": "all-reduce-done",
        "collective-permute-start": "collective-permute-done"}  # fmt: skip


def begun(opcode: str, number: str = "replica-id", **attrs: Any) -> Build:
    def build(b: HloBuilder) -> Node:
        more = dict(attrs)
        if opcode == "all-gather-start":
            axis = more["dimensions"][0]
            dims = (8, 6) if axis == 0 else (4, 12)
            more["shape"] = tuple_of(array(dt.F32, (4, 6)), array(dt.F32, dims))
        return b.op(DONE[opcode], collective(opcode, number, **more)(b))

    return build


def gathered(**attrs: Any) -> Build:
    return lambda b: b.op("all-gather", own(b, "replica-id", 4, 6), shape=array(dt.F32, (8, 6)),
                          dimensions=(0,), **attrs)  # fmt: skip


def scattered(**attrs: Any) -> Build:
    return lambda b: b.op("reduce-scatter", own(b, "replica-id", 4, 6), shape=array(dt.F32, (2, 6)),
                          dimensions=(0,), to_apply=combine("add", dt.F32), **attrs)  # fmt: skip


REPLICAS: dict[str, tuple[str, Build]] = {
    "all-gather-layout": ("all-gather", gathered(**LAYOUT)),
    "reduce-scatter-layout": ("reduce-scatter", scattered(**LAYOUT)),
    "all-reduce-layout": ("all-reduce", collective("all-reduce", **LAYOUT)),
    "all-to-all-layout": ("all-to-all", collective("all-to-all", **LAYOUT, **ROWS)),
    "collective-broadcast-layout": (
        "collective-broadcast", collective("collective-broadcast", **PAIR, **LAYOUT)
    ),
    "collective-reduce-global": (
        "collective-reduce", collective("collective-reduce", **PAIR, **SHARED)
    ),
    "collective-reduce-layout": (
        "collective-reduce", collective("collective-reduce", **PAIR, **LAYOUT)
    ),
    "all-gather-start-minor": ("all-gather-start", begun("all-gather-start", dimensions=(1,))),
    "all-gather-start-groups": (
        "all-gather-start", begun("all-gather-start", dimensions=(0,), **PAIR, **SHARED, **LAYOUT)
    ),
    "all-reduce-start-groups": (
        "all-reduce-start", begun("all-reduce-start", **PAIR, **SHARED, **LAYOUT)
    ),
}  # fmt: skip
PARTITIONS: dict[str, tuple[str, Build]] = {
    "all-to-all-channel": (
        "all-to-all",
        collective("all-to-all", "partition-id", **CHANNEL, **ROWS),
    ),
    "collective-broadcast-channel": (
        "collective-broadcast",
        collective("collective-broadcast", "partition-id", **CHANNEL, **PAIR),
    ),
    "collective-permute-channel": (
        "collective-permute",
        collective("collective-permute", "partition-id", source_target_pairs=((0, 1),), **CHANNEL),
    ),
    "collective-permute-start-channel": (
        "collective-permute-start",
        begun("collective-permute-start", "partition-id", source_target_pairs=((1, 0),), **CHANNEL),
    ),
}


def permuted_slices(b: HloBuilder) -> Node:
    """Two rows of one device are written into another device's array."""
    x, into = own(b, "replica-id", 4), f32(b, 4)
    source, target = (b.op("tuple", b.constant(n, dt.S32)) for n in (1, 2))
    return b.op("collective-permute", x, into, source, target, source_target_pairs=((0, 1),),
                slice_sizes=((2,),))  # fmt: skip


def rooted(opcode: str) -> Build:
    def build(b: HloBuilder) -> Node:
        root = b.constant(np.array([1], np.int32))
        summed: dict[str, Any] = {"to_apply": combine("add", dt.F32)}
        more = summed if opcode == "collective-reduce" else {}
        return b.op(opcode, own(b, "replica-id", 4, 6), root, has_dynamic_root=True,
                    replica_groups=ReplicaGroups(((0, 1),)), **more)  # fmt: skip

    return build


def begun_call(start: dict[str, Any], update: dict[str, Any], thread: str = "") -> Build:
    """An asynchronous call in three steps, of an array that nothing else reads."""

    def build(b: HloBuilder) -> Node:
        part, thread_attr = array(dt.F32, (9, 17)), {"async_execution_thread": thread}
        more = {"calls": body_of("exponential"), **(thread_attr if thread else {})}
        x = b.op("negate", b.parameter(part))
        shape = tuple_of(tuple_of(part), part)
        made = b.op("async-start", x, shape=shape, **more, **start)
        return b.op("async-done", b.op("async-update", made, **more, **update), **more)

    return build


def aliased(operand: tuple[int, ...]) -> dict[str, Any]:
    """The result is where an operand does, or a part of it."""
    return {"output_to_operand_aliasing": (OutputAlias((1,), 0, operand),)}


def shuffled(dimensions: Dims, shifts: Dims) -> Build:
    return lambda b: b.op("shuffle", f32(b, 5, 9), dimensions=dimensions, mode="rotate",
                          shifts=shifts)  # fmt: skip


def last_size(b: HloBuilder) -> Node:
    x = b.parameter(array(dt.F32, (4, 9), dynamic=(False, True)))
    return b.op("get-dimension-size", x, dimensions=(1,))


def last_cut(b: HloBuilder) -> Node:
    return b.op("set-dimension-size", f32(b, 4, 9), b.constant(5, dt.S32), dimensions=(1,))


OTHERS: dict[str, tuple[str, Build]] = {
    **PRODUCTS,
    "scan-two-carries": ("scan", two_carries),
    "reshape-inferred": ("reshape", inferred),
    "call-composite": ("call", composite),
    "async-start-thread": ("async-start", begun_call({}, {}, "parallel")),
    "async-start-in-place": ("async-start", begun_call(aliased(()), {})),
    "async-update-in-place": ("async-update", begun_call({}, aliased((1,)))),
    "shuffle-one": ("shuffle", shuffled((1,), (2,))),
    "shuffle-backwards": ("shuffle", shuffled((0,), (-3,))),
    "get-dimension-size-last": ("get-dimension-size", last_size),
    "set-dimension-size-last": ("set-dimension-size", last_cut),
}
DISTINCT = np.random.default_rng(3).permutation(33).astype(np.float32)
TAGS = ("attributes",)

CASES = (
    *accuracies(),
    *(Case(n, p, opcode, "f32", TAGS) for n, (opcode, p) in OTHERS.items()),
    *(Case(n, module(text), opcode, "f32", TAGS) for n, (opcode, text) in TEXT.items()),
    Case("topk-unstable", unstable, "topk", "f32", TAGS, inputs=given([DISTINCT])),
    *(Case(n, p, o, "f32", TAGS, tier=6, replicas=2) for n, (o, p) in REPLICAS.items()),
    *(Case(n, p, o, "f32", TAGS, tier=6, partitions=2) for n, (o, p) in PARTITIONS.items()),
    Case("collective-permute-slices", permuted_slices, "collective-permute", "f32", TAGS, tier=6,
         replicas=2),
    *(
        Case(f"{o}-dynamic-root", rooted(o), o, "f32", TAGS, tier=6, replicas=2)
        for o in ("collective-broadcast", "collective-reduce")
    ),
)  # fmt: skip
