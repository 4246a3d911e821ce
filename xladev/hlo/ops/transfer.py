"""Opcodes that talk to the host and to other programs."""

from __future__ import annotations

from xladev.hlo import dtype as dt
from xladev.hlo.opdef import Attr, AttrKind, OpCall, OpDef
from xladev.hlo.ops import rules
from xladev.hlo.shape import TOKEN_SHAPE, Shape, array, tuple_of

CHANNEL = Attr("channel_id", AttrKind.INT)
HOST_TRANSFER = Attr("is_host_transfer", AttrKind.BOOL, default=False)


def _require_token(call: OpCall, at: int, rule: str) -> None:
    found = call.operands[at]
    name = rules.constraint(call, rule)
    call.require(found.is_token, name, f"operand {at} is {found}, not a token")


def _infer_infeed(call: OpCall) -> Shape:
    _require_token(call, 0, "c1")
    result = call.result().without_layout()
    parts = result.tuple_shapes
    fits = result.is_tuple and len(parts) == 2 and parts[1].is_token
    call.require(fits, "infeed_c2", f"result {result} must be a pair of data and token")
    return result


def _infer_outfeed(call: OpCall) -> Shape:
    _require_token(call, 1, "c1")
    sent = call["outfeed_shape"]
    fits = sent is None or rules.compatible(sent, call.operands[0])
    call.require(fits, "outfeed_c2", f"outfeed_shape {sent} is not that of {call.operands[0]}")
    return TOKEN_SHAPE


def _infer_send(call: OpCall) -> Shape:
    _require_token(call, 1, "c1")
    return tuple_of(call.operands[0].without_layout(), array(dt.U32), TOKEN_SHAPE)


def _infer_recv(call: OpCall) -> Shape:
    _require_token(call, 0, "c1")
    result = call.result().without_layout()
    _require_pending(call, result, "c2")
    return result


def _require_pending(call: OpCall, shape: Shape, rule: str) -> None:
    """``OP_<rule>``: data, context and token of a transfer that was started."""
    parts = shape.tuple_shapes
    fits = len(parts) == 3 and parts[1] == array(dt.U32) and parts[2].is_token
    name = rules.constraint(call, rule)
    call.require(fits, name, f"{shape} must be a tuple of data, u32[] and token")


def _infer_send_done(call: OpCall) -> Shape:
    _require_pending(call, call.operands[0].without_layout(), "c1")
    return TOKEN_SHAPE


def _infer_recv_done(call: OpCall) -> Shape:
    pending = call.operands[0].without_layout()
    _require_pending(call, pending, "c1")
    return tuple_of(pending.tuple_shapes[0], TOKEN_SHAPE)


OPS: tuple[OpDef, ...] = (
    OpDef(
        "infeed",
        1,
        "Reads from the host's queue.",
        attrs=(Attr("infeed_config", AttrKind.STRING, default=""),),
        infer=_infer_infeed,
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
        infer=_infer_outfeed,
        category="io",
        side_effect=True,
        exempt="writes a host queue",
    ),
    OpDef(
        "send",
        2,
        "Starts a point-to-point send.",
        attrs=(CHANNEL, HOST_TRANSFER),
        infer=_infer_send,
        category="io",
        side_effect=True,
        exempt="talks to another program",
    ),
    OpDef(
        "send-done",
        1,
        "Finishes a send.",
        attrs=(CHANNEL, HOST_TRANSFER),
        infer=_infer_send_done,
        category="io",
        side_effect=True,
        exempt="talks to another program",
    ),
    OpDef(
        "recv",
        1,
        "Starts a point-to-point receive.",
        attrs=(CHANNEL, HOST_TRANSFER),
        infer=_infer_recv,
        category="io",
        side_effect=True,
        exempt="talks to another program",
    ),
    OpDef(
        "recv-done",
        1,
        "Finishes a receive.",
        attrs=(CHANNEL, HOST_TRANSFER),
        infer=_infer_recv_done,
        category="io",
        side_effect=True,
        exempt="talks to another program",
    ),
)
