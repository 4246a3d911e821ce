"""Custom calls that stand for library calls while a program is compiled."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.hlo.ir import Annotations, HloInstruction
from xladev.hlo.opset import opdef
from xladev.hlo.shape import Shape
from xladev.passes.rewrite import Rewriter
from xladev.platforms.cuda.libraries.calls import TARGET, LibraryCall, read_call, write_call


def library_call(
    r: Rewriter, shape: Shape, operands: Sequence[HloInstruction], call: LibraryCall
) -> HloInstruction:
    """The custom call that stands for a library call."""
    note = Annotations(backend_config=write_call(call))
    attrs = {"custom_call_target": TARGET}
    made = HloInstruction(opdef("custom-call"), shape, tuple(operands), attrs, "library", note)
    return r.append(made)


def is_library_call(i: HloInstruction) -> bool:
    """Whether an instruction stands for a library call."""
    return i.opcode == "custom-call" and i["custom_call_target"] == TARGET


def call_of(i: HloInstruction) -> LibraryCall:
    """The call that an instruction of `is_library_call` stands for."""
    return read_call(i.note.backend_config)
