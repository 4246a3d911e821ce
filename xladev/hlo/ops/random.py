"""Random numbers."""

from __future__ import annotations

from xladev.hlo.opdef import VARIADIC, Attr, AttrKind, OpDef

OPS: tuple[OpDef, ...] = (
    OpDef(
        "rng",
        (0, VARIADIC),
        "Uniform or normal numbers from hidden state.",
        attrs=(Attr("distribution", AttrKind.WORD, required=True),),
        category="random",
        side_effect=True,
    ),
    OpDef(
        "rng-bit-generator",
        1,
        "Random bits and the next state, by Philox or ThreeFry.",
        attrs=(Attr("algorithm", AttrKind.WORD, required=True, proto="rng_algorithm"),),
        category="random",
    ),
    OpDef(
        "rng-get-and-update-state",
        0,
        "A global counter, advanced by delta.",
        attrs=(Attr("delta", AttrKind.INT, required=True),),
        category="random",
        side_effect=True,
    ),
)
