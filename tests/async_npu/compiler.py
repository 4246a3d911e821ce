"""The compiler: a kernel's code is what it computes, as a module, for the evaluator.

``XLADEV_ASYNC_NPU_REFUSES=dot,tanh`` names opcodes that it refuses, which then run on the host:
programs go to and fro.
"""

from __future__ import annotations

import os

from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.description import DeviceDescription, MemorySpace
from xladev.compiler.emitter_support import bitcast_support
from xladev.compiler.kernel_code import KernelCode
from xladev.compiler.kernel_compiler import KernelCompiler
from xladev.compiler.options import CompileOptions, PlatformOption
from xladev.compiler.partition.assignment import (
    DEVICE_NUMBER_OPCODES,
    RANDOM_STATE_OPCODE,
    exchanges,
)
from xladev.compiler.support import YES, Support, no
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.proto import write_module
from xladev.hlo.valued import no_value

TARGET = "async-npu"
STREAMS = 4

_DESCRIPTION = DeviceDescription(
    name="asynchronous NPU (software)",
    target=TARGET,
    memory_spaces=(MemorySpace("device", 1 << 30, bandwidth=1e6, alignment=128),),
    cores=1 << 16,
    compute_streams=STREAMS,
    overlaps_collectives=True,
)
"""Slow, with many cores: whatever is independent is worth a stream of its own."""

REFUSES = "XLADEV_ASYNC_NPU_REFUSES"
_SDK_OPCODES = DEVICE_NUMBER_OPCODES | {"rng", RANDOM_STATE_OPCODE}


class AsyncCompiler(KernelCompiler):
    """Supports whatever the evaluator gives a value."""

    @property
    def platform(self) -> str:
        return "async_npu"

    def describe(self, target: str | None = None) -> DeviceDescription:
        return _DESCRIPTION

    def platform_options(self) -> tuple[PlatformOption, ...]:
        return ()

    def supports(self, instruction: HloInstruction, description: DeviceDescription) -> Support:
        refused = next(filter(None, map(_refusal, _with_called(instruction))), None)
        return YES if refused is None else no(refused)

    def can_fuse(self, producer: HloInstruction, consumer: HloInstruction) -> Support:
        """Elementwise chains, so that programs are still of several kernels."""
        if producer.op.elementwise and consumer.op.elementwise:
            return YES
        return no("only elementwise instructions are fused")

    def lower(self, spec: KernelSpec, options: CompileOptions) -> KernelCode:
        """The same for all families."""
        return KernelCode(spec.name, write_module(HloModule(spec.name, spec.computation)))


def _with_called(instruction: HloInstruction) -> list[HloInstruction]:
    within = [
        i for c in instruction.called for inner in c.instructions for i in _with_called(inner)
    ]
    return [instruction, *within]


def _refusal(i: HloInstruction) -> str | None:
    if i.opcode in os.environ.get(REFUSES, "").split(","):
        return f"{REFUSES} names it"
    if i.opcode in _SDK_OPCODES:
        return "a kernel does not know which device or run it is part of"
    if i.opcode == "bitcast" and not (answer := bitcast_support(i)):
        return answer.reason
    if exchanges(i):
        return "values of other devices are exchanged by the SDK"
    shapes = (i.shape, *(o.shape for o in i.operands))
    if any(leaf.is_array and leaf.is_dynamic for s in shapes for _, leaf in s.leaves()):
        return "a dynamic dimension must be padded away first"
    missing = no_value(i)
    return None if missing is None else missing.why or missing.what
