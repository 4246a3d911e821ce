"""Targets that no platform here has: AMD's waves of 64 threads, and made up sub-groups of 16."""

from dataclasses import replace

import numpy as np

from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import TargetTraits
from xladev.codegen.simt.approximations import Approximation
from xladev.codegen.simt.atomics import device_atomics
from xladev.codegen.simt.definitions import NO_EXCHANGE, call_of, shared_memory_in
from xladev.codegen.simt.emulation.host_code import HostKernel, emulated, host_image
from xladev.codegen.simt.emulation.host_threads import PATTERN, host_text
from xladev.codegen.simt.kernel import emit_stages
from xladev.codegen.simt.machine import SimtMachine
from xladev.codegen.simt.math.functions import functions_with
from xladev.codegen.simt.target import SimtTarget, TargetEmulation
from xladev.hlo.ir import HloModule

APPROXIMATIONS = {
    "xd.ex2": Approximation("%r = call double @exp2(double %x)", ulps=1, flushes=True),
    "xd.rcp": Approximation("%r = fdiv double 1.0, %x", ulps=1, flushes=True),
    "xd.rsqrt": Approximation(
        "%root = call double @sqrt(double %x)\n  %r = fdiv double 1.0, %root", ulps=1
    ),
}
"""Fewer than NVIDIA's GPUs have: no tanh, no quotient."""


def _instruction(symbol: str, intrinsic: str) -> str:
    return (
        f"declare float @{intrinsic}(float)\n"
        f"define internal float @{symbol}(float %a) alwaysinline {{\n"
        f"  %r = call float @{intrinsic}(float %a)\n  ret float %r\n}}"
    )


_SHUFFLE = """
declare i32 @llvm.amdgcn.mbcnt.lo(i32, i32)
declare i32 @llvm.amdgcn.mbcnt.hi(i32, i32)
declare i32 @llvm.amdgcn.ds.bpermute(i32, i32) convergent
define internal i32 @xd.shuffle(ptr %simt, i32 %bits, i32 %mask) alwaysinline convergent {
  %low = call i32 @llvm.amdgcn.mbcnt.lo(i32 -1, i32 0)
  %lane = call i32 @llvm.amdgcn.mbcnt.hi(i32 -1, i32 %low)
  %peer = xor i32 %lane, %mask
  %nbytes = shl i32 %peer, 2
  %r = call i32 @llvm.amdgcn.ds.bpermute(i32 %nbytes, i32 %bits)
  ret i32 %r
}"""
_BARRIER = """
declare void @llvm.amdgcn.s.barrier() convergent
define internal void @xd.barrier(ptr %simt) alwaysinline convergent {
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  ret void
}"""

WAVES = SimtTarget(
    name="amdgcn-amd-amdhsa",
    traits=TargetTraits(
        triple="amdgcn-amd-amdhsa",
        has_bfloat_conversion=False,
        has_indexed_vectors=False,
        has_prefetch=False,
        array_alignment=16,
        functions=functions_with(APPROXIMATIONS),
    ),
    machine=SimtMachine(subgroup=64, shared_nbytes=64 << 10, atomic_bits=(32,)),
    primitives={
        "xd.tid.x": call_of("xd.tid.x", "llvm.amdgcn.workitem.id.x"),
        "xd.block.x": call_of("xd.block.x", "llvm.amdgcn.workgroup.id.x"),
        "xd.barrier": _BARRIER,
        "xd.exchange": NO_EXCHANGE,
        "xd.shuffle": _SHUFFLE,
        "xd.shared": shared_memory_in(3),
        "xd.ex2": _instruction("xd.ex2", "llvm.amdgcn.exp2.f32"),
        "xd.rcp": _instruction("xd.rcp", "llvm.amdgcn.rcp.f32"),
        "xd.rsqrt": _instruction("xd.rsqrt", "llvm.amdgcn.rsq.f32"),
        **device_atomics("agent"),
    },
    linkage="amdgpu_kernel",
    array_space=1,
    entry_attributes=lambda block, resident: f'"amdgpu-flat-work-group-size"="{block},{block}"',
    emulation=TargetEmulation(APPROXIMATIONS),
)
NARROW = replace(
    WAVES, name="sub-groups of 16", machine=SimtMachine(subgroup=16, shared_nbytes=16 << 10)
)
"""For the emulator alone, with as little shared memory as Vulkan promises."""
TARGETS = {"64 wide": WAVES, "16 wide": NARROW}


def results_of(module: HloModule, arguments: list[np.ndarray], target: SimtTarget, seed: int = 0):
    """What the kernel of a whole module computes in the emulator of blocks."""
    spec, device = KernelSpec("kernel", module.entry), emulated(target)
    kind = device.kind_of(spec)
    arrays = [np.ascontiguousarray(a).copy() for a in arguments]
    arrays += [np.empty(s.dims, s.element_type.np) for s in spec.results]
    arrays += [np.empty(kind.workspace_nbytes, np.uint8)] if kind.workspace_nbytes else []
    held = [_aligned(a, is_new=n >= len(arguments)) for n, a in enumerate(arrays)]
    for stage in emit_stages(spec, device, kind):
        image = host_image(stage.name, host_text(stage, device), stage.nbytes)
        grid, block = stage.dimensions.grid, stage.dimensions.block
        addresses = [a.ctypes.data for a in held]
        turns = (2 * seed + 1, seed)  # counts of sub-groups are powers of two, of blocks any
        fault = HostKernel(image).run(grid, block, addresses, (1, seed), turns)
        assert fault is None, f"{stage.name}: {fault}"
    first = len(arguments)
    return [
        a[: r.nbytes].view(r.dtype).reshape(r.shape)
        for a, r in zip(held[first:], arrays[first : first + len(spec.results)], strict=False)
    ]


def _aligned(array: np.ndarray, *, is_new: bool) -> np.ndarray:
    """The bytes of an array at a multiple of 64, or the emulator's pattern."""
    room = np.full(array.nbytes + 64, PATTERN, np.uint8)
    start = -room.ctypes.data % 64
    place = room[start : start + array.nbytes]
    if not is_new:
        place[:] = array.reshape(-1).view(np.uint8)
    return place
