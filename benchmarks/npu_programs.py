"""Programs for the template NPU's counters, each with tensors of 100 times the scratchpad.

A lower bound of what must move between DRAM and the scratchpad comes with each: every operand is
read and every result written at least once, and a sum of m x n x k products reads at least
2 m n k / sqrt(S) - 2 S elements with a scratchpad of S elements (Smith, Lowery, Langou, van de
Geijn, "A tight I/O lower bound for matrix multiplication", 2019).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod, sqrt
from types import MappingProxyType

from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.template_npu.device.isa import SCRATCHPAD_NBYTES

LEAST_NBYTES = 100 * SCRATCHPAD_NBYTES
"""Every program has an array of at least this size."""

_REDUCERS = """
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
"""


@dataclass(frozen=True, slots=True)
class NpuProgram:
    """One program.

    Attributes:
        body: lines of its entry computation.
        products: (m, n, k) of its sum of products, if it has one.
        element_nbytes: size of the elements of that sum's operands.
    """

    body: str
    products: tuple[int, int, int] | None = None
    element_nbytes: int = 4

    def module(self, name: str) -> HloModule:
        """The program."""
        return parse_module(f"HloModule {name}\n{_REDUCERS}\nENTRY e {{{self.body}}}")

    def bound_nbytes(self, module: HloModule) -> int:
        """Bytes that any schedule moves at least, of loads and stores."""
        loaded = sum(p.shape.nbytes for p in module.entry.parameters)
        if self.products is not None:
            held = SCRATCHPAD_NBYTES // self.element_nbytes
            elements = 2 * prod(self.products) / sqrt(held) - 2 * held
            loaded = max(loaded, int(elements) * self.element_nbytes)
        return loaded + sum(leaf.nbytes for _, leaf in module.entry.root.shape.leaves())


PROGRAMS: Mapping[str, NpuProgram] = MappingProxyType(
    {
        "dense layer, square": NpuProgram(
            """
            x = f32[2560,2560] parameter(0)  w = f32[2560,2560] parameter(1)
            b = f32[2560] parameter(2)  z = f32[] constant(0)
            d = f32[2560,2560] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
            bb = f32[2560,2560] broadcast(b), dimensions={1}  s = f32[2560,2560] add(d, bb)
            zz = f32[2560,2560] broadcast(z), dimensions={}
            ROOT r = f32[2560,2560] maximum(s, zz)""",
            (2560, 2560, 2560),
        ),
        "dense layer, many rows": NpuProgram(
            """
            x = f32[102400,64] parameter(0)  w = f32[64,64] parameter(1)  b = f32[64] parameter(2)
            z = f32[] constant(0)
            d = f32[102400,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
            bb = f32[102400,64] broadcast(b), dimensions={1}  s = f32[102400,64] add(d, bb)
            zz = f32[102400,64] broadcast(z), dimensions={}
            ROOT r = f32[102400,64] maximum(s, zz)""",
            (102400, 64, 64),
        ),
        "dense layer, bf16": NpuProgram(
            """
            x = bf16[5120,2560] parameter(0)  w = bf16[2560,2560] parameter(1)
            d = bf16[5120,2560] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
            ROOT r = bf16[5120,2560] tanh(d)""",
            (5120, 2560, 2560),
            2,
        ),
        "convolution 3x3, bias, relu": NpuProgram(
            """
            x = f32[8,128,128,64] parameter(0)  k = f32[3,3,64,64] parameter(1)
            b = f32[64] parameter(2)  z = f32[] constant(0)
            c = f32[8,128,128,64] convolution(x, k), window={size=3x3 pad=1_1x1_1},
              dim_labels=b01f_01io->b01f
            bb = f32[8,128,128,64] broadcast(b), dimensions={3}  s = f32[8,128,128,64] add(c, bb)
            zz = f32[8,128,128,64] broadcast(z), dimensions={}
            ROOT r = f32[8,128,128,64] maximum(s, zz)""",
        ),
        "chain of eight elementwise": NpuProgram(
            """
            x = f32[6553600] parameter(0)  y = f32[6553600] parameter(1)
            a = f32[6553600] add(x, y)  b = f32[6553600] multiply(a, x)
            c = f32[6553600] subtract(b, y)  d = f32[6553600] abs(c)  e = f32[6553600] sqrt(d)
            f = f32[6553600] maximum(e, a)  g = f32[6553600] negate(f)
            ROOT h = f32[6553600] add(g, b)""",
        ),
        "sum of rows": NpuProgram(
            """
            x = f32[2560,2560] parameter(0)  z = f32[] constant(0)
            s = f32[2560] reduce(x, z), dimensions={1}, to_apply=add
            ROOT r = f32[2560] sqrt(s)""",
        ),
        "sum of columns": NpuProgram(
            """
            x = f32[2560,2560] parameter(0)  z = f32[] constant(0)
            m = f32[2560,2560] multiply(x, x)
            ROOT s = f32[2560] reduce(m, z), dimensions={0}, to_apply=add""",
        ),
        "softmax": NpuProgram(
            """
            x = f32[6400,1024] parameter(0)  l = f32[] constant(-inf)  z = f32[] constant(0)
            m = f32[6400] reduce(x, l), dimensions={1}, to_apply=max
            mm = f32[6400,1024] broadcast(m), dimensions={0}
            d = f32[6400,1024] subtract(x, mm)  e = f32[6400,1024] exponential(d)
            s = f32[6400] reduce(e, z), dimensions={1}, to_apply=add
            ss = f32[6400,1024] broadcast(s), dimensions={0}
            ROOT r = f32[6400,1024] divide(e, ss)""",
        ),
        "layer norm": NpuProgram(
            """
            x = f32[6400,1024] parameter(0)  z = f32[] constant(0)  n = f32[] constant(1024)
            nn = f32[6400] broadcast(n), dimensions={}
            s = f32[6400] reduce(x, z), dimensions={1}, to_apply=add
            m = f32[6400] divide(s, nn)  mm = f32[6400,1024] broadcast(m), dimensions={0}
            d = f32[6400,1024] subtract(x, mm)  q = f32[6400,1024] multiply(d, d)
            v = f32[6400] reduce(q, z), dimensions={1}, to_apply=add
            w = f32[6400] divide(v, nn)  i = f32[6400] rsqrt(w)
            ii = f32[6400,1024] broadcast(i), dimensions={0}
            ROOT r = f32[6400,1024] multiply(d, ii)""",
        ),
        "transpose": NpuProgram(
            """
            x = f32[2560,2560] parameter(0)
            ROOT t = f32[2560,2560] transpose(x), dimensions={1,0}""",
        ),
    }
)
"""The programs by name."""
