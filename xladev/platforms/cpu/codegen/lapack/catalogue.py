"""All microkernels of linear algebra, so that they can be compiled before anybody asks for them."""

from __future__ import annotations

from xladev.codegen.llvm import PTR, VOID, ModuleBuilder, Value
from xladev.platforms.cpu.codegen.lapack.calls import OPCODES, TARGETS
from xladev.platforms.cpu.codegen.lapack.lanes import LANES, OneGroup
from xladev.platforms.cpu.codegen.lapack.movement import call_all_movements
from xladev.platforms.cpu.codegen.lapack.options import Options
from xladev.platforms.cpu.codegen.lapack.scaling import call_all_scalings

_NULL = Value("null", PTR)


def call_all_linear_algebra(module: ModuleBuilder) -> None:
    """Adds functions that call each microkernel; nobody is meant to run them."""
    call_all_movements(module)
    call_all_scalings(module)
    b = module.function("lanes", VOID)
    one = Options(1, 1, 1, (1, 1), (1, 1, 1, 1, 1))
    for routine in dict.fromkeys((*TARGETS.values(), *OPCODES.values())):
        if routine.small is None:
            continue
        operands, results = [_NULL] * len(routine.ranks), [_NULL] * routine.results
        for letter in LANES:
            routine.small.emit(OneGroup(b, letter, operands, results, _NULL), one)
    b.ret()
