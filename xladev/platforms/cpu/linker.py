"""From a kernel plan to one LLVM module: all kernels, and an entry that runs the steps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xladev.codegen.kernels.table import emit_kernel
from xladev.codegen.llvm import I8, I32, I64, PTR, FunctionBuilder, ModuleBuilder, Parameter, Value
from xladev.compiler.kernel_plan import (
    Branch,
    Copy,
    KernelPlan,
    Loop,
    RunKernel,
    Slice,
    Space,
    Step,
)
from xladev.platforms.cpu.engine import target_traits

ENTRY = "xladev_entry"
"""``i32 xladev_entry(ptr context, ptr arguments, ptr results, ptr scratch)``; 0 is success."""

CONSTANTS = "xladev_constants"
"""Array of pointers to the constants, filled when the code is loaded."""


def module_text(plan: KernelPlan) -> str:
    """LLVM assembly of a whole plan."""
    module = ModuleBuilder(plan.name, target_traits())
    for spec in plan.kernels:
        emit_kernel(module, spec)
    _Entry(module, plan).emit()
    return str(module)


class _Entry:
    def __init__(self, module: ModuleBuilder, plan: KernelPlan) -> None:
        self.plan = plan
        names = ("context", "arguments", "results", "scratch")
        self.b: FunctionBuilder = module.function(ENTRY, I32, [Parameter(PTR, n) for n in names])
        _, self.arguments, self.results, self.scratch = self.b.arguments
        self.constants = module.pointer_array(CONSTANTS, max(len(plan.constants), 1))

    def emit(self) -> None:
        self._steps(self.plan.steps)
        self.b.ret(self.b.const(I32, 0))

    def _steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            match step:
                case RunKernel():
                    pointers = [self._pointer(s) for s in step.buffers]
                    self.b.call_void(self.plan.kernels[step.kernel].name, *pointers)
                case Copy():
                    self.b.copy_bytes(
                        self._pointer(step.destination),
                        self._pointer(step.source),
                        step.source.nbytes,
                    )
                case Loop():
                    self._loop(step)
                case Branch():
                    self._branch(step)

    def _pointer(self, s: Slice) -> Value:
        tables = {
            Space.ARGUMENT: self.arguments,
            Space.RESULT: self.results,
            Space.CONSTANT: self.constants,
        }
        table = tables.get(s.space)
        if table is None:
            return self.b.byte_address(self.scratch, s.offset)
        base = self.b.load(PTR, self.b.element_address(table, s.index, PTR))
        return self.b.byte_address(base, s.offset) if s.offset else base

    def _loop(self, step: Loop) -> None:
        def condition(_: Sequence[Value]) -> Value:
            self._steps(step.condition)
            return self.b.icmp("ne", self.b.load(I8, self._pointer(step.predicate)), 0)

        def body(_: Sequence[Value]) -> Sequence[Value]:
            self._steps(step.body)
            return ()

        self.b.while_loop((), condition, body)

    def _branch(self, step: Branch) -> None:
        if step.is_predicate:
            chosen = self.b.icmp("eq", self.b.load(I8, self._pointer(step.selector)), 0)
            index = self.b.resize(chosen, I64, signed=False)
        else:
            index = self.b.resize(self.b.load(I32, self._pointer(step.selector)), I64, signed=True)
        self.b.switch(index, [partial(self._steps, steps) for steps in step.branches])
