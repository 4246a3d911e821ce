"""Opcodes that move elements by static rules."""

from __future__ import annotations

from xladev.hlo.opdef import VARIADIC, Attr, AttrKind, OpDef

OPS: tuple[OpDef, ...] = (
    OpDef(
        "broadcast",
        1,
        "Maps operand dimensions to result dimensions and repeats along the rest.",
        attrs=(Attr("dimensions", AttrKind.INTS, default=()),),
        category="shape",
    ),
    OpDef(
        "reshape",
        1,
        "Same elements in row-major order under other dimensions.",
        attrs=(Attr("inferred_dimension", AttrKind.INT, default=-1, proto="dimensions"),),
        category="shape",
    ),
    OpDef(
        "transpose",
        1,
        "Permutes dimensions.",
        attrs=(Attr("dimensions", AttrKind.INTS, default=()),),
        category="shape",
    ),
    OpDef(
        "reverse",
        1,
        "Flips dimensions.",
        attrs=(Attr("dimensions", AttrKind.INTS, default=()),),
        category="shape",
    ),
    OpDef(
        "slice",
        1,
        "Static strided window.",
        attrs=(Attr("slice", AttrKind.SLICE, default=(), proto="slice_dimensions"),),
        category="shape",
    ),
    OpDef(
        "pad",
        2,
        "Edge and interior padding; negative edges remove.",
        attrs=(Attr("padding", AttrKind.PADDING, default=(), proto="padding_config"),),
        category="shape",
    ),
    OpDef(
        "concatenate",
        (1, VARIADIC),
        "Joins along one dimension.",
        attrs=(Attr("dimensions", AttrKind.INTS, required=True),),
        category="shape",
    ),
    OpDef(
        "iota",
        0,
        "Counts along one dimension.",
        attrs=(Attr("iota_dimension", AttrKind.INT, required=True, proto="dimensions"),),
        category="shape",
    ),
)
