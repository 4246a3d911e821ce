"""What the kernels of a program stand for: the instructions that a timeline shows and counts.

The table travels with an executable, packed, and is read when somebody first traces a launch.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xladev.compiler.cost import whole_cost
from xladev.compiler.json_values import DAMAGE, number, parse_json, shown, text
from xladev.compiler.plan.kernel_plan import KernelPlan
from xladev.errors import FormatError
from xladev.hlo.ir import HloInstruction, StackFrames
from xladev.hlo.verifier import frame_line

MOST_NAMES = 32
"""Instructions of a fusion that are told by name."""

_FASTEST = 1


@dataclass(frozen=True, slots=True)
class TracedOperation:
    """One instruction that became a kernel.

    Attributes:
        name: of the instruction, such as ``fusion.3``.
        opcode: its opcode.
        op_name: the operation of the framework that it came from; empty if unknown.
        source: ``file:line`` that it came from; empty if unknown.
        flops, transcendentals, nbytes: what one run costs; a fusion reads its operands and writes
            its results once.
        fused: names of the instructions in a fusion, the first `MOST_NAMES`.
    """

    name: str
    opcode: str
    op_name: str
    source: str
    flops: int
    transcendentals: int
    nbytes: int
    fused: tuple[str, ...]

    def to_args(self, module: str) -> dict[str, Any]:
        """What a timeline says of a kernel.

        Args:
            module: name of the program that it is in.
        """
        args: dict[str, Any] = {
            "hlo_op": self.name,
            "hlo_module": module,
            "opcode": self.opcode,
            "flops": self.flops,
            "transcendentals": self.transcendentals,
            "bytes": self.nbytes,
        }
        texts = {"op_name": self.op_name, "source": self.source, "fused": " ".join(self.fused)}
        return args | {name: text for name, text in texts.items() if text}


def pack_operations(plan: KernelPlan) -> bytes:
    """The operations of a plan, for `unpack_operations`."""
    rows = [_row(i, plan.frames) for i in plan.operations]
    return zlib.compress(json.dumps(rows, separators=(",", ":")).encode(), _FASTEST)


def unpack_operations(data: bytes) -> tuple[TracedOperation, ...]:
    """What `pack_operations` packed.

    Raises:
        FormatError: it is damaged.
    """
    try:
        return tuple(map(_operation, parse_json(zlib.decompress(data))))
    except (zlib.error, *DAMAGE) as e:
        raise FormatError("damaged table of operations", why=shown(e)) from e


def _row(i: HloInstruction, frames: StackFrames) -> list[Any]:
    cost = whole_cost(i)
    origin = _origin(i)
    metadata = origin.note.metadata
    source = metadata.location or frame_line(frames, metadata.stack_frame_id)
    counts = [cost.flops, cost.transcendentals, cost.bytes_accessed]
    return [i.name, i.opcode, metadata.op_name, source, *counts, _fused(i)]


def _origin(i: HloInstruction) -> HloInstruction:
    """The instruction that says where a kernel comes from: of a fusion, the last that does."""
    if i.opcode != "fusion" or _has_source(i):
        return i
    inside: Sequence[HloInstruction] = i["calls"].instructions
    named = [each for each in reversed(inside) if each.note.metadata.op_name]
    return next(filter(_has_source, named), named[0] if named else i)


def _has_source(i: HloInstruction) -> bool:
    return bool(i.note.metadata.source_file or i.note.metadata.stack_frame_id)


def _fused(i: HloInstruction) -> list[str]:
    if i.opcode != "fusion":
        return []
    inside = (each.name for each in i["calls"].instructions if each.opcode != "parameter")
    return [name for name, _ in zip(inside, range(MOST_NAMES), strict=False)]


def _operation(row: Any) -> TracedOperation:
    name, opcode, op_name, source, flops, transcendentals, nbytes, fused = row
    return TracedOperation(
        text(name), text(opcode), text(op_name), text(source),
        number(flops), number(transcendentals), number(nbytes), tuple(map(text, fused)),
    )  # fmt: skip
