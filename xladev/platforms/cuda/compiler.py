"""The compilers of ``cuda`` and ``cuda_emu``: one neutral kernel each, for PTX or for the host.

The SDK fuses, assigns buffers and runs the kernels one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xladev import instrument
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.simt.emulation import host_code
from xladev.codegen.simt.emulation.host_threads import host_text
from xladev.codegen.simt.kernel import ThreadFunction, emit_stages
from xladev.codegen.simt.kernel_kind import KernelKind
from xladev.codegen.simt.reductions.scans import row_scan
from xladev.codegen.simt.target import SimtTarget
from xladev.compiler.description import DeviceDescription
from xladev.compiler.fusion.attention_fusion import AttentionFusion
from xladev.compiler.fusion.fusion_pipeline import fusion_passes
from xladev.compiler.fusion.reduction_fusion import can_reduce_together
from xladev.compiler.kernel_code import KernelCode
from xladev.compiler.kernel_compiler import KernelCompiler
from xladev.compiler.options import CompileOptions, PlatformOption
from xladev.compiler.support import YES, Support
from xladev.hlo.ir import HloInstruction
from xladev.passes.pipeline import HloPassPipeline
from xladev.passes.reduce_window_rewriter import ReduceWindowRewriter
from xladev.platforms.cuda.attention import MarkAttention, takes_attention
from xladev.platforms.cuda.codegen import nvptx
from xladev.platforms.cuda.description import describe_target, has_tensor_cores
from xladev.platforms.cuda.driver.found import missing
from xladev.platforms.cuda.libraries.calls import FORMAT, SHARED, write_call
from xladev.platforms.cuda.libraries.cudnn_calls import Refusal, no_refusal
from xladev.platforms.cuda.libraries.custom_calls import call_of, is_library_call
from xladev.platforms.cuda.libraries.rules import LIBRARIES, LibraryCalls
from xladev.platforms.cuda.machine import machine_refusal, machine_state, machine_target
from xladev.platforms.cuda.support import cuda_supports

_WINDOWS = ReduceWindowRewriter(spares=lambda i: row_scan(i) is not None, gain=8.0)
"""Windows that cost little more than their memory stay one kernel."""

OPTIONS = (
    PlatformOption("library_products", True, "matrix products by cuBLASLt, where it has them"),
    PlatformOption("library_convolutions", True, "convolutions by cuDNN, where it is installed"),
    PlatformOption("tf32", False, "products of f32, convolutions too, may round to tf32"),
)


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
        """Of the generated code, and what libraries compute."""
        opcodes = ",".join(sorted(self.library_opcodes))
        return f"neutral 1, {nvptx.PTX_VERSION}, libraries {opcodes}"

    def platform_options(self) -> tuple[PlatformOption, ...]:
        """Whether to call libraries, and how exact their products of f32 are."""
        return OPTIONS

    def pipeline(self, options: CompileOptions) -> HloPassPipeline | None:
        """Long windows in linear time; calls of libraries, for what they compute."""
        opcodes = self.library_opcodes
        if not options.extra(self.platform, "library_products", True):
            opcodes -= {"dot"}
        if not options.extra(self.platform, "library_convolutions", True):
            opcodes -= {"convolution"}
        allow_tf32 = bool(options.extra(self.platform, "tf32", False))
        refusal = self.refusal(options)
        calls = LibraryCalls(allow_tf32, options.deterministic, opcodes, refusal)
        return HloPassPipeline("libraries", (_WINDOWS, MarkAttention(), calls))

    def refusal(self, options: CompileOptions) -> Refusal:
        """What to ask whether a library takes a call: this machine's GPU, if it is the target."""
        return machine_refusal if self._is_for_this_machine(options) else no_refusal

    def cache_state(self, options: CompileOptions) -> str:
        """Who was asked."""
        return machine_state() if self._is_for_this_machine(options) else ""

    def _is_for_this_machine(self, options: CompileOptions) -> bool:
        return self.describe(options.target).target == machine_target()

    def supports(self, instruction: HloInstruction, description: DeviceDescription) -> Support:
        """Whatever the elemental emitters have code for, or a library computes."""
        return cuda_supports(instruction, self.library_opcodes)

    @property
    def library_opcodes(self) -> frozenset[str]:
        """Opcodes whose libraries this machine has."""
        return frozenset(opcode for opcode, name in LIBRARIES.items() if not missing(name))

    def fusion_pipeline(self, options: CompileOptions) -> HloPassPipeline:
        """Attention first: its parts are kernels of other kinds too.

        Softmaxes and normalisations are one kernel each (`codegen.simt.reductions.row_programs`).
        """
        first = (AttentionFusion(takes_attention),)
        return fusion_passes(self, rows=True, first=first)

    def can_fuse(self, producer: HloInstruction, consumer: HloInstruction) -> Support:
        """Whatever the general rule allows."""
        return YES

    def can_share_kernel(self, first: HloInstruction, second: HloInstruction) -> Support:
        """Loops over the same elements, and reductions that go in any order."""
        return can_reduce_together(first, second)

    def lower(self, spec: KernelSpec, options: CompileOptions) -> KernelCode:
        """PTX: the driver compiles it for its device when it is loaded."""
        if is_library_call(spec.computation.root):
            return _library_code(spec)
        target = self.describe(options.target).target
        device = nvptx.TARGET if has_tensor_cores(target) else nvptx.WITHOUT_TENSOR_CORES
        kind = device.kind_of(spec)
        threads = emit_stages(spec, device, kind)
        level = options.optimization_level
        codes = [_ptx_code(thread, target, level) for thread in threads]
        return _in_sequence(codes, kind)


