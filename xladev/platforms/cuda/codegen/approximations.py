"""The approximate instructions of NVIDIA's GPUs: what PTX they are, and how wrong they may be.

The bounds are those of the PTX ISA (section "Floating Point Instructions") and of the CUDA C++
Programming Guide (appendix "Mathematical Functions"); none of them was measured here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.codegen.simt.approximations import Approximation, operands

APPROXIMATIONS: Mapping[str, Approximation] = MappingProxyType(
    {
        "xd.ex2": Approximation("%r = call double @exp2(double %x)", ulps=2),
        "xd.lg2": Approximation("%r = call double @log2(double %x)", ulps=2, absolute=2.0**-22),
        "xd.rcp": Approximation("%r = fdiv double 1.0, %x", ulps=1, flushes=True),
        "xd.rsqrt": Approximation(
            "%root = call double @sqrt(double %x)\n  %r = fdiv double 1.0, %root",
            relative=2.0**-22.9,
        ),
        "xd.sqrt": Approximation("%r = call double @sqrt(double %x)", relative=2.0**-23),
        "xd.tanh": Approximation("%r = call double @tanh(double %x)", relative=2.0**-11),
        "xd.div": Approximation("%r = fdiv double %x, %y", ulps=2, arity=2),
    }
)
"""By primitive."""
INSTRUCTIONS: Mapping[str, str] = MappingProxyType(
    {
        "xd.ex2": "ex2.approx.f32",
        "xd.lg2": "lg2.approx.f32",
        "xd.rcp": "rcp.approx.ftz.f32",
        "xd.rsqrt": "rsqrt.approx.f32",
        "xd.sqrt": "sqrt.approx.f32",
        "xd.tanh": "tanh.approx.f32",
        "xd.div": "div.full.f32",
    }
)
"""In PTX, by primitive."""


def ptx_definitions() -> dict[str, str]:
    """Definitions of the primitives by an instruction each."""
    return {symbol: _ptx(symbol, a) for symbol, a in APPROXIMATIONS.items()}


def _ptx(symbol: str, a: Approximation) -> str:
    positions = ", ".join(f"${n}" for n in range(a.arity + 1))
    constraints = ",".join(["=f", *["f"] * a.arity])
    return (
        f"define internal float @{symbol}({operands(a)}) alwaysinline {{\n"
        f'  %r = call float asm "{INSTRUCTIONS[symbol]} {positions};", '
        f'"{constraints}"({operands(a)})\n'
        "  ret float %r\n}"
    )
