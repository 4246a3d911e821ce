"""Native kernels against the evaluator, on programs written to be awkward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xladev.client import compile
from xladev.compiler.options import CompileOptions
from xladev.hlo.dtype import by_name
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.literal import Value
from xladev.hlo.text import parse_module
from xladev.testing.differential import compare_with_evaluator
from xladev.testing.noise import leaves
from xladev.testing.random_inputs import random_arguments

ADD = "add { p = f32[] parameter(0)\n q = f32[] parameter(1)\n ROOT r = f32[] add(p, q) }\n"


def many_branches(count: int) -> str:
    """Computations b0, b1, ...: each adds its number."""
    return "".join(
        f"b{n} {{ p = f32[] parameter(0)\n k = f32[] constant({n})\n ROOT r = f32[] add(p, k) }}\n"
        for n in range(count)
    )


PROGRAMS = {
    "reshape groups": """ENTRY e { x = f32[6,1,4,5] parameter(0)
      r = f32[2,3,20,1] reshape(x)
      n = f32[2,3,20,1] negate(r)
      ROOT s = f32[1,2,12,5] reshape(n) }""",
    "interior and negative padding": """ENTRY e { x = f32[5,7] parameter(0)
      z = f32[] parameter(1)
      n = f32[5,7] negate(x)
      ROOT p = f32[11,5] pad(n, z), padding=-1_3_1x2_-4 }""",
    "many concatenated parts": """ENTRY e { a = f32[2,3] parameter(0)
      b = f32[2,0] parameter(1)
      c = f32[2,1] parameter(2)
      d = f32[2,3] negate(a)
      f = f32[2,8] concatenate(a, b, c, d, c), dimensions={1}
      ROOT r = f32[2,8] reverse(f), dimensions={0,1} }""",
    "transposed layout": """ENTRY e { x = f32[3,4,5]{0,2,1} parameter(0)
      t = f32[5,3,4]{1,0,2} transpose(x), dimensions={2,0,1}
      ROOT n = f32[5,3,4] add(t, t) }""",
    "bitcast between layouts": """ENTRY e { x = f32[3,4]{0,1} parameter(0)
      ROOT b = f32[4,3]{1,0} bitcast(x) }""",
    "reduce of a fused producer": f"""{ADD} ENTRY e {{ x = f32[7,9] parameter(0)
      z = f32[] constant(0)
      m = f32[7,9] multiply(x, x)
      t = f32[9,7] transpose(m), dimensions={{1,0}}
      ROOT r = f32[7] reduce(t, z), dimensions={{0}}, to_apply=add }}""",
    "a reducer with control flow": """yes { p = (f32[], f32[]) parameter(0)
      a = f32[] get-tuple-element(p), index=0
      ROOT r = f32[] negate(a) }
    no { p = (f32[], f32[]) parameter(0)
      a = f32[] get-tuple-element(p), index=0
      b = f32[] get-tuple-element(p), index=1
      ROOT r = f32[] add(a, b) }
    pick { p = f32[] parameter(0)
      q = f32[] parameter(1)
      c = pred[] compare(p, q), direction=GT
      t = (f32[], f32[]) tuple(p, q)
      ROOT r = f32[] conditional(c, t, t), true_computation=yes, false_computation=no }
    ENTRY e { x = f32[8,5] parameter(0)
      ROOT m = f32[8,5] map(x, x), dimensions={0,1}, to_apply=pick }""",
    "a reducer with constants of rank 1 and tuples of them": """
    add3 { p = f32[] parameter(0)
      q = f32[] parameter(1)
      one = f32[1] constant({2})
      k = f32[] reshape(one)
      pair = (f32[], (s32[], f32[1])) constant((3, (1, {4})))
      a = f32[] get-tuple-element(pair), index=0
      inner = (s32[], f32[1]) get-tuple-element(pair), index=1
      b = f32[1] get-tuple-element(inner), index=1
      c = f32[] reshape(b)
      s = f32[] add(p, q)
      t = f32[] multiply(a, c)
      u = f32[] subtract(t, k)
      ROOT r = f32[] add(s, u) }
    ENTRY e { x = f32[5] parameter(0)
      z = f32[] constant(0)
      ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=add3 }""",
    "a reducer with many branches": f"""
    {many_branches(5)}
    pick {{ p = f32[] parameter(0)
      q = s32[] parameter(1)
      ROOT r = f32[] conditional(q, p, p, p, p, p), branch_computations={{b0,b1,b2,b3,b4}} }}
    ENTRY e {{ x = f32[8] parameter(0)
      i = s32[8] constant({{-1,0,1,2,3,4,5,2147483647}})
      ROOT m = f32[8] map(x, i), dimensions={{0}}, to_apply=pick }}""",
    "a reducer with a loop": """cond { s = (s32[], s32[]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(3)
      ROOT r = pred[] compare(i, n), direction=LT }
    body { s = (s32[], s32[]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      v = s32[] get-tuple-element(s), index=1
      o = s32[] constant(1)
      j = s32[] add(i, o)
      w = s32[] add(v, v)
      ROOT r = (s32[], s32[]) tuple(j, w) }
    eight { p = s32[] parameter(0)
      z = s32[] constant(0)
      t = (s32[], s32[]) tuple(z, p)
      w = (s32[], s32[]) while(t), condition=cond, body=body
      ROOT r = s32[] get-tuple-element(w), index=1 }
    ENTRY e { x = s32[11] parameter(0)
      ROOT m = s32[11] map(x), dimensions={0}, to_apply=eight }""",
    "gather from nothing": """ENTRY e { x = f32[0,2] parameter(0)
      i = s32[3] parameter(1)
      ROOT g = f32[3,2] gather(x, i), offset_dims={1}, collapsed_slice_dims={0},
        start_index_map={0}, index_vector_dim=1, slice_sizes={0,2} }""",
    "one flag for all elements": """ENTRY e { p = pred[] parameter(0)
      a = f32[3,5] parameter(1)
      n = f32[3,5] negate(a)
      ROOT s = f32[3,5] select(p, n, a) }""",
    "gather with batching dimensions": """ENTRY e { x = f32[3,5,4] parameter(0)
      i = s32[3,2,1] parameter(1)
      ROOT g = f32[3,2,4] gather(x, i), offset_dims={2}, collapsed_slice_dims={1},
        start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0},
        index_vector_dim=2, slice_sizes={1,1,4} }""",
    "select and scatter": f"""{ADD} ge {{ p = f32[] parameter(0)
      q = f32[] parameter(1)
      ROOT r = pred[] compare(p, q), direction=GE }}
    ENTRY e {{ x = f32[5,6] parameter(0)
      s = f32[2,3] parameter(1)
      z = f32[] constant(1)
      ROOT r = f32[5,6] select-and-scatter(x, s, z), window={{size=3x2 stride=2x2}},
        select=ge, scatter=add }}""",
    "convolution with everything": """ENTRY e { x = f32[4,5,6,4] parameter(0)
      k = f32[2,2,3,8] parameter(1)
      ROOT c = f32[4,7,6,8] convolution(x, k), dim_labels=b01f_i01o->b10f,
        window={size=2x3 stride=1x2 pad=2_1x1_3 lhs_dilate=1x2 rhs_dilate=2x1 rhs_reversal=1x0},
        feature_group_count=2 }""",
    "integer dot": """ENTRY e { x = s8[3,4,5] parameter(0)
      y = s8[5,3,6] parameter(1)
      ROOT d = s32[3,4,6] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={1},
        lhs_contracting_dims={2}, rhs_contracting_dims={0} }""",
    "a diamond": """ENTRY e { x = f32[8] parameter(0)
      a = f32[8] exponential(x)
      b = f32[8] negate(a)
      c = f32[8] reverse(a), dimensions={0}
      d = f32[8] add(b, c)
      ROOT t = (f32[8], f32[8]) tuple(d, a) }""",
    "outputs that are inputs and constants": """ENTRY e { x = f32[2] parameter(0)
      c = f32[3] constant({1, 2, 3})
      k = s32[] constant(7)
      ROOT t = (f32[2], f32[3], s32[], f32[2]) tuple(x, c, k, x) }""",
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("fusion", [True, False])
def test_kernels_agree_with_the_evaluator(name: str, fusion: bool) -> None:
    module = parse_module(f"HloModule m\n{PROGRAMS[name]}")
    arguments = random_arguments(module, 3)
    options = CompileOptions(fusion=fusion, strict=True)
    found = [np.asarray(x) for x in leaves(compile(module, "cpu", options)(*arguments))]
    for got, want in zip(found, leaves(HloEvaluator().run(module, *arguments)), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)
    assert compare_with_evaluator(module, arguments, "cpu") is None


def run(body: str, *arguments: Any) -> Value:
    module = parse_module(f"HloModule m\n{body}")
    value = compile(module, "cpu", CompileOptions(strict=True))(*arguments)
    return tuple(map(np.asarray, value)) if isinstance(value, tuple) else np.asarray(value)


def test_scatter_drops_what_does_not_fit() -> None:
    found = run(
        f"""{ADD} ENTRY e {{ x = f32[4] parameter(0)
        i = s32[5,1] parameter(1)
        u = f32[5] parameter(2)
        ROOT s = f32[4] scatter(x, i, u), update_window_dims={{}}, inserted_window_dims={{0}},
          scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=add }}""",
        np.zeros(4, np.float32),
        np.array([[1], [-1], [4], [1], [2**31 - 1]], np.int32),
        np.array([1, 10, 100, 1000, 10000], np.float32),
    )
    np.testing.assert_array_equal(found, [0, 1001, 0, 0])


BRANCHES = """one { a = f32[2] parameter(0)
      ROOT s = f32[2] sine(a) }
    two { b = f32[2] parameter(0)
      ROOT c = f32[2] negate(b) }
    one1 { d = f32[] parameter(0)
      ROOT t = f32[] sine(d) }
    two1 { f = f32[] parameter(0)
      ROOT g = f32[] negate(f) }
    pick { p = pred[] parameter(0)
      x = f32[] parameter(1)
      ROOT r = f32[] conditional(p, x, x), branch_computations={one1, two1} }
    ENTRY e { p = pred[] parameter(0)
      x = f32[2] parameter(1)
      a = f32[2] conditional(p, x, x), branch_computations={one, two}
      q = pred[2] broadcast(p), dimensions={}
      b = f32[2] map(q, x), dimensions={0}, to_apply=pick
      ROOT t = (f32[2], f32[2]) tuple(a, b) }"""


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("level", [0, 2])
def test_true_is_the_first_branch_however_branches_are_named(flag: bool, level: int) -> None:
    module = parse_module(f"HloModule m\n{BRANCHES}")
    x = np.array([1, 2], np.float32)
    made = compile(module, "cpu", CompileOptions(strict=True, optimization_level=level))
    for got in made(np.array(flag), x):
        np.testing.assert_allclose(got.numpy(), np.sin(x) if flag else -x, rtol=1e-6)


@pytest.mark.parametrize("start", [0, 3, 2**64 - 1, 2**63])
def test_unsigned_starts_are_clamped_at_the_top(start: int) -> None:
    found = run(
        """ENTRY e { x = s32[5] parameter(0)
        i = u64[] parameter(1)
        ROOT d = s32[2] dynamic-slice(x, i), dynamic_slice_sizes={2} }""",
        np.arange(5, dtype=np.int32),
        np.uint64(start),
    )
    first = min(start, 3)
    np.testing.assert_array_equal(found, [first, first + 1])


def test_sort_is_stable_and_moves_all_operands() -> None:
    keys = np.array([3, 1, 2, 1, 3, 1, 2], np.int32)
    found = run(
        """lt { a = s32[] parameter(0)
        b = s32[] parameter(1)
        c = s32[] parameter(2)
        d = s32[] parameter(3)
        ROOT r = pred[] compare(a, b), direction=LT }
        ENTRY e { k = s32[7] parameter(0)
        v = s32[7] parameter(1)
        ROOT s = (s32[7], s32[7]) sort(k, v), dimensions={0}, is_stable=true, to_apply=lt }""",
        keys,
        np.arange(7, dtype=np.int32),
    )
    order = np.argsort(keys, kind="stable")
    np.testing.assert_array_equal(found[0], keys[order])
    np.testing.assert_array_equal(found[1], order)


def test_windows_without_elements_select_nothing() -> None:
    found = run(
        f"""{ADD} ge {{ p = f32[] parameter(0)
        q = f32[] parameter(1)
        ROOT r = pred[] compare(p, q), direction=GE }}
        ENTRY e {{ x = f32[2] parameter(0)
        s = f32[4] parameter(1)
        z = f32[] constant(0)
        ROOT r = f32[2] select-and-scatter(x, s, z), window={{size=1 pad=1_1}},
          select=ge, scatter=add }}""",
        np.array([1, 2], np.float32),
        np.array([10, 20, 30, 40], np.float32),
    )
    np.testing.assert_array_equal(found, [20, 30])


def test_empty_arrays_run() -> None:
    found = run(
        f"""{ADD} ENTRY e {{ x = f32[0,3] parameter(0)
        z = f32[] constant(5)
        n = f32[0,3] negate(x)
        r = f32[3] reduce(n, z), dimensions={{0}}, to_apply=add
        ROOT t = (f32[0,3], f32[3]) tuple(n, r) }}""",
        np.zeros((0, 3), np.float32),
    )
    assert found[0].shape == (0, 3)
    np.testing.assert_array_equal(found[1], [5, 5, 5])


def test_narrow_sums_are_kept_wide() -> None:
    """4,096 ones in bf16: rounded after every step, the sum would stop at 256."""
    import ml_dtypes

    ones = np.ones(4096, ml_dtypes.bfloat16)
    found = run(
        """add { p = bf16[] parameter(0)
        q = bf16[] parameter(1)
        ROOT r = bf16[] add(p, q) }
        ENTRY e { x = bf16[4096] parameter(0)
        z = bf16[] constant(0)
        ROOT r = bf16[] reduce(x, z), dimensions={0}, to_apply=add }""",
        ones,
    )
    assert float(found) == 4096


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f8e5m2"])
def test_moved_nans_keep_their_payload(dtype: str) -> None:
    element = by_name(dtype)
    width = element.host_nbytes
    exponent = {"f16": 0x7C00, "bf16": 0x7F80, "f8e5m2": 0x7C}[dtype]
    bits = np.array([exponent | 1, exponent | 3, 0, 1], f"u{width}")
    found = run(
        f"""ENTRY e {{ x = {dtype}[4] parameter(0)
        r = {dtype}[4] reverse(x), dimensions={{0}}
        ROOT c = {dtype}[8] concatenate(r, x), dimensions={{0}} }}""",
        bits.view(element.np),
    )
    np.testing.assert_array_equal(found.view(bits.dtype), [*bits[::-1], *bits])


@pytest.mark.parametrize("level", range(4))
def test_neighbours_by_padding(level: int) -> None:
    """LLVM 22's loop vectoriser read the second array from the wrong address."""
    text = """ENTRY e { x = f64[1,23] parameter(0)
      z = f64[] constant(0)
      above = f64[1,24] pad(x, z), padding=0_0x0_1
      below = f64[1,24] pad(x, z), padding=0_0x1_0
      ROOT r = f64[1,24] subtract(above, below) }"""
    x = np.arange(1, 24, dtype=np.float64)[None] ** 2
    compiled = compile(parse_module(text), "cpu", CompileOptions(optimization_level=level))
    want = np.pad(x, ((0, 0), (0, 1))) - np.pad(x, ((0, 0), (1, 0)))
    np.testing.assert_array_equal(np.asarray(compiled(x)), want)


@pytest.mark.parametrize(
    "root",
    [
        "f32[8,8] cholesky(ones), lower=true",
        "f32[8,8] triangular-solve(rows, ones), left_side=true, lower=true, unit_diagonal=true,"
        " transpose_a=NO_TRANSPOSE",
        "c64[8,8] fft(complexes), fft_type=FFT, fft_length={8}",
    ],
)
def test_operands_that_cost_nothing(root: str) -> None:
    """Kernels that read memory are given even what other kernels compute as they read."""
    text = f"""ENTRY e {{ one = f32[] constant(1)
      ones = f32[8,8] broadcast(one), dimensions={{}}
      rows = f32[8,8] iota(), iota_dimension=0
      complexes = c64[8,8] iota(), iota_dimension=1
      ROOT r = {root} }}"""
    module = parse_module(text)
    want = np.asarray(HloEvaluator().run(module))
    np.testing.assert_allclose(np.asarray(compile(module, "cpu")()), want, atol=1e-5)


def branching(operands: str, count: int) -> str:
    """A conditional of the branches b0, b1, ..."""
    names = ", ".join(f"b{n}" for n in range(count))
    return f"f32[] conditional({operands}), branch_computations={{{names}}}"


def test_as_many_branches_as_one_likes() -> None:
    count = 1500
    body = branching("i" + ", x" * count, count)
    entry = f"ENTRY e {{ i = s32[] parameter(0)\n x = f32[] parameter(1)\n ROOT r = {body} }}"
    compiled = compile(parse_module(many_branches(count) + entry), "cpu")
    for index, want in ((0, 0), (700, 700), (count - 1, count - 1), (count, count - 1), (-1, -1)):
        assert float(compiled(np.int32(index), np.float32(0))) == want % count


def test_as_many_branches_within_a_kernel() -> None:
    count = 1000
    pick = (
        "pick { p = f32[] parameter(0)\n q = s32[] parameter(1)\n"
        f" ROOT r = {branching('q' + ', p' * count, count)} }}\n"
    )
    entry = """ENTRY e { x = f32[5] parameter(0)
      i = s32[5] parameter(1)
      ROOT m = f32[5] map(x, i), dimensions={0}, to_apply=pick }"""
    compiled = compile(
        parse_module(many_branches(count) + pick + entry),
        "cpu",
        CompileOptions(optimization_level=0),
    )
    index = np.array([0, 499, 999, 1000, -1], np.int32)
    want = [0, 499, 999, 999, 999]
    np.testing.assert_array_equal(np.asarray(compiled(np.zeros(5, np.float32), index)), want)
