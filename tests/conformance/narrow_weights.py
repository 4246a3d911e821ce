"""Products with weights of 8 and 4 bits, as frameworks write what makes numbers of them.

Scales and zero points are for columns or for groups of lines; two numbers of 4 bits share a byte,
the first one in its low half. Weights lie line by line or column by column. Bytes take all values,
so that halves in the wrong place, signs and groups are seen.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from xladev.hlo.ir import HloModule
from xladev.testing.conformance.case import Case, Row

Sizes = tuple[int, int, int, int]

SIZES: dict[str, Sizes] = {
    "row": (1, 64, 256, 32),
    "rows": (5, 96, 66, 16),
    "many": (17, 64, 40, 8),
}
"""Rows, lines, columns, lines of a group."""

HELD = {
    "s8": "n = s8[{dims}] parameter(1)",
    "s8-layers": """a = s8[3,{dims}] parameter(1)  one = s32[] constant(1)  zero = s32[] constant(0)
  one_layer = s8[1,{dims}] dynamic-slice(a, one, zero, zero), dynamic_slice_sizes={{1,{dims}}}
  n = s8[{dims}] reshape(one_layer)""",
    "s4": """p = u8[{half}] parameter(1)  pairs = s4[{half},2] bitcast-convert(p)
  n = s4[{dims}] reshape(pairs)""",
    "u4": """p = u8[{half}] parameter(1)  pairs = u4[{half},2] bitcast-convert(p)
  n = u4[{dims}] reshape(pairs)""",
    "u4-masks": """p = u8[{half}] parameter(1)  fifteen = u8[] constant(15)  four = u8[] constant(4)
  mask = u8[{half}] broadcast(fifteen), dimensions={{}}
  by = u8[{half}] broadcast(four), dimensions={{}}
  low = u8[{half}] and(p, mask)  high = u8[{half}] shift-right-logical(p, by)
  first = u8[{half},1] reshape(low)  second = u8[{half},1] reshape(high)
  pairs = u8[{half},2] concatenate(first, second), dimensions={{2}}
  n = u8[{dims}] reshape(pairs)""",
    "u4-shifts": """p = u8[{half}] parameter(1)  fifteen = u8[] constant(15)
  twice = u8[{half},2] broadcast(p), dimensions={{0,1}}  places = u8[2] constant({{0, 4}})
  by = u8[{half},2] broadcast(places), dimensions={{2}}
  mask = u8[{half},2] broadcast(fifteen), dimensions={{}}
  moved = u8[{half},2] shift-right-logical(twice, by)  pairs = u8[{half},2] and(moved, mask)
  n = u8[{dims}] reshape(pairs)""",
}
"""HLO of whole numbers ``n``, by how they are held."""
NUMBERS = {
    "columns": """f = {dtype}[{dims}] convert(n)
  s = {dtype}[{columns}] parameter(2)  t = {dtype}[{dims}] broadcast(s), dimensions={{{column}}}
  w = {dtype}[{dims}] multiply(f, t)""",
    "groups": """r = {held}[{cut}] reshape(n)  f = {dtype}[{cut}] convert(r)
  s = {dtype}[{scales}] parameter(2)  t = {dtype}[{cut}] broadcast(s), dimensions={{{at}}}
  m = {dtype}[{cut}] multiply(f, t)  w = {dtype}[{dims}] reshape(m)""",
    "zeros": """r = {held}[{cut}] reshape(n)  f = {dtype}[{cut}] convert(r)
  s = {dtype}[{scales}] parameter(2)  t = {dtype}[{cut}] broadcast(s), dimensions={{{at}}}
  z = u8[{scales}] parameter(3)  g = {dtype}[{scales}] convert(z)
  o = {dtype}[{cut}] broadcast(g), dimensions={{{at}}}  d = {dtype}[{cut}] subtract(f, o)
  m = {dtype}[{cut}] multiply(d, t)  w = {dtype}[{dims}] reshape(m)""",
}
"""HLO of the weights ``w`` as floats, by what their scales are for."""
WAYS = (
    ("s8", "columns"), ("s8", "groups"), ("s8", "zeros"), ("s8-layers", "columns"),
    ("s4", "columns"), ("s4", "groups"), ("u4", "zeros"), ("u4-masks", "zeros"),
    ("u4-shifts", "zeros"),
)  # fmt: skip


def product(held: str, scaled: str, dtype: str, sizes: Sizes, turned: bool) -> str:
    """HLO of rows times weights; ``turned`` where columns lie along memory."""
    rows, lines, columns, group = sizes
    groups = lines // group
    outer, inner = (columns, lines) if turned else (lines, columns)
    words = {
        "dtype": dtype,
        "dims": f"{outer},{inner}",
        "half": f"{outer},{inner // 2}",
        "columns": columns,
        "column": int(not turned),
        "cut": f"{columns},{groups},{group}" if turned else f"{groups},{group},{columns}",
        "scales": f"{columns},{groups}" if turned else f"{groups},{columns}",
        "at": "0,1" if turned else "0,2",
        "held": {"s8": "s8", "s4": "s4", "u4": "u4"}.get(held.removesuffix("-layers"), "u8"),
    }
    return f"""HloModule narrow_weights
ENTRY e {{
  x = {dtype}[{rows},{lines}] parameter(0)
  {HELD[held].format(**words)}
  {NUMBERS[scaled].format(**words)}
  ROOT y = {dtype}[{rows},{columns}] dot(x, w), lhs_contracting_dims={{1}},
    rhs_contracting_dims={{{int(turned)}}}
}}"""


def draw(module: HloModule, seed: int) -> Sequence[Row]:
    """Rows and scales around 1, bytes of all values, zero points of 4 bits."""
    rng = np.random.default_rng(seed)
    row: list[np.ndarray] = []
    for parameter in module.entry.parameters:
        dtype, dims = parameter.shape.element_type, parameter.shape.dims
        if dtype.is_float:
            row.append(rng.uniform(-1.5, 1.5, dims).astype(dtype.np))
        else:
            low, high = (-128, 128) if dtype.is_signed else (0, 16 if len(row) == 3 else 256)
            row.append(rng.integers(low, high, dims).astype(dtype.np))
    return [row]


def products() -> Iterator[Case]:
    """Every way, type and order of weights."""
    for held, scaled in WAYS:
        for dtype in ("f32", "bf16"):
            for name, sizes in SIZES.items():
                for turned in (False, True):
                    text = product(held, scaled, dtype, sizes, turned)
                    order = "-along-lines" if turned else ""
                    label = f"{held}-{scaled}-{dtype}-{name}{order}"
                    yield Case(label, text, "", dtype, ("lowprec",), inputs=draw)


CASES = tuple(products())
