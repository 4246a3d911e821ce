"""Products on tensor cores from registers: mma.m16n8k16 of bf16 and f16 into f32.

A neutral primitive, `multiply_fragments`: a warp multiplies 16 x 16 elements by n tiles of 16 x 8,
and adds them to n tiles of 16 x 8 sums. Operands and sums are spread over its threads as the PTX
ISA says (section "Matrix Fragments for mma.m16n8k16"): with g = lane / 4 and t = lane mod 4, a
thread has of the left operand rows g and g + 8, of the right one column g, each at 2t, 2t + 1 and
8 further; of the sums rows g and g + 8, columns 2t and 2t + 1. Each i32 holds two neighbours.

On the host threads put their parts where the others of the warp can read them, wait until all did,
and each adds its own four products of a tile in the order of the inner dimension.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from xladev.codegen.llvm import FLOAT, FunctionBuilder, IrType, Value
from xladev.codegen.simt.emulation.host_blocks import CONTEXT_NBYTES, OFFERS_NBYTES, OFFERS_OFFSET
from xladev.codegen.simt.primitives import offer, offers
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType

WARP = 32
"""Threads that multiply together."""
ROWS, COLUMNS, DEPTH = 16, 8, 16
SUMS = 4
LEFT, RIGHT = 4, 2
"""Registers of a thread, for the left operand and for each tile of the right one."""
MOST_TILES = 16
_TILES = range(2, MOST_TILES + 1, 2)
TYPES = (dt.BF16, dt.F16)
_INTRINSICS = {
    "bf16": "llvm.nvvm.mma.m16n8k16.row.col.bf16",
    "f16": "llvm.nvvm.mma.m16n8k16.row.col.f32.f32",
}


def _structure(count: int) -> str:
    return "{ " + ", ".join(["float"] * count) + " }"


def multiply_fragments(
    b: FunctionBuilder,
    dtype: PrimitiveType,
    left: Sequence[Value],
    right: Sequence[Value],
    sums: Sequence[Value],
) -> list[Value]:
    """The sums after the product of a fragment and some tiles; all threads of the warp take part.

    Args:
        b: the function of a thread.
        dtype: bf16 or f16.
        left: four i32.
        right: two i32 for each tile; tiles are even in number, `MOST_TILES` at most.
        sums: four f32 for each tile.
    """
    tiles = len(right) // RIGHT
    words = [*left, *right]
    symbol = f"xd.mma.{dtype}.x{tiles}"
    offer(b, words)
    all_sums = IrType(_structure(len(sums)))
    types = ("ptr", *["i32"] * len(words), *["float"] * len(sums))
    b.module.declare(symbol, all_sums, types)
    found = b.call(symbol, all_sums, b.arguments[0], *words, *sums)
    return [b.emit(FLOAT, f"extractvalue {found}, {n}") for n in range(len(sums))]


def _header(symbol: str, tiles: int, attributes: str) -> str:
    words = [f"i32 %a{n}" for n in range(LEFT)] + [f"i32 %b{n}" for n in range(RIGHT * tiles)]
    sums = [f"float %c{n}" for n in range(SUMS * tiles)]
    listed = ", ".join(["ptr %simt", *words, *sums])
    result = _structure(SUMS * tiles)
    return f"define internal {result} @{symbol}({listed}) {attributes} {{\n"


def _returned(names: Sequence[str]) -> str:
    """Lines that return values as a structure."""
    type_, before, lines = _structure(len(names)), "poison", ""
    for n, name in enumerate(names):
        lines += f"  %out{n} = insertvalue {type_} {before}, float {name}, {n}\n"
        before = f"%out{n}"
    return f"{lines}  ret {type_} {before}\n}}"


def _nvptx(dtype: str, tiles: int) -> str:
    intrinsic, four = _INTRINSICS[dtype], _structure(SUMS)
    word = "i32" if dtype == "bf16" else "<2 x half>"
    types = ", ".join([word] * (LEFT + RIGHT) + ["float"] * SUMS)
    text = f"declare {four} @{intrinsic}({types}) convergent\n"
    text += _header(f"xd.mma.{dtype}.x{tiles}", tiles, "alwaysinline convergent")
    words = [f"a{n}" for n in range(LEFT)] + [f"b{n}" for n in range(RIGHT * tiles)]
    text += "".join(f"  %{w}.w = bitcast i32 %{w} to {word}\n" for w in words)
    for tile in range(tiles):
        own = [f"a{n}" for n in range(LEFT)] + [f"b{RIGHT * tile + n}" for n in range(RIGHT)]
        sums = [f"float %c{SUMS * tile + n}" for n in range(SUMS)]
        listed = ", ".join([*(f"{word} %{w}.w" for w in own), *sums])
        text += f"  %all{tile} = call {four} @{intrinsic}({listed})\n"
        for n in range(SUMS):
            text += f"  %r{SUMS * tile + n} = extractvalue {four} %all{tile}, {n}\n"
    return text + _returned([f"%r{n}" for n in range(SUMS * tiles)])


_DECODED = {
    "bf16": """  %low.w = shl i32 %word, 16
  %low = bitcast i32 %low.w to float
  %high.w = and i32 %word, -65536
  %high = bitcast i32 %high.w to float
""",
    "f16": "".join(
        f"""  %{part}.h = {taken}
  %{part}.n = and i32 %{part}.h, 32767
  %{part}.m = shl i32 %{part}.n, 13
  %{part}.f = bitcast i32 %{part}.m to float
  %{part}.x = fmul float %{part}.f, 0x46F0000000000000
  %{part}.b = bitcast float %{part}.x to i32
  %{part}.e = icmp uge i32 %{part}.n, 31744
  %{part}.i = or i32 %{part}.m, 2139095040
  %{part}.c = select i1 %{part}.e, i32 %{part}.i, i32 %{part}.b
  %{part}.s = and i32 %{part}.h, 32768
  %{part}.t = shl i32 %{part}.s, 16
  %{part}.w = or i32 %{part}.c, %{part}.t
  %{part} = bitcast i32 %{part}.w to float