class CudaEmulationCompiler(CudaCompiler):
    """Compiles the same kernels for the emulated driver."""

    @property
    def platform(self) -> str:
        """``cuda_emu``."""
        return "cuda_emu"

    def describe(self, target: str | None = None) -> DeviceDescription:
        """As for ``cuda``, but never what this machine has."""
        return describe_target(target)

    def _is_for_this_machine(self, options: CompileOptions) -> bool:
        """Never: a call that the emulated libraries refuse is a fault to be found."""
        return False

    @property
    def library_opcodes(self) -> frozenset[str]:
        """All that are emulated."""
        return frozenset(LIBRARIES)

    def version(self) -> str:
        """Of the generated code, and the host's processor, which it runs on."""
        return f"{super().version()}, image {host_code.IMAGE_VERSION}, {host_code.host_name()}"

    def lower(self, spec: KernelSpec, options: CompileOptions) -> KernelCode:
        """Host code of all threads, with every access checked."""
        if is_library_call(spec.computation.root):
            return _library_code(spec)
        device = nvptx.emulated_target()
        kind = device.kind_of(spec)
        threads = emit_stages(spec, device, kind)
        return _in_sequence([_host_code(thread, device) for thread in threads], kind)


def _library_code(spec: KernelSpec) -> KernelCode:
    """A call of a library, for either driver."""
    call = call_of(spec.computation.root)
    code = write_call(call).encode()
    return KernelCode(
        spec.name,
        code,
        format=FORMAT,
        workspace_nbytes=call.workspace_nbytes,
        shares=SHARED.get(type(call), ""),
    )


def _ptx_code(thread: ThreadFunction, target: str, level: int) -> KernelCode:
    """One launch for a GPU."""
    text, entry = nvptx.kernel_text(thread)
    instrument.dump(thread.name, "ll", lambda: text)
    ptx = nvptx.ptx_of(thread.name, text, target, level)
    return KernelCode(entry, ptx.encode(), thread.dimensions, "ptx")


def _host_code(thread: ThreadFunction, device: SimtTarget) -> KernelCode:
    """One launch for the emulated driver."""
    text = host_text(thread, device)
    instrument.dump(thread.name, "ll", lambda: text)
    image = host_code.host_image(thread.name, text, thread.nbytes)
    return KernelCode(thread.name, image, thread.dimensions, "host-threads")


def _in_sequence(codes: Sequence[KernelCode], kind: KernelKind) -> KernelCode:
    """The launches of a kernel, as one."""
    first, *then = codes
    return replace(first, workspace_nbytes=kind.workspace_nbytes, then=tuple(then))
