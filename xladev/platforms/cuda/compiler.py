"""The compilers of ``cuda`` and ``cuda_emu``: one neutral kernel each, for PTX or for the host.

The SDK fuses, assigns buffers and runs the kernels one after the other.
"""

from __future__ import annotations

from xladev import instrument
from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.description import DeviceDescription
from xladev.compiler.kernel_code import KernelCode
from xladev.compiler.kernel_compiler import KernelCompiler
from xladev.compiler.multi_output_fusion import loop_space
from xladev.compiler.options import CompileOptions, PlatformOption
from xladev.compiler.support import YES, Support, no
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cuda.codegen import host_code, nvptx
from xladev.platforms.cuda.codegen.host_threads import host_text
from xladev.platforms.cuda.codegen.kernel import emit_thread_function
from xladev.platforms.cuda.description import describe_target
from xladev.platforms.cuda.machine import machine_target
from xladev.platforms.cuda.support import cuda_supports


class CudaCompiler(KernelCompiler):
    """Compiles for NVIDIA's GPUs; needs neither driver nor device."""

    @property
    def platform(self) -> str:
        """``cuda``."""
        return "cuda"

    def describe(self, target: str | None = None) -> DeviceDescription:
        """A target such as ``sm_90a``; this machine's if none is named, Hopper if it has none.

        Raises:
            OptionError: no such target.
        """
        return describe_target(target or machine_target())

    def version(self) -> str:
        """Of the generated code."""
        return f"neutral 1, {nvptx.PTX_VERSION}"

    def platform_options(self) -> tuple[PlatformOption, ...]:
        """None at all."""
        return ()

    def supports(self, instruction: HloInstruction, description: DeviceDescription) -> Support:
        """Whatever the elemental emitters have code for."""
        return cuda_supports(instruction)

    def can_fuse(self, producer: HloInstruction, consumer: HloInstruction) -> Support:
        """Whatever the general rule allows."""
        return YES

    def can_share_kernel(self, first: HloInstruction, second: HloInstruction) -> Support:
        """Loops over the same elements; reductions have kernels of their own."""
        spaces = loop_space(first), loop_space(second)
        if any(space is None or space.folded is not None for space in spaces):
            return no("a reduction has a kernel of its own")
        return YES

    def lower(self, spec: KernelSpec, options: CompileOptions) -> KernelCode:
        """PTX: the driver compiles it for its device when it is loaded."""
        thread = emit_thread_function(spec, nvptx.TRAITS)
        text, entry = nvptx.kernel_text(thread)
        instrument.dump(spec.name, "ll", lambda: text)
        target = self.describe(options.target).target
        ptx = nvptx.ptx_of(spec.name, text, target, options.optimization_level)
        return KernelCode(entry, ptx.encode(), thread.dimensions, "ptx")


class CudaEmulationCompiler(CudaCompiler):
    """Compiles the same kernels for the emulated driver."""

    @property
    def platform(self) -> str:
        """``cuda_emu``."""
        return "cuda_emu"

    def describe(self, target: str | None = None) -> DeviceDescription:
        """As for ``cuda``, but never what this machine has."""
        return describe_target(target)

    def version(self) -> str:
        """Of the generated code, and the host's processor, which it runs on."""
        return f"{super().version()}, image {host_code.IMAGE_VERSION}, {host_code.host_name()}"

    def lower(self, spec: KernelSpec, options: CompileOptions) -> KernelCode:
        """Host code of all threads, with every access checked."""
        thread = emit_thread_function(spec, host_code.host_traits())
        text = host_text(thread)
        instrument.dump(spec.name, "ll", lambda: text)
        image = host_code.host_image(spec.name, text, thread.nbytes)
        return KernelCode(spec.name, image, thread.dimensions, "host-threads")
