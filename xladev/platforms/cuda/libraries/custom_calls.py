"""Custom calls that stand for library calls while a program is compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xladev.hlo.ir import Annotations, HloInstruction, HloModule
from xladev.hlo.opset import opdef
from xladev.hlo.shape import Shape
from xladev.instrument import decision
from xladev.passes.rewrite import Rewriter
from xladev.platforms.cuda.libraries.calls import (
    TARGET,
    Convolution,
    Fourier,
    LibraryCall,
    Matmul,
    TriangularSolve,
    read_call,
    write_call,
)

STEP = "cuda-library-calls"
"""The step that decisions are made in."""
_LIBRARIES: Mapping[type[LibraryCall], str] = MappingProxyType(
    {
        Matmul: "cuBLASLt",
        Convolution: "cuDNN",
        Fourier: "cuFFT",
        TriangularSolve: "cuBLAS",
    }
)


def library_call(
    r: Rewriter,
    shape: Shape,
    operands: Sequence[HloInstruction],
    call: LibraryCall,
) -> HloInstruction:
    """The custom call that stands for a library call."""
    note = Annotations(backend_config=write_call(call))
    attrs = {"custom_call_target": TARGET}
    made = HloInstruction(opdef("custom-call"), shape, tuple(operands), attrs, "library", note)
    return r.append(made)


def tell_libraries(module: HloModule) -> None:
    """Tells, as decisions, which library computes each call of a program."""
    for computation in module.computations:
        for i in filter(is_library_call, computation.instructions):
            decision(STEP, i.name, _told(call_of(i)))


def _told(call: LibraryCall) -> str:
    what = f"{_LIBRARIES.get(type(call), 'cuSOLVER')} computes it"
    if not isinstance(call, Convolution):
        return what
    return f"{what}: {call.kind.lower().replace('_', ' ')}"


def is_library_call(i: HloInstruction) -> bool:
    """Whether an instruction stands for a library call."""
    return i.opcode == "custom-call" and i["custom_call_target"] == TARGET


def call_of(i: HloInstruction) -> LibraryCall:
    """The call that an instruction of `is_library_call` stands for."""
    return read_call(i.note.backend_config)
