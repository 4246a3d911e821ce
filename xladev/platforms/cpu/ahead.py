"""Code for another machine: one relocatable object that holds all it needs and exports one symbol.

Constants and shared microkernels are part of it. Where LLVM calls functions that a compiler's own
library has (64-bit division on 32-bit ARM), they are part of it too; from C's library it wants
nothing but memcpy, memmove and memset, and nothing at all on WebAssembly. Code for several threads
also wants `PARALLEL`, which the program that links it has from elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xladev.codegen.llvm import ModuleBuilder
from xladev.compiler.plan.kernel_plan import KernelPlan
from xladev.errors import CompileError
from xladev.platforms.cpu.builtins import builtin_text
from xladev.platforms.cpu.codegen.sharing import PARALLEL
from xladev.platforms.cpu.engine import object_code, parsed, run_passes, target_machine
from xladev.platforms.cpu.object_symbols import undefined_symbols
from xladev.platforms.cpu.optimization_levels import kernels_worth_passes
from xladev.platforms.cpu.targets import CpuTarget

if TYPE_CHECKING:
    import llvmlite.binding as llvm

MEMORY_FUNCTIONS = frozenset({"memcpy", "memmove", "memset"})
"""What every C library has, and freestanding ones too."""
_ROUNDS = 4
"""Builtins may need builtins, but none needs more."""


def entry_symbol(name: str) -> str:
    """The symbol that an exported program is called by, a C identifier made from its name."""
    plain = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
    return f"{'_' if plain[:1].isdigit() else ''}{plain}_xladev_entry"


def compile_ahead(
    plan: KernelPlan, module: ModuleBuilder, entry: str, target: CpuTarget, optimization_level: int
) -> bytes:
    """An object file of a whole plan.

    Args:
        plan: what the module runs.
        module: made by `program_module` for the target, with ``entry`` exported.
        entry: the only symbol that others may see.
        target: what to compile for.
        optimization_level: 0 to 3.

    Raises:
        CompileError: LLVM rejects the text, or calls functions that nobody has.
    """
    machine = target_machine(optimization_level, target)
    is_shared = module.declares(PARALLEL)
    code = _linked(plan, module, machine, optimization_level)
    _hide_all_but(code, entry)
    wanted: tuple[str, ...] = ()
    for _ in range(_ROUNDS):
        data = object_code(plan.name, machine, code.clone())
        wanted = tuple(s for s in _missing(data, target) if not (s == PARALLEL and is_shared))
        if not wanted:
            return data
        texts = {symbol: builtin_text(symbol, target) for symbol in wanted}
        if unknown := [symbol for symbol, text in texts.items() if text is None]:
            raise _refused(plan.name, unknown, target)
        for symbol, text in texts.items():
            _add_builtin(code, symbol, text or "")
    raise _refused(plan.name, wanted, target)


def _linked(
    plan: KernelPlan, module: ModuleBuilder, machine: llvm.TargetMachine, level: int
) -> llvm.ModuleRef:
    """All functions of a module, each optimised as it deserves, in one."""
    long = kernels_worth_passes(module, plan) if level else []
    short = [n for n in module.names if n not in set(long)]
    code = _part(plan.name, module.part(short, has_exports=True), machine, level, is_short=True)
    if long:
        code.link_in(_part(plan.name, module.part(long), machine, level))
    for symbol in module.microkernels():
        code.link_in(_part(symbol, module.microkernel(symbol), machine, level))
    return code


def _part(
    name: str, text: str, machine: llvm.TargetMachine, level: int, *, is_short: bool = False
) -> llvm.ModuleRef:
    code = parsed(name, text)
    code.data_layout = str(machine.target_data)
    if level:
        run_passes(machine, code, level, is_short=is_short)
    return code


def _hide_all_but(code: llvm.ModuleRef, entry: str) -> None:
    for function in code.functions:
        if not function.is_declaration and function.name != entry:
            function.linkage = "internal"
    code.get_function(entry).visibility = "hidden"


def _missing(data: bytes, target: CpuTarget) -> tuple[str, ...]:
    """What an object wants that is not there."""
    given = frozenset() if target.architecture == "wasm32" else MEMORY_FUNCTIONS
    return tuple(s for s in undefined_symbols(data) if s not in given)


def _add_builtin(code: llvm.ModuleRef, symbol: str, text: str) -> None:
    made = parsed(symbol, text)
    made.data_layout = code.data_layout
    made.triple = code.triple
    code.link_in(made)
    code.get_function(symbol).linkage = "internal"


def _refused(name: str, symbols: Sequence[str], target: CpuTarget) -> CompileError:
    return CompileError(
        f"the code of {name} for {target.name} calls {', '.join(symbols)}",
        why="LLVM has no instructions for something in it, and calls functions nobody provides",
        hint="choose a higher processor level, or report it with the program",
    )
