"""Sparsity and block scaling of operands: HLO text of the attribute <-> their messages.

The IR keeps these as text, such as ``{lhs={sparsity=2x4 dimension=1 stride=1 idx=2}}`` and
``{rhs={scale_idx=2 zero_idx=3 strides=1x2 steps=3x4}}``.
"""

from __future__ import annotations

import re
from typing import Any, Final

from xladev.errors import ProtoError
from xladev.hlo.proto.encode import encode
from xladev.hlo.proto.message import Message

_SIDES: Final = ("lhs", "rhs")
_SIDE: Final = re.compile(r"(lhs|rhs)=\{([^{}]*)\}")
_WHOLE: Final = re.compile(r"\{\s*(?:(?:lhs|rhs)=\{[^{}]*\}\s*)+\}")
_INTEGER: Final = re.compile(r"-?[0-9]+")


def read_sparsity(message: Message) -> str | None:
    """Text of a ``SparsityConfig``; None where no operand is sparse."""
    return _sides(message, _sparsity_text)


def read_block_scaling(message: Message) -> str | None:
    """Text of a ``BlockScalingConfig``; None where no operand is scaled."""
    return _sides(message, _scaling_text)


def _sides(message: Message, text: Any) -> str | None:
    found = [(side, message.child(side)) for side in _SIDES]
    parts = [f"{side}={{{text(tensor)}}}" for side, tensor in found if tensor is not None]
    return "{" + " ".join(parts) + "}" if parts else None


def _sparsity_text(tensor: Message) -> str:
    blocks = f"{tensor.integer('num_non_zero')}x{tensor.integer('block_size')}"
    rest = " ".join(f"{name}={tensor.integer(name)}" for name in ("dimension", "stride", "idx"))
    return f"sparsity={blocks} {rest}"


def _scaling_text(tensor: Message) -> str:
    parts = [f"scale_idx={tensor.integer('scale_idx')}"]
    if tensor.has("zero_idx"):
        parts.append(f"zero_idx={tensor.integer('zero_idx')}")
    for name in ("strides", "steps"):
        if tensor.has(name):
            parts.append(f"{name}={'x'.join(map(str, tensor.integers(name)))}")
    return " ".join(parts)


def write_sparsity(text: str) -> bytes:
    """The ``SparsityConfig`` of its text; a ProtoError if it is malformed."""
    return _write(text, "SparsityConfig", "TensorSparsityConfig")


def write_block_scaling(text: str) -> bytes:
    """The ``BlockScalingConfig`` of its text; a ProtoError if it is malformed."""
    return _write(text, "BlockScalingConfig", "TensorBlockScalingConfig")


def _write(text: str, message: str, tensor: str) -> bytes:
    if not _WHOLE.fullmatch(text):
        raise ProtoError(f"{text!r} does not describe operands as {{lhs={{...}} rhs={{...}}}}")
    sides = {
        side: encode(f"{message}.{tensor}", _tensor_values(body))
        for side, body in _SIDE.findall(text)
    }
    return encode(message, sides)


def _tensor_values(body: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for entry in body.split():
        name, _, spelled = entry.partition("=")
        numbers = spelled.split("x")
        if name not in _NUMBERS or not all(map(_INTEGER.fullmatch, numbers)):
            raise ProtoError(f"{entry!r} is no part of an operand's description")
        values.update(_NUMBERS[name](list(map(int, numbers))))
    return values


def _one(name: str) -> Any:
    return lambda numbers: {name: numbers[0]}


def _blocks(numbers: list[int]) -> dict[str, Any]:
    if len(numbers) != 2:
        raise ProtoError(f"sparsity {numbers} is not of the form NxM")
    return {"num_non_zero": numbers[0], "block_size": numbers[1]}


_NUMBERS: Final[dict[str, Any]] = {
    "sparsity": _blocks,
    "strides": lambda numbers: {"strides": numbers},
    "steps": lambda numbers: {"steps": numbers},
    **{name: _one(name) for name in ("dimension", "stride", "idx", "scale_idx", "zero_idx")},
}
