"""Products with weights of 8, 4 and 16 bits, as kernels, beside products in f64."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
import pytest

from tests.unit.platforms.cpu.one_kernel import run_kernel
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import ModuleBuilder
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.products.narrow_weights import narrow_weights_of
from xladev.platforms.cpu.codegen.table import emit_kernel
from xladev.platforms.cpu.engine import target_traits

DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}
ROUNDING = {"f32": 2.0**-24, "bf16": 2.0**-8}
SHAPES = (
    (1, 128, 64, 32), (1, 64, 300, 64), (2, 192, 96, 16), (3, 96, 54, 6), (5, 90, 34, 30),
    (1, 96, 384, 32), (2, 80, 256, 16), (1, 160, 128, 160), (4, 256, 192, 128),
    (8, 1100, 40, 100), (9, 64, 129, 64), (3, 75, 131, 25), (40, 640, 150, 32), (260, 66, 140, 22),
)  # fmt: skip
"""Rows, depth, columns, lines of a group."""


@dataclass(frozen=True)
class Weights:
    """A way to keep weights: bits, signs, whether groups of lines or columns have scales.

    With ``is_direct``, numbers of 4 bits become floats before they are laid out as a matrix.
    """

    bits: int
    has_zeros: bool = False
    by_masks: bool = False
    is_grouped: bool = True
    is_direct: bool = False

    def text(self, dtype: str, depth: int, columns: int, group: int, turned: bool) -> str:
        """HLO of ``w``, the weights as numbers: f32 or bf16, [depth, columns] or turned."""
        dims = f"{columns},{depth}" if turned else f"{depth},{columns}"
        groups = depth // group
        cut = f"{columns},{groups},{group}" if turned else f"{groups},{group},{columns}"
        of_scales, at = (f"{columns},{groups}", "0,1") if turned else (f"{groups},{columns}", "0,2")
        if not self.is_grouped:
            cut, of_scales, at = dims, f"{columns}", "0" if turned else "1"
        whole = f"""{self._bytes(dims, dims.rsplit(",", 1))}
      c = s8[{dims}] convert(q)  r = s8[{cut}] reshape(c)  f = {dtype}[{cut}] convert(r)"""
        if self.is_direct:
            whole = self._numbers(dtype, dims.rsplit(",", 1), cut)
        return f"""{whole}
      s = {dtype}[{of_scales}] parameter(2)  t = {dtype}[{cut}] broadcast(s), dimensions={{{at}}}
      z = s8[{of_scales}] parameter(3)  y = {dtype}[{of_scales}] convert(z)
      o = {dtype}[{cut}] broadcast(y), dimensions={{{at}}}
      u = {dtype}[{cut}] subtract(f, o)
      m = {dtype}[{cut}] multiply({"u" if self.has_zeros else "f"}, t)
      w = {dtype}[{dims}] reshape(m)"""

    def _numbers(self, dtype: str, outer: list[str], cut: str) -> str:
        half, kind = f"{outer[0]},{int(outer[1]) // 2}", "u4" if self.has_zeros else "s4"
        return f"""p = u8[{half}] parameter(1)  b = {kind}[{half},2] bitcast-convert(p)
      c = {dtype}[{half},2] convert(b)  f = {dtype}[{cut}] reshape(c)"""

    def _bytes(self, dims: str, outer: list[str]) -> str:
        if self.bits == 8:
            return f"q = s8[{dims}] parameter(1)"
        half = f"{outer[0]},{int(outer[1]) // 2}"
        given = f"p = u8[{half}] parameter(1)"
        if not self.by_masks:
            kind = "u4" if self.has_zeros else "s4"
            return f"""{given}  b = {kind}[{half},2] bitcast-convert(p)
      q = {kind}[{dims}] reshape(b)"""
        return f"""{given}  a = u8[] constant(15)  l = u8[{half}] broadcast(a), dimensions={{}}
      low = u8[{half}] and(p, l)  g = u8[] constant(4)
      h = u8[{half}] broadcast(g), dimensions={{}}  high = u8[{half}] shift-right-logical(p, h)
      e1 = u8[{half},1] reshape(low)  e2 = u8[{half},1] reshape(high)
      both = u8[{half},2] concatenate(e1, e2), dimensions={{{outer[0].count(",") + 2}}}
      q = u8[{dims}] reshape(both)"""

    def whole(self, held: np.ndarray) -> np.ndarray:
        """The whole numbers that are held."""
        if self.bits == 8:
            return held.astype(np.float64)
        both = np.stack([held & 15, held >> 4], axis=-1).reshape(*held.shape[:-1], -1)
        signed = not (self.has_zeros or self.by_masks)
        return both.astype(np.float64) - 16.0 * (signed & (both > 7))


WAYS = {
    "s8": Weights(8, is_grouped=False),
    "s8 in groups": Weights(8),
    "s8 in groups with zeros": Weights(8, has_zeros=True),
    "s4": Weights(4, is_grouped=False),
    "s4 in groups": Weights(4),
    "u4 in groups with zeros": Weights(4, has_zeros=True),
    "s4 as floats": Weights(4, is_direct=True),
    "u4 as floats": Weights(4, has_zeros=True, is_direct=True),
    "u4 by masks": Weights(4, has_zeros=True, by_masks=True),
}


def product(way: Weights, dtype: str, sizes: tuple[int, int, int, int], turned: bool) -> HloModule:
    rows, depth, columns, group = sizes
    depth += way.bits == 4 and turned and depth % 2 * group
    columns += way.bits == 4 and columns % 2
    return parse_module(f"""HloModule m
    ENTRY e {{ x = {dtype}[{rows},{depth}] parameter(0)
      {way.text(dtype, depth, columns, group, turned)}
      ROOT d = {dtype}[{rows},{columns}] dot(x, w), lhs_contracting_dims={{1}},
        rhs_contracting_dims={{{int(turned)}}} }}""")


def numbers(way: Weights, arguments: list[np.ndarray], turned: bool) -> np.ndarray:
    """The weights as numbers, [depth, columns], each step rounded as the program says."""
    _, held, scales, zeros = arguments
    dtype = scales.dtype
    q = way.whole(held)
    q = q.T if turned else q
    per_column = scales if scales.ndim == 1 else scales.T if turned else scales
    shift = zeros if zeros.ndim == 1 else zeros.T if turned else zeros
    if per_column.ndim == 2:
        size = q.shape[0] // per_column.shape[0]
        per_column, shift = (np.repeat(a, size, axis=0) for a in (per_column, shift))
    q = q - shift if way.has_zeros else q
    return (q.astype(dtype) * per_column).astype(np.float64)


def check(module: HloModule, way: Weights, turned: bool, seed: int, nbytes: int) -> None:
    """Runs the kernel and compares."""
    rng = np.random.default_rng(seed)
    arguments: list[np.ndarray] = []
    for p in module.entry.parameters:
        name, dims = p.shape.element_type.name, p.shape.dims
        if name in DTYPES:
            arguments.append(rng.standard_normal(dims).astype(DTYPES[name]))
        else:
            low, high = (0, 256) if name == "u8" else (-128, 128) if way.bits == 8 else (-8, 8)
            low, high = (-8, 8) if len(arguments) == 3 else (low, high)
            arguments.append(rng.integers(low, high, dims).astype(f"{name[0].replace('s', 'i')}1"))
    (got,) = run_kernel(module, *arguments, nbytes=nbytes)
    x, w = arguments[0].astype(np.float64), numbers(way, arguments, turned)
    kept = ROUNDING[module.entry.root.shape.element_type.name]
    wanted, magnitude = x @ w, abs(x) @ abs(w)
    bound = 2 * x.shape[1] * 2.0**-24 * magnitude + kept * abs(wanted) * 1.01
    error = abs(got.astype(np.float64) - wanted)
    assert np.all(error <= bound), float(np.max(error - bound))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("sizes", SHAPES)
def test_products_of_all_sizes(
    way: str, sizes: tuple[int, int, int, int], turned: bool, seed: int
) -> None:
    dtype, nbytes = ("f32", "bf16")[seed % 2 ^ sizes[0] % 2], (16, 32, 64)[sum(sizes) % 3]
    module = product(WAYS[way], dtype, sizes, turned)
    assert narrow_weights_of(module.entry.root) is not None
    check(module, WAYS[way], turned, seed, nbytes)


@pytest.mark.parametrize("way", ["s4 in groups", "s4 as floats", "u4 as floats"])
@pytest.mark.parametrize("turned", [False, True])
def test_pieces_are_not_laid_side_by_side(way: str, turned: bool) -> None:
    builder = ModuleBuilder("m", replace(target_traits(), vector_nbytes=64))
    module = product(WAYS[way], "f32", (1, 256, 256, 128), turned)
    emit_kernel(builder, KernelSpec("kernel", module.entry))
    lines = [line for line in str(builder).splitlines() if "bitcast <64 x i8>" in line]
    assert any("to <16 x i32>" in line for line in lines)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [1, 4, 33])
@pytest.mark.parametrize("turned", [False, True])
def test_vectors_of_this_machine(dtype: str, rows: int, turned: bool, seed: int) -> None:
    for name in ("s8", "s4 in groups"):
        module = product(WAYS[name], dtype, (rows, 192, 160, 32), turned)
        check(module, WAYS[name], turned, seed, 64)


def test_batches_and_several_dimensions_are_gone_through(seed: int) -> None:
    module = parse_module("""HloModule m
    ENTRY e { x = f32[3,2,4,24] parameter(0)  q = s8[3,4,24,40] parameter(1)
      w = f32[3,4,24,40] convert(q)
      ROOT d = f32[3,2,40] dot(x, w), lhs_batch_dims={0}, rhs_batch_dims={0},
        lhs_contracting_dims={2,3}, rhs_contracting_dims={1,2} }""")
    rng = np.random.default_rng(seed)
    x = rng.integers(-9, 9, (3, 2, 4, 24)).astype(np.float32)
    q = rng.integers(-128, 128, (3, 4, 24, 40)).astype(np.int8)
    (got,) = run_kernel(module, x, q)
    np.testing.assert_array_equal(got, np.einsum("bmgs,bgsn->bmn", x, q.astype(np.float32)))


@pytest.mark.parametrize("rows", [1, 2, 16])
def test_weights_that_are_floats_of_4_bits(rows: int, seed: int) -> None:
    """Their bits are no whole numbers, which kernels of few rows make of others at once."""
    module = parse_module(f"""HloModule m
    ENTRY e {{ x = f32[{rows},64] parameter(0)  p = u8[64,48] parameter(1)
      b = f4e2m1fn[64,48,2] bitcast-convert(p)  c = f32[64,48,2] convert(b)
      w = f32[64,96] reshape(c)
      ROOT d = f32[{rows},96] dot(x, w),
        lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}""")
    rng = np.random.default_rng(seed)
    x = rng.integers(-9, 9, (rows, 64)).astype(np.float32)  # sums of halves have no rounding
    p = rng.integers(0, 256, (64, 48)).astype(np.uint8)
    (got,) = run_kernel(module, x, p)
    np.testing.assert_array_equal(got, HloEvaluator().run(module, x, p))


def test_operands_in_memory_are_not_taken() -> None:
    module = parse_module("""HloModule m
    ENTRY e { x = f32[4,64] parameter(0)  w = f32[64,64] parameter(1)
      ROOT d = f32[4,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""")
    assert narrow_weights_of(module.entry.root) is None


@pytest.mark.parametrize("name", ["s8 in groups", "s4 in groups", "s4 as floats"])
def test_scales_are_made_once_for_a_run_of_lines(name: str) -> None:
    """And not left to LLVM, which does not see it where lines are few or pieces are moved."""
    builder = ModuleBuilder("m", replace(target_traits(), vector_nbytes=64, missing=frozenset()))
    module = product(WAYS[name], "f32", (1, 256, 512, 64), False)
    emit_kernel(builder, KernelSpec("kernel", module.entry))
    text = str(builder)
    address = r"%(\w+) = getelementptr inbounds float, ptr %p2"
    scales = [text[: m.start()].count("= phi i64") for m in re.finditer(address, text)]
    products = [text[: m.start()].count("= phi i64") for m in re.finditer("llvm.fma", text)]
    assert scales
    assert max(scales) < min(n for n in products if n >= min(scales))


def halves(dtype: str, rows: int, *, turned: bool = False) -> HloModule:
    right = "150,70" if turned else "70,150"
    return parse_module(f"""HloModule m
    ENTRY e {{ x = {dtype}[{rows},70] parameter(0)  w = {dtype}[{right}] parameter(1)
      ROOT d = {dtype}[{rows},150] dot(x, w), lhs_contracting_dims={{1}},
        rhs_contracting_dims={{{int(turned)}}} }}""")


@pytest.mark.parametrize("nbytes", [32, 64])
@pytest.mark.parametrize("rows", [1, 3, 6])
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_few_rows_read_columns_of_16_bits_as_they_are(
    dtype: str, rows: int, nbytes: int, seed: int
) -> None:
    module = halves(dtype, rows)
    assert narrow_weights_of(module.entry.root) is not None
    rng = np.random.default_rng(seed)
    held = [p.shape for p in module.entry.parameters]
    x, w = (rng.integers(-3, 4, s.dims).astype(s.element_type.np) for s in held)
    (got,) = run_kernel(module, x, w, nbytes=nbytes)
    wanted = (x.astype(np.float32) @ w.astype(np.float32)).astype(x.dtype)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("module", [halves("bf16", 7), halves("bf16", 1, turned=True)])
def test_other_columns_of_16_bits_are_read_otherwise(module: HloModule) -> None:
    assert narrow_weights_of(module.entry.root) is None


def _part(number: int, columns: int) -> str:
    """Columns of 8 bits, 32 lines of a group."""
    n, cut = number, f"[8,32,{columns}]"
    return f"""q{n} = s8[256,{columns}] parameter({2 * n - 1})  r{n} = s8{cut} reshape(q{n})
      f{n} = f32{cut} convert(r{n})  s{n} = f32[8,{columns}] parameter({2 * n})
      t{n} = f32{cut} broadcast(s{n}), dimensions={{0,2}}  m{n} = f32{cut} multiply(f{n}, t{n})
      w{n} = f32[256,{columns}] reshape(m{n})"""


@pytest.mark.parametrize("nbytes", [16, 64])
def test_columns_of_two_arrays_with_scales_of_their_own(nbytes: int, seed: int) -> None:
    """As in queries, keys and values that are one product."""
    module = parse_module(f"""HloModule m
    ENTRY e {{ x = f32[1,256] parameter(0)  {_part(1, 64)}  {_part(2, 128)}
      w = f32[256,192] concatenate(w1, w2), dimensions={{1}}
      ROOT d = f32[1,192] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}""")
    assert narrow_weights_of(module.entry.root) is not None
    rng = np.random.default_rng(seed)
    arguments = [
        rng.integers(-5, 5, p.shape.dims).astype(p.shape.element_type.np)
        for p in module.entry.parameters
    ]
    (got,) = run_kernel(module, *arguments, nbytes=nbytes)
    np.testing.assert_array_equal(got, HloEvaluator().run(module, *arguments))


def pieces(code: str, rows: int, columns: int = 256) -> HloModule:
    """Neighbouring columns of a few bits in bytes, made floats before they are laid out."""
    count = 8 // int(code[1:])
    return parse_module(f"""HloModule m
    ENTRY e {{ x = f32[{rows},70] parameter(0)  p = u8[70,{columns // count}] parameter(1)
      b = {code}[70,{columns // count},{count}] bitcast-convert(p)
      c = f32[70,{columns // count},{count}] convert(b)  w = f32[70,{columns}] reshape(c)
      ROOT d = f32[{rows},{columns}] dot(x, w), lhs_contracting_dims={{1}},
        rhs_contracting_dims={{0}} }}""")


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("code", ["s4", "u4", "s2", "u2"])
def test_neighbouring_columns_of_few_bits(code: str, rows: int, seed: int) -> None:
    module = pieces(code, rows)
    rng = np.random.default_rng(seed)
    x = rng.integers(-9, 9, (rows, 70)).astype(np.float32)
    p = rng.integers(0, 256, module.entry.parameters[1].shape.dims).astype(np.uint8)
    (got,) = run_kernel(module, x, p)
    np.testing.assert_array_equal(got, HloEvaluator().run(module, x, p))


@pytest.mark.parametrize(
    ("nbytes", "has_lookups", "count"), [(64, True, 8), (64, False, 0), (32, True, 0)]
)
def test_they_are_looked_up_where_one_instruction_does(
    nbytes: int, has_lookups: bool, count: int
) -> None:
    """Eight vectors of 16 numbers of 4 bits, in a vector of words."""
    target = replace(target_traits(), vector_nbytes=nbytes, has_lookups=has_lookups)
    builder = ModuleBuilder("m", target)
    emit_kernel(builder, KernelSpec("kernel", pieces("s4", 1).entry))
    found = str(builder).count("call <16 x float> @llvm.x86.avx512.permvar.sf.512")
    assert found >= count
    assert bool(found) == bool(count)
