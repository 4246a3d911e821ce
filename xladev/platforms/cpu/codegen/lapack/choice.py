"""Whether an instruction is computed by LAPACK or in vectors, or is left to its expansion."""

from __future__ import annotations

from xladev import instrument
from xladev.compiler.support import YES, Support, no
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.platforms.cpu.codegen.lapack.calls import LAPACK_OPCODES, LapackCall, lapack_call_of
from xladev.platforms.cpu.lapack.found import Lapack, NoLapack, found_lapack


def lapack_support(i: HloInstruction) -> Support:
    """Yes if LAPACK computes an instruction of `calls.LAPACK_OPCODES` here."""
    call = lapack_call_of(i)
    if call is None:
        return no(f"no kernel for {i.opcode}")
    found = found_lapack()
    if isinstance(found, NoLapack):
        return no(f"no LAPACK: {found.reason}")
    if call.symbol not in found.addresses:
        return no(f"{found.name} does not offer {call.symbol}")
    return YES


STEP = "linear-algebra"
"""The step that decisions are made in."""


def tell_lapack(module: HloModule) -> None:
    """Tells, as decisions, what computes each call of LAPACK in a program."""
    if not instrument.is_deciding():
        return
    for computation in module.computations:
        for i in computation.instructions:
            call = lapack_call_of(i) if i.opcode in LAPACK_OPCODES else None
            if call is not None:
                instrument.decision(STEP, i.name, _told(call))


def _told(call: LapackCall) -> str:
    if call.lanes > 1:
        return f"vectors of {call.lanes} matrices compute it: {call.symbol}"
    found = found_lapack()
    name = found.name if isinstance(found, Lapack) else "LAPACK"
    return f"{name} computes it: {call.symbol}"
