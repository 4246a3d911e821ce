"""Weights of few bits in bf16 whose products with scales one instruction rounds."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from tests.unit.platforms.cpu.one_kernel import run_kernel
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import ModuleBuilder
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.products.narrow_rounding import scaled_of, whole_range
from xladev.platforms.cpu.codegen.table import emit_kernel
from xladev.platforms.cpu.engine import target_traits

ROUND = "call <32 x bfloat> @llvm.x86.avx512bf16.cvtne2ps2bf16.512"


def product(
    code: str,
    group: int,
    rows: int = 1,
    columns: int = 256,
    depth: int = 96,
    subtracted: str = "bf16",
) -> HloModule:
    """Neighbouring columns of 4 bits, a scale and a zero point for each group of lines.

    Zero points are subtracted in the type ``subtracted``.
    """
    groups, half, zero = depth // group, columns // 2, "s8" if code == "s4" else "u8"
    cut, of = f"[{groups},{group},{columns}]", f"[{groups},{columns}]"
    return parse_module(f"""HloModule m
    ENTRY e {{ x = bf16[{rows},{depth}] parameter(0)  p = u8[{depth},{half}] parameter(1)
      b = {code}[{depth},{half},2] bitcast-convert(p)  c = {subtracted}[{depth},{half},2] convert(b)
      f = {subtracted}{cut} reshape(c)  s = bf16{of} parameter(2)
      t = bf16{cut} broadcast(s), dimensions={{0,2}}  z = {zero}{of} parameter(3)
      y = {subtracted}{of} convert(z)  o = {subtracted}{cut} broadcast(y), dimensions={{0,2}}
      v = {subtracted}{cut} subtract(f, o)  u = bf16{cut} convert(v)
      m = bf16{cut} multiply(u, t)
      w = bf16[{depth},{columns}] reshape(m)
      ROOT d = bf16[{rows},{columns}] dot(x, w), lhs_contracting_dims={{1}},
        rhs_contracting_dims={{0}} }}""")


def arguments(module: HloModule, seed: int) -> list[np.ndarray]:
    """One line for each row, so that each result is one weight, and nothing is summed."""
    rng = np.random.default_rng(seed)
    x, p, s, z = (parameter.shape.dims for parameter in module.entry.parameters)
    lines = np.zeros(x, np.float32)
    lines[np.arange(x[0]), rng.integers(0, x[1], x[0])] = 1
    scales = rng.standard_normal(s, np.float32).astype(ml_dtypes.bfloat16)
    bits = rng.integers(0, 256, p).astype(np.uint8)
    zeros = rng.integers(0, 128, z).astype(module.entry.parameters[3].shape.element_type.np)
    return [lines.astype(ml_dtypes.bfloat16), bits, scales, zeros]


def check(module: HloModule, given: list[np.ndarray]) -> np.ndarray:
    """Runs the kernel, and compares with the evaluator."""
    (got,) = run_kernel(module, *given)
    wanted = np.asarray(HloEvaluator().run(module, *given)).astype(np.float32)
    np.testing.assert_array_equal(got.astype(np.float32), wanted)
    return wanted


def text(module: HloModule, *, has_bfloat_products: bool = True) -> str:
    target = replace(
        target_traits(),
        vector_nbytes=64,
        has_lookups=True,
        has_bfloat_products=has_bfloat_products,
    )
    builder = ModuleBuilder("m", target)
    emit_kernel(builder, KernelSpec("kernel", module.entry))
    return str(builder)


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize(("code", "group"), [("s4", 32), ("u4", 96), ("u4", 16), ("s4", 3)])
def test_each_weight_is_rounded_as_the_program_says(
    code: str, group: int, rows: int, seed: int
) -> None:
    module = product(code, group, rows)
    check(module, arguments(module, seed))


@pytest.mark.parametrize("subtracted", ["s8", "s16", "f16", "f32", "f64", "f8e4m3fn", "f8e5m2"])
def test_zero_points_are_subtracted_in_their_type(subtracted: str, seed: int) -> None:
    """Integers wrap around, and floats of 8 bits are rounded."""
    module = product("s4", 32, subtracted=subtracted)
    check(module, arguments(module, seed))


@pytest.mark.parametrize("columns", [128, 288, 302])
def test_columns_are_in_their_order(columns: int, seed: int) -> None:
    module = product("s4", 32, 1, columns)
    check(module, arguments(module, seed))


@pytest.mark.parametrize("exponent", [-133, -130, -127, -126])
def test_denormals_are_kept(exponent: int, seed: int) -> None:
    """Of one scale, whose weights, and so the results, are some times as large."""
    module = product("s4", 96)
    given = arguments(module, seed)
    given[2][0, 77] = np.ldexp(1.0, exponent)
    given[3][0, 77] = 99  # no number of 4 bits has as much
    assert check(module, given)[0, 77] != 0


@pytest.mark.parametrize("special", [np.nan, np.inf, 0.0])
def test_what_is_no_number_stays_so(special: float, seed: int) -> None:
    module = product("u4", 96)
    given = arguments(module, seed)
    given[2][0, 5] = special
    check(module, given)


def test_an_instruction_rounds_where_the_target_has_it() -> None:
    """Four times for eight vectors of 16 numbers."""
    module = product("s4", 96)
    assert text(module).count(ROUND) >= 4
    assert ROUND not in text(module, has_bfloat_products=False)


@pytest.mark.parametrize(("code", "group"), [("s4", 16), ("u4", 3)])
def test_scales_that_differ_within_a_run_are_rounded_otherwise(code: str, group: int) -> None:
    assert ROUND not in text(product(code, group))


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        ("c = bf16[8] convert(p)", (0, 15)),
        ("z = s8[8] parameter(1)  y = bf16[8] convert(z)  x = bf16[8] convert(p)"
         "  c = bf16[8] subtract(x, y)", (-127, 143)),
        ("x = bf16[8] convert(p)  c = bf16[8] negate(x)", (-15, 0)),
        ("z = u8[8] parameter(1)  y = bf16[8] convert(z)  x = bf16[8] convert(p)"
         "  c = bf16[8] add(x, y)", None),
        ("y = bf16[8] parameter(1)  x = bf16[8] convert(p)  c = bf16[8] add(x, y)", None),
        ("z = s16[8] parameter(1)  c = bf16[8] convert(z)", None),
        ("x = bf16[8] convert(p)  c = bf16[8] exponential(x)", None),
    ],
)  # fmt: skip
def test_whole_numbers_that_need_no_rounding(made: str, wanted: tuple[int, int] | None) -> None:
    module = parse_module(
        f"HloModule m\nENTRY e {{ p = u4[8] parameter(0)  {made}  ROOT r = bf16[8] copy(c) }}"
    )
    assert whole_range(module.entry.root) == wanted


@pytest.mark.parametrize("made", ["multiply(s, s)", "multiply(n, n)", "add(n, s)"])
def test_other_products_are_not_taken(made: str) -> None:
    module = parse_module(f"""HloModule m
    ENTRY e {{ p = u4[8] parameter(0)  n = bf16[8] convert(p)  s = bf16[8] parameter(1)
      ROOT r = bf16[8] {made} }}""")
    assert scaled_of(module.entry.root) is None
