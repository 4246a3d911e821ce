"""Ways to cut bytes and words into pieces, on all patterns of bits."""

from __future__ import annotations

import numpy as np
import pytest

from xladev.compiler.fusion.instruction_fusion import without_dead
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.rebuild import rebuild
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.bit_pieces import with_bit_pieces

STACKED = """c = u8[] constant({mask})  m = u8[256] broadcast(c), dimensions={{}}
      l = u8[256] and(p, m)  n = u8[] constant({by})  b = u8[256] broadcast(n), dimensions={{}}
      h = u8[256] shift-right-logical(p, b)
      x = u8[256,1] reshape(l)  y = u8[256,1] reshape(h)
      ROOT r = u8[256,2] concatenate({order}), dimensions={{1}}"""
SIGNED = """c = s8[] constant(4)  b = s8[256] broadcast(c), dimensions={}
      u = s8[256] shift-left(p, b)  l = s8[256] shift-right-arithmetic(u, b)
      h = s8[256] shift-right-arithmetic(p, b)
      x = s8[256,1] reshape(l)  y = s8[256,1] reshape(h)
      ROOT r = s8[256,2] concatenate(x, y), dimensions={1}"""
BY_AN_ARRAY = """e = {t}[256,{n}] broadcast(p), dimensions={{0}}
      i = {t}[{n}] iota(), iota_dimension=0  c = {t}[] constant({by})
      k = {t}[{n}] broadcast(c), dimensions={{}}  a = {t}[{n}] multiply(i, k)
      b = {t}[256,{n}] broadcast(a), dimensions={{1}}
      s = {t}[256,{n}] shift-right-{how}(e, b)
      m = {t}[] constant({mask})  v = {t}[256,{n}] broadcast(m), dimensions={{}}
      ROOT r = {t}[256,{n}] and(s, v)"""
CUT = {
    "stacked": ("u8", STACKED.format(mask=15, by=4, order="x, y")),
    "the high half first": ("u8", STACKED.format(mask=15, by=4, order="y, x")),
    "with a sign": ("s8", SIGNED),
    "shifts by an array": ("u8", BY_AN_ARRAY.format(t="u8", n=2, by=4, how="logical", mask=15)),
    "2 bits": ("u8", BY_AN_ARRAY.format(t="u8", n=4, by=2, how="logical", mask=3)),
    "words": ("s32", BY_AN_ARRAY.format(t="s32", n=8, by=4, how="arithmetic", mask=15)),
    "bytes of words": ("u32", BY_AN_ARRAY.format(t="u32", n=4, by=8, how="logical", mask=255)),
    "by numbers that are given": (
        "u8",
        """e = u8[256,2] broadcast(p), dimensions={0}  c = u8[2] constant({4, 0})
      b = u8[256,2] broadcast(c), dimensions={1}  s = u8[256,2] shift-right-logical(e, b)
      k = u8[2] constant({15, 15})  m = u8[256,2] broadcast(k), dimensions={1}
      ROOT r = u8[256,2] and(s, m)""",
    ),
    "in a wider type": (
        "u8",
        """w = s32[256] convert(p)  c = s32[] constant(15)  m = s32[256] broadcast(c), dimensions={}
      l = s32[256] and(w, m)  n = s32[] constant(240)  k = s32[256] broadcast(n), dimensions={}
      g = s32[256] and(w, k)  d = s32[] constant(4)  b = s32[256] broadcast(d), dimensions={}
      h = s32[256] shift-right-logical(g, b)  z = s32[] constant(0)
      o = s32[256] broadcast(z), dimensions={}  f = s32[256] or(h, o)
      x = s32[256,1] reshape(l)  y = s32[256,1] reshape(f)
      ROOT r = s32[256,2] concatenate(x, y), dimensions={1}""",
    ),
}
LEFT = {
    "one bit more": ("u8", STACKED.format(mask=31, by=4, order="x, y")),
    "one bit less": ("u8", STACKED.format(mask=7, by=4, order="x, y")),
    "another shift": ("u8", STACKED.format(mask=15, by=3, order="x, y")),
    "one half twice": ("u8", STACKED.format(mask=15, by=4, order="x, x")),
    "a sign of one alone": (
        "s8",
        SIGNED.replace("l = s8[256] shift-right-arithmetic", "l = s8[256] shift-right-logical"),
    ),
    "shifts that are not known": (
        "u8",
        """q = u8[2] parameter(1)  e = u8[256,2] broadcast(p), dimensions={0}
      b = u8[256,2] broadcast(q), dimensions={1}  s = u8[256,2] shift-right-logical(e, b)
      m = u8[] constant(15)  v = u8[256,2] broadcast(m), dimensions={}
      ROOT r = u8[256,2] and(s, v)""",
    ),
    "bits of two numbers": (
        "u8",
        """q = u8[256] parameter(1)  c = u8[] constant(15)  m = u8[256] broadcast(c), dimensions={}
      l = u8[256] and(p, m)  n = u8[] constant(4)  b = u8[256] broadcast(n), dimensions={}
      h = u8[256] shift-right-logical(q, b)  x = u8[256,1] reshape(l)  y = u8[256,1] reshape(h)
      ROOT r = u8[256,2] concatenate(x, y), dimensions={1}""",
    ),
    "arithmetic": (
        "u8",
        """d = u8[256] add(p, p)  x = u8[256,1] reshape(p)  y = u8[256,1] reshape(d)
      ROOT r = u8[256,2] concatenate(x, y), dimensions={1}""",
    ),
}


def module_of(case: tuple[str, str]) -> HloModule:
    return parse_module(f"""HloModule m
    ENTRY e {{ p = {case[0]}[256] parameter(0)  {case[1]} }}""")


@pytest.mark.parametrize("name", CUT)
def test_pieces_are_a_bitcast(name: str, seed: int) -> None:
    module = module_of(CUT[name])
    found = with_bit_pieces(module.entry.root)
    entry = without_dead(rebuild(module.entry, found))
    opcodes = {i.opcode for i in entry.instructions}
    assert opcodes - {"reverse", "convert"} == {"parameter", "bitcast-convert"}
    dtype = module.entry.parameters[0].shape.element_type.np
    given = np.arange(256).astype(dtype)
    if dtype.itemsize > 1:
        limits = np.iinfo(dtype)
        rng = np.random.default_rng(seed)
        given = rng.integers(limits.min, limits.max, 256, dtype, endpoint=True)
    wanted = HloEvaluator().run(module, given)
    np.testing.assert_array_equal(HloEvaluator().call(entry, [given]), wanted)


@pytest.mark.parametrize("name", LEFT)
def test_what_is_no_piece_of_bits_stays(name: str) -> None:
    assert not with_bit_pieces(module_of(LEFT[name]).entry.root)


def test_what_is_a_bitcast_already_stays() -> None:
    module = module_of(("u8", "ROOT r = u4[256,2] bitcast-convert(p)"))
    assert not with_bit_pieces(module.entry.root)
