"""Only listed intrinsics are emitted, and every listed one compiles for this machine."""

from __future__ import annotations

import pytest

from tests.unit.codegen.jit import compile_function
from xladev.codegen.llvm import FLOAT, I32, PTR, VOID, IrType, ModuleBuilder, Parameter, vector
from xladev.codegen.llvm.intrinsics import INTRINSICS
from xladev.errors import CompileError

_CASES = [(n, 1) for n, row in INTRINSICS.items() if row.result != "element"]
_CASES += [(n, 4) for n in INTRINSICS]


@pytest.mark.parametrize(("name", "lanes"), _CASES)
def test_every_intrinsic_compiles(name: str, lanes: int) -> None:
    row = INTRINSICS[name]
    for element in sorted(row.elements):
        module = ModuleBuilder(f"{name}.{element}")
        b = module.function("kernel", VOID, [Parameter(PTR, "p")])
        operand = b.load(vector(IrType(element), lanes), b.arguments[0], align=16)
        b.store(b.intrinsic(name, *[operand] * row.arity, result=I32), b.arguments[0], align=16)
        b.ret()
        compile_function(module, "kernel")


def test_others_are_refused() -> None:
    b = ModuleBuilder("test").function("kernel", VOID)
    with pytest.raises(CompileError, match=r"llvm\.tan is not on the list"):
        b.intrinsic("tan", b.const(FLOAT, 1.0))
    with pytest.raises(CompileError, match="not allowed on i32"):
        b.intrinsic("sqrt", b.const(I32, 1))
    with pytest.raises(CompileError, match="takes 3 operands, 1"):
        b.intrinsic("fma", b.const(FLOAT, 1.0))
