"""Opcodes that name, group and pass values on."""

from __future__ import annotations

from xladev.hlo.opdef import VARIADIC, Attr, AttrKind, OpDef

OPS: tuple[OpDef, ...] = (
    OpDef(
        "parameter",
        0,
        "Numbered input of a computation.",
        attrs=(
            Attr("parameter_number", AttrKind.NUMBER, required=True),
            Attr(
                "parameter_replication",
                AttrKind.BOOLS,
                proto="parameter_replication.replicated_at_leaf_buffers",
            ),
        ),
        category="shape",
    ),
    OpDef(
        "constant",
        0,
        "A literal value.",
        attrs=(Attr("literal", AttrKind.LITERAL, required=True),),
        category="shape",
    ),
    OpDef(
        "tuple",
        (0, VARIADIC),
        "A tuple of the operands.",
        category="shape",
    ),
    OpDef(
        "get-tuple-element",
        1,
        "One part of a tuple.",
        attrs=(Attr("index", AttrKind.INT, required=True, proto="tuple_index"),),
        category="shape",
    ),
    OpDef(
        "copy",
        1,
        "The same value, maybe in another layout.",
        attrs=(Attr("cross_program_prefetch_index", AttrKind.INT),),
        category="shape",
    ),
    OpDef(
        "bitcast",
        1,
        "The same bytes seen as another shape.",
        attrs=(Attr("result_layout", AttrKind.STRING),),
        category="shape",
    ),
    OpDef(
        "opt-barrier",
        1,
        "Keeps computations from moving or merging across it.",
        category="shape",
    ),
    OpDef(
        "after-all",
        (0, VARIADIC),
        "A token that is ready when all operands are.",
        category="control",
    ),
    OpDef(
        "add-dependency",
        2,
        "First operand, available after the token.",
        category="control",
    ),
    OpDef(
        "domain",
        1,
        "Border of a region with other metadata.",
        attrs=(Attr("domain", AttrKind.SHARDINGS, required=True, proto="domain_entry_sharding"),),
        category="control",
    ),
)
