"""Every intrinsic that may be emitted becomes code on every target, and calls nothing.

LLVM aborts the process on an intrinsic that it cannot lower, so a child process asks it.
"""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from xladev.codegen.llvm import FunctionBuilder, IrType, ModuleBuilder, Parameter
from xladev.codegen.llvm.intrinsics import INTRINSICS, Intrinsic
from xladev.codegen.llvm.portable import EMITTERS
from xladev.codegen.llvm.types import I32
from xladev.platforms.cpu.builtins import builtin_text
from xladev.platforms.cpu.engine import object_code, parsed, target_machine
from xladev.platforms.cpu.object_symbols import undefined_symbols
from xladev.platforms.cpu.targets import CpuTarget, target_names, target_of

REDUCED_LANES = 4


def modules(target: CpuTarget) -> Iterator[tuple[str, ModuleBuilder]]:
    """A function around each intrinsic of each type, in one lane and in a vector."""
    for name, row in INTRINSICS.items():
        for element in sorted(row.elements):
            for lanes in (1, REDUCED_LANES) if row.result != "element" else (REDUCED_LANES,):
                module = ModuleBuilder("m", target.traits)
                _function(module, name, row, IrType(element, lanes))
                yield f"{name} {element} {lanes}", module


def _function(module: ModuleBuilder, name: str, row: Intrinsic, type_: IrType) -> None:
    result = {"same": type_, "element": type_.scalar()}.get(row.result, type_.of(I32))
    parameters = [Parameter(type_, f"p{n}") for n in range(row.arity)]
    b: FunctionBuilder = module.function("f", result, parameters)
    given = I32 if row.result == "given" else None
    b.ret(b.intrinsic(name, *b.arguments, result=given))


def ask(name: str) -> None:
    """Compiles all of them; prints each before, so that the last line is what LLVM died of."""
    target = target_of(name)
    machine = target_machine(2, target)
    for what, module in modules(target):
        print("compiling", what, flush=True)
        code = parsed("m", str(module))
        code.data_layout = str(machine.target_data)
        wanted = undefined_symbols(object_code("m", machine, code))
        if missing := [s for s in wanted if builtin_text(s, target) is None]:
            raise SystemExit(f"{what} calls {missing}")


@pytest.mark.long
@pytest.mark.parametrize("target", target_names())
def test_every_intrinsic_compiles_and_calls_nothing(target: str) -> None:
    command = [sys.executable, "-c", f"from {__name__} import ask; ask({target!r})"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    last = done.stdout.strip().rpartition("\n")[2]
    assert done.returncode == 0, f"{last}: {done.stderr[-500:]}"
    assert len(done.stdout.splitlines()) > 200


def test_what_a_target_lacks_has_an_emitter() -> None:
    for name in target_names():
        assert target_of(name).traits.missing <= EMITTERS.keys()
