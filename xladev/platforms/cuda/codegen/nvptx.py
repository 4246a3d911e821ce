"""NVIDIA's target: what primitives are there, the kernel's entry, and PTX from LLVM.

What LLVM cannot lower for NVPTX ends the process, so only what was tried may be in the text; and
PTX that calls a function nobody defines is refused here, not by the driver.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager

from xladev import instrument
from xladev.codegen.llvm import TargetTraits
from xladev.codegen.simt import entry
from xladev.codegen.simt.atomics import device_atomics
from xladev.codegen.simt.definitions import NO_EXCHANGE, call_of, shared_memory_in
from xladev.codegen.simt.emulation.host_code import emulated
from xladev.codegen.simt.kernel import ThreadFunction
from xladev.codegen.simt.math.functions import functions_with
from xladev.codegen.simt.primitives import ALIGNMENT
from xladev.codegen.simt.target import SimtTarget, TargetEmulation
from xladev.errors import CompileError
from xladev.platforms.cuda.codegen import mma_fragments, tensor_cores
from xladev.platforms.cuda.codegen.approximations import APPROXIMATIONS, ptx_definitions
from xladev.platforms.cuda.codegen.kinds import GENERAL, MACHINE, ON_TENSOR_CORES
from xladev.platforms.cuda.codegen.patches import CUDA_RULES, CUDA_VECTOR_RULES

TRIPLE = "nvptx64-nvidia-cuda"
PTX_VERSION = "+ptx86"
"""PTX 8.6: every driver since CUDA 12.7 takes it."""
TRAITS = TargetTraits(
    triple=TRIPLE,
    has_half_conversion=True,
    has_bfloat_conversion=True,
    has_indexed_vectors=False,
    has_prefetch=False,
    array_alignment=ALIGNMENT,
    functions=functions_with(APPROXIMATIONS),
)

_INLINE_THRESHOLD = 100_000
"""Calls cost more than code: everything is inlined."""


_SHARED_SPACE = 3
"""Address space of a block's shared memory."""

PRIMITIVES: Mapping[str, str] = MappingProxyType(
    {
        **ptx_definitions(),
        "xd.tid.x": call_of("xd.tid.x", "llvm.nvvm.read.ptx.sreg.tid.x"),
        "xd.block.x": call_of("xd.block.x", "llvm.nvvm.read.ptx.sreg.ctaid.x"),
        "xd.barrier": """
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32) convergent
define internal void @xd.barrier(ptr %simt) alwaysinline convergent {
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  ret void
}""",
        "xd.exchange": NO_EXCHANGE,
        "xd.shuffle": """
declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32) convergent
define internal i32 @xd.shuffle(ptr %simt, i32 %bits, i32 %mask) alwaysinline convergent {
  %r = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %bits, i32 %mask, i32 31)
  ret i32 %r
}""",
        **device_atomics("device"),
        tensor_cores.SYMBOL: tensor_cores.NVPTX,
        **mma_fragments.NVPTX,
        "xd.shared": shared_memory_in(_SHARED_SPACE),
    }
)
"""Definitions by name."""

_ALLOWED = re.compile(
    r"llvm\.(?:nvvm\.(?:read\.ptx\.sreg\.(?:\w+\.x|laneid)|mma\.m16n8k16\.row\.col\.(?:bf16|f32\.f32)|barrier\.cta\.sync\.aligned\.all|shfl\.sync\.bfly\.i32)"
    r"|memcpy\.p0\.p0\.i64"
    r"|arithmetic\.fence\.(?:v\d+)?f(?:32|64)"
    r"|(?:fabs|sqrt|floor|ceil|trunc|rint|round|roundeven|copysign|minimum|maximum|minnum|maxnum"
    r"|fma)\.(?:v\d+)?(?:f32|f64)"
    r"|(?:ctpop|bitreverse|bswap|ctlz|cttz|abs|smax|smin|umax|umin|sadd\.sat|uadd\.sat|ssub\.sat"
    r"|usub\.sat|fshl|fshr)\.(?:v\d+)?i\d+"
    r"|fpto[su]i\.sat\.(?:v\d+)?i\d+\.(?:v\d+)?f(?:32|64)"
    r"|vector\.reduce\.\w+\.v\d+\w+)"
)
"""Intrinsics that LLVM lowers for this target without a library; each is tried in the tests."""


