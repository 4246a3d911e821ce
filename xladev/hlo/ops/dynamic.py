"""Bounded dynamic shapes."""

from __future__ import annotations

from xladev.hlo.opdef import VARIADIC, Attr, AttrKind, OpDef

OPS: tuple[OpDef, ...] = (
    OpDef(
        "get-dimension-size",
        1,
        "Run-time size of one dimension.",
        attrs=(Attr("dimensions", AttrKind.INTS, required=True),),
        category="dynamic",
    ),
    OpDef(
        "set-dimension-size",
        2,
        "Sets the run-time size of one dimension.",
        attrs=(Attr("dimensions", AttrKind.INTS, required=True),),
        category="dynamic",
    ),
    OpDef(
        "dynamic-reshape",
        (1, VARIADIC),
        "Reshape to sizes given at run time.",
        category="dynamic",
    ),
)
