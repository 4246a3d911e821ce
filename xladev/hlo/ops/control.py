"""Opcodes that run computations."""

from __future__ import annotations

from xladev.hlo.opdef import VARIADIC, Attr, AttrKind, OpDef

OPS: tuple[OpDef, ...] = (
    OpDef(
        "while",
        1,
        "Repeats body while condition holds.",
        attrs=(
            Attr("condition", AttrKind.COMPUTATION, required=True),
            Attr("body", AttrKind.COMPUTATION, required=True),
        ),
        category="control",
    ),
    OpDef(
        "conditional",
        (2, VARIADIC),
        "Runs one of several computations.",
        attrs=(
            Attr("true_computation", AttrKind.COMPUTATION),
            Attr("false_computation", AttrKind.COMPUTATION),
            Attr("branch_computations", AttrKind.COMPUTATIONS),
        ),
        category="control",
    ),
    OpDef(
        "call",
        (0, VARIADIC),
        "Runs a computation.",
        attrs=(
            Attr("to_apply", AttrKind.COMPUTATION, required=True),
            Attr("is_composite", AttrKind.BOOL, default=False),
            Attr(
                "output_to_operand_aliasing",
                AttrKind.ALIASING,
                default=(),
                proto="output_operand_aliasing",
            ),
        ),
        category="control",
    ),
    OpDef(
        "fusion",
        (0, VARIADIC),
        "Runs a computation as one kernel.",
        attrs=(
            Attr("kind", AttrKind.WORD, required=True, proto="fusion_kind"),
            Attr(
                "output_to_operand_aliasing",
                AttrKind.ALIASING,
                default=(),
                proto="output_operand_aliasing",
            ),
            Attr("calls", AttrKind.COMPUTATION, required=True),
        ),
        category="fusion",
    ),
    OpDef(
        "custom-call",
        (0, VARIADIC),
        "Calls a function known by name.",
        attrs=(
            Attr("window", AttrKind.WINDOW, default=()),
            Attr("dim_labels", AttrKind.CONV_DIMS, proto="convolution_dimension_numbers"),
            Attr("feature_group_count", AttrKind.INT, default=1),
            Attr("batch_group_count", AttrKind.INT, default=1),
            Attr("custom_call_target", AttrKind.STRING, required=True),
            Attr("operand_layout_constraints", AttrKind.SHAPES, proto="operand_shapes_with_layout"),
            Attr("custom_call_has_side_effect", AttrKind.BOOL, default=False),
            Attr("to_apply", AttrKind.COMPUTATION),
            Attr("called_computations", AttrKind.COMPUTATIONS, default=()),
            Attr(
                "output_to_operand_aliasing",
                AttrKind.ALIASING,
                default=(),
                proto="output_operand_aliasing",
            ),
            Attr("padding_type", AttrKind.WORD, default="PADDING_INVALID"),
            Attr("literal", AttrKind.LITERAL),
            Attr(
                "operand_precision",
                AttrKind.WORDS,
                default=(),
                proto="precision_config.operand_precision",
            ),
            Attr("schedule", AttrKind.WORD, default="SCHEDULE_NONE", proto="custom_call_schedule"),
            Attr(
                "api_version",
                AttrKind.WORD,
                default="API_VERSION_ORIGINAL",
                proto="custom_call_api_version",
            ),
        ),
        category="fusion",
    ),
)