def _entry_attributes(block: int, resident: int) -> str:
    # without the second, ptxas spills to fit 2,048 threads into a multiprocessor
    return f'"nvvm.maxntid"="{block}" "nvvm.minctasm"="{resident}"'


TARGET = SimtTarget(
    name=TRIPLE,
    traits=TRAITS,
    primitives=PRIMITIVES,
    machine=MACHINE,
    linkage="ptx_kernel",
    entry_attributes=_entry_attributes,
    kinds=ON_TENSOR_CORES,
    rules=CUDA_RULES,
    vector_rules=CUDA_VECTOR_RULES,
    emulation=TargetEmulation(
        APPROXIMATIONS,
        MappingProxyType({tensor_cores.SYMBOL: tensor_cores.HOST, **mma_fragments.HOST}),
        mma_fragments.PAIRS,
    ),
)
"""GPUs with tensor cores for bf16, from sm_80 on."""
WITHOUT_TENSOR_CORES = replace(TARGET, kinds=GENERAL)
"""Older ones."""


@cache
def emulated_target() -> SimtTarget:
    """`TARGET`, emulated on the host."""
    return emulated(TARGET)


def kernel_text(thread: ThreadFunction) -> tuple[str, str]:
    """The module for LLVM, and its entry symbol; see `ptx_of`."""
    return entry.kernel_text(thread, TARGET)


def check_intrinsics(text: str, name: str) -> None:
    """Refuses intrinsics that might end the process.

    Raises:
        CompileError: naming the first.
    """
    for symbol in sorted(set(re.findall(r"@(llvm\.[\w.]+)", text))):
        if not _ALLOWED.fullmatch(symbol):
            raise CompileError(
                f"intrinsic {symbol} is not on the list for NVPTX",
                where=f"kernel {name}",
                why="LLVM aborts the process on intrinsics that a target cannot lower",
                hint="add it to platforms/cuda/codegen/nvptx.py, and try it in a child process",
            )


def ptx_of(name: str, text: str, target: str, optimization_level: int = 3) -> str:
    """PTX of a module for a target such as ``sm_90a``.

    Raises:
        CompileError: LLVM rejects the text, or the PTX would not stand alone.
    """
    check_intrinsics(text, name)
    machine = _target_machine(target, optimization_level)
    try:
        module = llvm.parse_assembly(_with_layout(text, str(machine.target_data)))
        module.verify()
    except RuntimeError as e:
        instrument.dump(f"{name}.rejected", "ll", lambda: text)
        raise CompileError(f"LLVM rejected the code of {name}", why=str(e)) from e
    _run_passes(machine, module, optimization_level)
    ptx = str(machine.emit_assembly(module))
    instrument.dump(name, "ptx", lambda: ptx)
    if ".extern .func" in ptx:
        raise CompileError(
            f"the PTX of {name} calls functions that nobody defines",
            why=", ".join(re.findall(r"\.extern \.func[^;]*", ptx)),
        )
    return ptx


def _with_layout(text: str, layout: str) -> str:
    return text.replace("target triple", f'target datalayout = "{layout}"\ntarget triple', 1)


@cache
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def _target_machine(target: str, level: int) -> llvm.TargetMachine:
    _initialize()
    nvptx = llvm.Target.from_triple(TRIPLE)
    return nvptx.create_target_machine(cpu=target, features=PTX_VERSION, opt=max(level, 1))


def _run_passes(machine: llvm.TargetMachine, module: llvm.ModuleRef, level: int) -> None:
    tuning = llvm.create_pipeline_tuning_options(speed_level=max(level, 1))
    tuning.inlining_threshold = _INLINE_THRESHOLD
    builder = llvm.create_pass_builder(machine, tuning)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    # llvmlite 0.50 hides the method that frees a pass manager.
    NewPassManager._dispose(passes)
    passes.detach()
