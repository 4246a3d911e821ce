"""A backend of kernels that evaluates each of them, to check plans by running them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.kernel_code import KernelCode, LaunchDimensions
from xladev.compiler.kernel_compiler import KernelCompiler
from xladev.compiler.options import CompileOptions
from xladev.compiler.support import YES, Support
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.proto import read_module, write_module
from xladev.hlo.text import parse_module
from xladev.runtime.buffers.allocator import Allocator
from xladev.runtime.executor import Kernel
from xladev.runtime.host_executor import HostExecutor, host_bytes
from xladev.runtime.launch.plan_executable import load_plan_or_program
from xladev.runtime.loaded_executable import LaunchContext
from xladev.runtime.memory import DeviceMemory
from xladev.runtime.stream import Stream, SynchronousStream


class EvaluatingCompiler(KernelCompiler):
    """Kernels are serialized modules; every family is lowered the same way."""

    def supports(self, instruction: HloInstruction, description: object) -> Support:
        return YES

    def can_fuse(self, producer: HloInstruction, consumer: HloInstruction) -> Support:
        return YES

    def can_share_kernel(self, first: HloInstruction, second: HloInstruction) -> Support:
        return YES

    def lower(self, spec: KernelSpec, options: CompileOptions) -> KernelCode:
        return KernelCode(spec.name, write_module(HloModule(spec.name, spec.computation)))


class EvaluatingExecutor(HostExecutor):
    """Evaluates kernels; results are written only after all operands were read."""

    def load_kernel(self, code: KernelCode) -> Kernel:
        return Kernel(code.entry, read_module(code.code))

    def launch_kernel(
        self,
        stream: Stream,
        kernel: Kernel,
        buffers: Sequence[DeviceMemory],
        dimensions: LaunchDimensions,
    ) -> None:
        module: HloModule = kernel.handle
        shapes = [p.shape for p in module.entry.parameters]
        arguments = [
            host_bytes(b).view(s.element_type.np).reshape(s.dims)
            for b, s in zip(buffers, shapes, strict=False)
        ]
        value = HloEvaluator().run(module, *arguments)
        results = value if isinstance(value, tuple) else (value,)
        for result, buffer in zip(results, buffers[len(shapes) :], strict=True):
            host_bytes(buffer)[:] = np.ascontiguousarray(result).reshape(-1).view(np.uint8)


def run(text: str, arguments: Sequence[Any], **options: Any) -> list[Any]:
    """Results of a program of arrays; aliased arguments are given away."""
    module = parse_module(text)
    executable = EvaluatingCompiler().compile(module, CompileOptions(**options))
    executor = EvaluatingExecutor()
    loaded = load_plan_or_program(
        executor, executable, Allocator(executor, "evaluating", lambda: None), alignment=64
    )
    signature = executable.signature
    inputs = [np.array(a, copy=True) for a in arguments]
    outputs = [np.zeros(s.dims, s.element_type.np) for s in signature.result_leaves]
    for alias in signature.aliases:
        outputs[alias.result] = inputs[alias.parameter]
    scratch = executor.allocate(max(signature.scratch_nbytes, 1), alignment=64, memory_space=0)
    host_bytes(scratch)[:] = 0xCD

    def memory(array: Any) -> DeviceMemory:
        return executor.wrap_host(array.reshape(-1).view(np.uint8))

    context = LaunchContext(tuple(map(memory, inputs)), tuple(map(memory, outputs)), scratch)
    loaded.launch(SynchronousStream(), context)
    return outputs


def check(text: str, *arguments: Any) -> None:
    """The plan gives what the evaluator gives: fused or not, in any order, with values repeated."""
    value = HloEvaluator().run(parse_module(text), *arguments)
    wanted = value if isinstance(value, tuple) else (value,)
    for options in ({}, {"fusion": False}, {"schedule": False}, {"memory_limit": 0}):
        found = run(text, arguments, **options)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=str(options))
