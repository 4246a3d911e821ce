"""Opcodes that combine many elements with a computation."""

from __future__ import annotations

from xladev.hlo.opdef import VARIADIC, Attr, AttrKind, OpDef, Tolerance

TO_APPLY = Attr("to_apply", AttrKind.COMPUTATION, required=True)


OPS: tuple[OpDef, ...] = (
    OpDef(
        "reduce",
        (2, VARIADIC),
        "Combines elements along dimensions with any reducer.",
        attrs=(Attr("dimensions", AttrKind.INTS, default=()), TO_APPLY),
        category="reduce",
        tolerance=Tolerance.SUM,
    ),
    OpDef(
        "map",
        (0, VARIADIC),
        "Applies a scalar computation to each element.",
        attrs=(Attr("dimensions", AttrKind.INTS, default=()), TO_APPLY),
        category="reduce",
    ),
    OpDef(
        "reduce-window",
        (2, VARIADIC),
        "Combines the elements of sliding windows.",
        attrs=(Attr("window", AttrKind.WINDOW, default=()), TO_APPLY),
        category="reduce",
        tolerance=Tolerance.SUM,
    ),
    OpDef(
        "select-and-scatter",
        3,
        "Adds each source element where its window selects; the gradient of pooling.",
        attrs=(
            Attr("window", AttrKind.WINDOW, default=()),
            Attr("select", AttrKind.COMPUTATION, required=True),
            Attr("scatter", AttrKind.COMPUTATION, required=True),
        ),
        category="training",
        tolerance=Tolerance.SUM,
    ),
    OpDef(
        "scan",
        (0, VARIADIC),
        "Carries values along one dimension.",
        attrs=(
            TO_APPLY,
            Attr("dimensions", AttrKind.INTS, required=True),
            Attr("num_carries", AttrKind.INT, default=0),
            Attr("is_reverse", AttrKind.BOOL, default=False),
            Attr("is_associative", AttrKind.WORD),
        ),
        category="training",
        tolerance=Tolerance.SUM,
    ),
)
