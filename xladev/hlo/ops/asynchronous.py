"""Asynchronous pairs; run synchronously by default."""

from __future__ import annotations

from xladev.hlo.opdef import VARIADIC, Attr, AttrKind, OpDef
from xladev.hlo.ops.collective import GATHER, PERMUTE, REDUCE

ASYNC = (
    Attr("async_execution_thread", AttrKind.STRING, default=""),
    Attr("calls", AttrKind.COMPUTATION),
    Attr(
        "output_to_operand_aliasing", AttrKind.ALIASING, default=(), proto="output_operand_aliasing"
    ),
)
PERMUTE_DONE = (Attr("channel_id", AttrKind.INT),)


OPS: tuple[OpDef, ...] = (
    OpDef(
        "async-start",
        (0, VARIADIC),
        "Begins a wrapped computation.",
        attrs=ASYNC,
        category="async",
    ),
    OpDef(
        "async-update",
        (1, VARIADIC),
        "Continues a wrapped computation.",
        attrs=ASYNC,
        category="async",
    ),
    OpDef(
        "async-done",
        (1, VARIADIC),
        "Finishes a wrapped computation.",
        attrs=ASYNC,
        category="async",
    ),
    OpDef(
        "all-gather-start",
        (1, VARIADIC),
        "Begins an all-gather.",
        attrs=GATHER,
        category="async",
    ),
    OpDef(
        "all-gather-done",
        1,
        "Finishes an all-gather.",
        category="async",
    ),
    OpDef(
        "all-reduce-start",
        (1, VARIADIC),
        "Begins an all-reduce.",
        attrs=REDUCE,
        category="async",
    ),
    OpDef(
        "all-reduce-done",
        1,
        "Finishes an all-reduce.",
        category="async",
    ),
    OpDef(
        "collective-permute-start",
        (1, VARIADIC),
        "Begins a collective-permute.",
        attrs=PERMUTE,
        category="async",
    ),
    OpDef(
        "collective-permute-done",
        1,
        "Finishes a collective-permute.",
        attrs=PERMUTE_DONE,
        category="async",
    ),
    OpDef(
        "copy-start",
        1,
        "Begins a copy between memories.",
        attrs=(Attr("cross_program_prefetch_index", AttrKind.INT),),
        category="async",
    ),
    OpDef(
        "copy-done",
        1,
        "Finishes a copy.",
        category="async",
    ),
)
