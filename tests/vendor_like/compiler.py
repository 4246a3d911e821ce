"""The compiler: what the chip takes, and what it says of its rates and links."""

from __future__ import annotations

from types import MappingProxyType

from tests.async_npu.compiler import AsyncCompiler
from xladev.compiler.description import DeviceDescription, Link, MemorySpace
from xladev.compiler.support import Support, no
from xladev.hlo.ir import HloInstruction

STREAMS = 2
PRODUCTS = frozenset({"dot", "convolution"})
REDUCTIONS = frozenset({"reduce"})

DESCRIPTION = DeviceDescription(
    name="vendor-like chip (software)",
    kind="npu",
    target="vendor-like",
    memory_spaces=(MemorySpace("device", 1 << 30, bandwidth=2e11, alignment=128),),
    peak_flops=MappingProxyType({"f32": 4e12, "bf16": 8e12, "s8": 16e12}),
    links=MappingProxyType({"host": Link(1.2e10, 8e-6), "vendor_like": Link(5e10, 4e-6)}),
    cores=1 << 16,
    compute_streams=STREAMS,
    streams_share_cores=False,
    launch_overhead_s=4e-6,
)


class VendorLikeCompiler(AsyncCompiler):
    """Products, elementwise operations and reductions."""

    @property
    def platform(self) -> str:
        return "vendor_like"

    def describe(self, target: str | None = None) -> DeviceDescription:
        return DESCRIPTION

    def supports(self, instruction: HloInstruction, description: DeviceDescription) -> Support:
        opcode = instruction.opcode
        if opcode not in PRODUCTS | REDUCTIONS and not instruction.op.elementwise:
            return no(f"the chip has no {opcode}")
        return super().supports(instruction, description)
