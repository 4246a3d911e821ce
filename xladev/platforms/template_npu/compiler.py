"""The compiler: what the device supports, and one command list for each kernel.

The SDK fuses, assigns buffers and runs the kernels one after the other; here is only what depends
on the hardware.

What a vendor replaces: the description, the answers of `supports`, and `lower` of each family.
"""

from __future__ import annotations

from xladev import instrument
from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.description import DeviceDescription, MemorySpace
from xladev.compiler.kernel_code import KernelCode
from xladev.compiler.kernel_compiler import KernelCompiler
from xladev.compiler.options import CompileOptions, PlatformOption
from xladev.compiler.support import YES, Support
from xladev.errors import OptionError
from xladev.hlo.ir import HloInstruction
from xladev.passes.pipeline import HloPassPipeline
from xladev.passes.reduce_window_rewriter import ReduceWindowRewriter
from xladev.platforms.template_npu.codegen.tiles import DOUBLE, SINGLE
from xladev.platforms.template_npu.device import isa
from xladev.platforms.template_npu.device.assembler import disassemble
from xladev.platforms.template_npu.device.core import DRAM_NBYTES
from xladev.platforms.template_npu.device.timing import CLOCK_HZ
from xladev.platforms.template_npu.emitter import EPILOGUES, emit_kernel
from xladev.platforms.template_npu.support import npu_supports

_PIPELINE = HloPassPipeline("template_npu", (ReduceWindowRewriter(),))

TARGET = f"template-npu-{isa.ISA_VERSION}"
CODE_FORMAT = "npu-words"

_DESCRIPTION = DeviceDescription(
    name="template NPU (simulated)",
    kind="npu",
    target=TARGET,
    dtypes=frozenset(t.name for t in isa.TYPES),
    memory_spaces=(MemorySpace("device", DRAM_NBYTES, bandwidth=64.0 * CLOCK_HZ),),
    peak_flops={"f32": 256.0 * CLOCK_HZ, "bf16": 512.0 * CLOCK_HZ, "s8": 512.0 * CLOCK_HZ},
    vector_nbytes=4 * isa.MAX_LANES,
    tile=(isa.TILE, isa.TILE, isa.TILE),
    cache_nbytes=isa.SCRATCHPAD_NBYTES,
)


DOUBLE_BUFFER = PlatformOption("double_buffer", True, "load the next tile while one is computed")


def buffering_of(options: CompileOptions) -> int:
    """What ``template_npu.double_buffer=false`` says; options of your own are read like this one.

    Raises:
        OptionError: it is no boolean.
    """
    wanted = options.extra("template_npu", DOUBLE_BUFFER.key, DOUBLE_BUFFER.default)
    return DOUBLE if wanted else SINGLE


class TemplateNpuCompiler(KernelCompiler):
    """Compiles for the template NPU."""

    @property
    def platform(self) -> str:
        """``template_npu``."""
        return "template_npu"

    def describe(self, target: str | None = None) -> DeviceDescription:
        """The one device type there is.

        Raises:
            OptionError: another target.
        """
        if target not in (None, "", TARGET):
            raise OptionError(f"the template NPU cannot compile for target {target!r}")
        return _DESCRIPTION

    def version(self) -> str:
        """Version of the instruction set, which changes the code."""
        return TARGET

    def platform_options(self) -> tuple[PlatformOption, ...]:
        """Written ``template_npu.KEY=VALUE``; any other is refused."""
        return (DOUBLE_BUFFER,)

    def supports(self, instruction: HloInstruction, description: DeviceDescription) -> Support:
        """Whatever the stages have code for."""
        return npu_supports(instruction)

    def pipeline(self, options: CompileOptions) -> HloPassPipeline | None:
        """Long windows in linear time: each element of a window is an instruction."""
        return _PIPELINE if options.optimization_level else None

    def can_fuse(self, producer: HloInstruction, consumer: HloInstruction) -> Support:
        """Whatever the general rule allows: what strides cannot express gets a stage of its own."""
        return YES

    @property
    def epilogues(self) -> frozenset[str]:
        """What the emitter applies elementwise instructions to before it is stored."""
        return frozenset(EPILOGUES)

    # Families of kernels; all go to the same emitter, which looks at the root itself.

    def lower_loop(self, spec: KernelSpec, options: CompileOptions) -> KernelCode:
        """Elementwise kernels and data movement; the workspace holds arrays between stages."""
        made = emit_kernel(spec, buffering_of(options))
        instrument.dump(spec.name, "npu.s", lambda: disassemble(made.code))
        return KernelCode(
            spec.name, made.code, format=CODE_FORMAT, workspace_nbytes=made.workspace_nbytes
        )

    lower_dot = lower_loop
    lower_convolution = lower_loop
    lower_reduce = lower_loop
    lower_window = lower_loop
    lower_scatter = lower_loop
    lower_gather = lower_loop
