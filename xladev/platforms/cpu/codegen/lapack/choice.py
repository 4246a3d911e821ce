"""Whether LAPACK computes an instruction, or an expansion: by what was measured."""

from __future__ import annotations

from xladev.compiler.support import YES, Support, no
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cpu.codegen.lapack.calls import lapack_call_of
from xladev.platforms.cpu.lapack.found import NoLapack, found_lapack


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