"""
        for part, taken in (("low", "and i32 %word, 65535"), ("high", "lshr i32 %word, 16"))
    ),
}
"""Lines from a ``%word`` to its two numbers; halves are scaled by 2**112, subnormals too."""


def _host_pair(dtype: str) -> str:
    """Adds the products of two pairs of neighbours to a sum, the first of each first."""
    decoded = "".join(
        _DECODED[dtype]
        .replace("%word", f"%{side}")
        .replace("%low", f"%{side}.low")
        .replace("%high", f"%{side}.high")
        for side in ("x", "y")
    )
    return (
        f"define internal float @xd.pair.{dtype}(i32 %x, i32 %y, float %sum) alwaysinline {{\n"
        f"{decoded}  %first = fmul float %x.low, %y.low\n  %part = fadd float %sum, %first\n"
        "  %second = fmul float %x.high, %y.high\n  %all = fadd float %part, %second\n"
        "  ret float %all\n}\n"
    )


def _read(name: str, lane: str, word: int) -> str:
    """A word that another thread of the warp offered."""
    return (
        f"  %{name}.p = getelementptr i8, ptr %slots, i64 {lane}\n"
        f"  %{name}.q = getelementptr i32, ptr %{name}.p, i64 {word}\n"
        f"  %{name} = load i32, ptr %{name}.q\n"
    )


_HOST_LANES = """  %tid = load i32, ptr %simt
  %lane = and i32 %tid, 31
  %back = sub i32 0, %lane
  %back.wide = sext i32 %back to i64
  %back.nbytes = mul i64 %back.wide, CONTEXT_NBYTES
  %warp = getelementptr i8, ptr %simt, i64 %back.nbytes
  %parity.place = getelementptr i8, ptr %simt, i64 20
  %parity = load i32, ptr %parity.place
  %parity.wide = zext i32 %parity to i64
  %turn = mul i64 %parity.wide, SLOTS_NBYTES
  %at = add i64 %turn, SLOTS_OFFSET
  %slots = getelementptr i8, ptr %warp, i64 %at
  %group = lshr i32 %lane, 2
  %within = and i32 %lane, 3
"""


def _host(dtype: str, tiles: int) -> str:
    text = _header(f"xd.mma.{dtype}.x{tiles}", tiles, "noinline") + _HOST_LANES
    for q in range(4):
        for name, first in (("left", "%group"), ("even", "%within"), ("odd", "%within")):
            factor, more = (4, q) if name == "left" else (8, q + 4 * (name == "odd"))
            text += f"  %{name}{q}.n = mul i32 {first}, {factor}\n"
            text += f"  %{name}{q}.l = add i32 %{name}{q}.n, {more}\n"
            text += f"  %{name}{q}.w = zext i32 %{name}{q}.l to i64\n"
            text += f"  %{name}{q} = mul i64 %{name}{q}.w, CONTEXT_NBYTES\n"
        for word in range(LEFT):
            text += _read(f"l{q}.{word}", f"%left{q}", word)
    names = [f"%c{n}" for n in range(SUMS * tiles)]
    for tile in range(tiles):
        text += _host_tile(dtype, tile, names)
    text += "  %parity.next = xor i32 %parity, 1\n  store i32 %parity.next, ptr %parity.place\n"
    return text + _returned(names)


def _host_tile(dtype: str, tile: int, names: list[str]) -> str:
    """The products of one tile; ``names`` of its sums become those of the new ones."""
    text = ""
    for step in range(8):
        half, q = divmod(step, 4)
        at = f"t{tile}.{step}"
        text += _read(f"{at}.0", f"%even{q}", LEFT + RIGHT * tile + half)
        text += _read(f"{at}.1", f"%odd{q}", LEFT + RIGHT * tile + half)
        for n in range(SUMS):
            row, column = divmod(n, 2)
            before, after = names[SUMS * tile + n], f"%s{tile}.{step}.{n}"
            text += (
                f"  {after} = call float @xd.pair.{dtype}(i32 %l{q}.{2 * half + row}, "
                f"i32 %{at}.{column}, float {before})\n"
            )
            names[SUMS * tile + n] = after
    return text


def _filled(text: str) -> str:
    text = text.replace("CONTEXT_NBYTES", str(CONTEXT_NBYTES))
    text = text.replace("SLOTS_OFFSET", str(OFFERS_OFFSET))
    return text.replace("SLOTS_NBYTES", str(OFFERS_NBYTES))


HOST: Mapping[str, str] = MappingProxyType(
    {
        f"xd.mma.{dtype}.x{tiles}": _filled(_host(dtype, tiles))
        for dtype in _INTRINSICS
        for tiles in _TILES
    }
)
"""Definitions for the emulator, with `PAIRS` in the module."""
PAIRS = "".join(_host_pair(dtype) for dtype in _INTRINSICS)
"""What the host's definitions call."""
NVPTX: Mapping[str, str] = MappingProxyType(
    {
        **offers(LEFT + RIGHT * n for n in _TILES),
        **{
            f"xd.mma.{dtype}.x{tiles}": _nvptx(dtype, tiles)
            for dtype in _INTRINSICS
            for tiles in _TILES
        },
    }
)
"""Definitions for NVIDIA's targets from sm_80 on."""
