"""Opcodes that talk to the host and to other programs."""

from __future__ import annotations

from xladev.hlo.opdef import Attr, AttrKind, OpDef

CHANNEL = Attr("channel_id", AttrKind.INT)
HOST_TRANSFER = Attr("is_host_transfer", AttrKind.BOOL, default=False)


OPS: tuple[OpDef, ...] = (
    OpDef(
        "infeed",
        1,
        "Reads from the host's queue.",
        attrs=(Attr("infeed_config", AttrKind.STRING, default=""),),
        category="io",
        side_effect=True,
        exempt="reads a host queue",
    ),
    OpDef(
        "outfeed",
        2,
        "Writes to the host's queue.",
        attrs=(
            Attr("outfeed_shape", AttrKind.SHAPE),
            Attr("outfeed_config", AttrKind.STRING, default=""),
        ),
        category="io",
        side_effect=True,
        exempt="writes a host queue",
    ),
    OpDef(
        "send",
        2,
        "Starts a point-to-point send.",
        attrs=(CHANNEL, HOST_TRANSFER),
        category="io",
        side_effect=True,
        exempt="talks to another program",
    ),
    OpDef(
        "send-done",
        1,
        "Finishes a send.",
        attrs=(CHANNEL, HOST_TRANSFER),
        category="io",
        side_effect=True,
        exempt="talks to another program",
    ),
    OpDef(
        "recv",
        1,
        "Starts a point-to-point receive.",
        attrs=(CHANNEL, HOST_TRANSFER),
        category="io",
        side_effect=True,
        exempt="talks to another program",
    ),
    OpDef(
        "recv-done",
        1,
        "Finishes a receive.",
        attrs=(CHANNEL, HOST_TRANSFER),
        category="io",
        side_effect=True,
        exempt="talks to another program",
    ),
)
