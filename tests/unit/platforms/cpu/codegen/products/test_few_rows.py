"""Few rows times columns that lie along memory, beside products in f64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xladev
from tests.unit.platforms.cpu.one_kernel import run_kernel
from xladev.compiler.options import CompileOptions
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.products.few_rows import (
    BLOCK_COLUMNS,
    MOST_ROWS,
    MOST_SHALLOW_ROWS,
    few_rows_plan,
    is_fast_along_memory,
    is_faster_than_panels,
)

DTYPES = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
ROUNDING = {"f32": 2.0**-24, "f64": 2.0**-53, "bf16": 2.0**-8, "f16": 2.0**-11}


def product(
    rows: int, depth: int, columns: int, dtype: str = "f32", batch: tuple[int, ...] = ()
) -> HloModule:
    lead, axes = "".join(f"{n}," for n in batch), len(batch)
    dims = ",".join(map(str, range(axes)))
    batches = f"lhs_batch_dims={{{dims}}}, rhs_batch_dims={{{dims}}}," if batch else ""
    return parse_module(f"""HloModule m
    ENTRY main {{ x = {dtype}[{lead}{rows},{depth}] parameter(0)
      y = {dtype}[{lead}{columns},{depth}] parameter(1)
      ROOT d = {dtype}[{lead}{rows},{columns}] dot(x, y), {batches}
        lhs_contracting_dims={{{axes + 1}}}, rhs_contracting_dims={{{axes + 1}}} }}""")


def check(rng: np.random.Generator, module: HloModule, nbytes: int = 64, turned: int = 1) -> None:
    """Runs the kernel, which must call the function of this file, and compares."""
    shapes = [p.shape for p in module.entry.parameters]
    x, y = (rng.standard_normal(s.dims).astype(DTYPES[s.element_type.name]) for s in shapes)
    (got,) = run_kernel(module, x, y, nbytes=nbytes, calls="few_rows")
    wide = x.astype(np.float64), y.astype(np.float64)
    if turned:
        wide = wide[0], np.swapaxes(wide[1], -1, -2)
    wanted, magnitude = wide[0] @ wide[1], abs(wide[0]) @ abs(wide[1])
    name = shapes[0].element_type.name
    sums = 2.0**-53 if name == "f64" else 2.0**-24
    bound = 2 * x.shape[-1] * sums * magnitude + ROUNDING[name] * abs(wanted) * 1.01
    error = abs(got.astype(np.float64) - wanted)
    assert np.all(error <= bound), float(np.max(error - bound))


@pytest.mark.parametrize("dtype", DTYPES)
def test_random_sizes(dtype: str, seed: int) -> None:
    rng = np.random.default_rng([seed])
    for _ in range(5):
        rows, depth = int(rng.integers(2, MOST_ROWS + 1)), int(rng.integers(64, 700))
        columns = int(rng.integers(16, 3 * BLOCK_COLUMNS))
        batch = tuple(rng.integers(1, 4, rng.integers(0, 3)).tolist())
        module = product(rows, depth, columns, dtype, batch)
        assert few_rows_plan(module.entry.root) is not None
        check(rng, module, int(rng.choice([16, 32, 64])))


@pytest.mark.parametrize("rows", [2, 3, 4, 5, 8])
@pytest.mark.parametrize("columns", [17, BLOCK_COLUMNS, BLOCK_COLUMNS + 1])
@pytest.mark.parametrize("left", [0, 1, 15])
def test_rows_columns_and_elements_left_over(rows: int, columns: int, left: int, seed: int) -> None:
    check(np.random.default_rng(seed), product(rows, 64 + left, columns))


def few_columns(
    rows: int, depth: int, columns: int, dtype: str = "f32", turned: int = 0, batch: int = 0
) -> HloModule:
    lead, dims = (f"{batch},", "0") if batch else ("", "")
    axes, right = bool(batch), f"{columns},{depth}" if turned else f"{depth},{columns}"
    return parse_module(f"""HloModule m
    ENTRY main {{ x = {dtype}[{lead}{rows},{depth}] parameter(0)
      y = {dtype}[{lead}{right}] parameter(1)
      ROOT d = {dtype}[{lead}{rows},{columns}] dot(x, y), lhs_batch_dims={{{dims}}},
        rhs_batch_dims={{{dims}}}, lhs_contracting_dims={{{axes + 1}}},
        rhs_contracting_dims={{{axes + turned}}} }}""")


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("dtype", DTYPES)
def test_few_columns_are_taken_as_rows(dtype: str, turned: int, seed: int) -> None:
    rng = np.random.default_rng([seed])
    for batch in (0, 1, 3):
        columns, depth = int(rng.integers(2, MOST_ROWS + 1)), int(rng.integers(64, 300))
        rows = int(rng.integers(columns, 3 * BLOCK_COLUMNS))
        module = few_columns(rows, depth, columns, dtype, turned, batch)
        plan = few_rows_plan(module.entry.root)
        assert plan is not None
        assert plan.is_turned or rows <= MOST_ROWS
        check(rng, module, int(rng.choice([16, 32, 64])), turned)


@pytest.mark.parametrize("columns", [2, 3, 4, 5, 12])
@pytest.mark.parametrize("rows", [12, BLOCK_COLUMNS, BLOCK_COLUMNS + 1])
@pytest.mark.parametrize("left", [0, 15])
def test_few_columns_rows_and_elements_left_over(
    rows: int, columns: int, left: int, seed: int
) -> None:
    check(np.random.default_rng(seed), few_columns(rows, 96 + left, columns), turned=0)


def test_threads_change_no_bit_of_few_columns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((4000, 500), np.float32)
    y = rng.standard_normal((500, 5), np.float32)
    module = few_columns(4000, 500, 5)
    one, many = (
        np.asarray(xladev.compile(module, "cpu", CompileOptions(threads=n))(x, y)) for n in (1, 3)
    )
    assert one.tobytes() == many.tobytes()


def test_other_products_of_few_columns_are_not_turned() -> None:
    for rows, depth, columns in ((64, 64, 13), (64, 63, 4), (3, 64, 4), (64, 64, 1)):
        plan = few_rows_plan(few_columns(rows, depth, columns).entry.root)
        assert plan is None or not plan.is_turned


def test_other_products_are_not_taken() -> None:
    assert few_rows_plan(product(4, 64, 64).entry.root) is not None
    assert few_rows_plan(product(1, 64, 64).entry.root) is None
    assert few_rows_plan(product(MOST_ROWS + 1, 64, 64, "bf16").entry.root) is None
    assert few_rows_plan(product(MOST_ROWS + 1, 2048, 64).entry.root) is None
    assert few_rows_plan(product(MOST_SHALLOW_ROWS + 1, 64, 64).entry.root) is None
    assert few_rows_plan(product(4, 63, 64).entry.root) is None
    along_rows = parse_module("""HloModule m
    ENTRY main { x = f32[4,64] parameter(0)  y = f32[64,64] parameter(1)
      ROOT d = f32[4,64] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""")
    assert few_rows_plan(along_rows.entry.root) is None


def test_some_more_rows_of_shallow_products(seed: int) -> None:
    rng = np.random.default_rng([seed])
    for rows in (MOST_ROWS + 1, 21, MOST_SHALLOW_ROWS):
        module = product(rows, int(rng.integers(64, 700)), int(rng.integers(40, 80)))
        check(rng, module)
        plan = few_rows_plan(module.entry.root)
        assert plan is not None and not plan.is_turned
        assert not is_faster_than_panels(module.entry.root)
    assert is_faster_than_panels(product(MOST_ROWS, 64, 64).entry.root)


def test_a_sum_of_terms_that_are_not_finite_is_what_they_give() -> None:
    x, y = np.ones((2, 300), np.float32), np.ones((32, 300), np.float32)
    y[0, 5], y[1, 299], y[2, [3, 200]] = np.inf, np.nan, (np.inf, -np.inf)
    (got,) = run_kernel(product(2, 300, 32), x, y, calls="few_rows")
    assert np.all(got[:, 0] == np.inf)
    assert np.all(np.isnan(got[:, 1:3]))
    assert np.all(got[:, 3:] == 300)


def test_few_rows_are_as_fast_along_memory() -> None:
    for rows, wanted in ((1, True), (2, True), (4, True), (5, False), (64, False)):
        assert is_fast_along_memory(product(rows, 512, 2048).entry.root) is wanted, rows
    across = parse_module("""HloModule m
    ENTRY main { x = f32[1,512] parameter(0)  y = f32[512,2048] parameter(1)
      ROOT d = f32[1,2048] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""")
    assert not is_fast_along_memory(across.entry.root)
    assert not is_fast_along_memory(product(1, 16, 16).entry.root)


def test_a_loop_does_not_transpose_its_weights_first() -> None:
    state = "(s32[], f32[512,256], f32[1,256])"
    compiled = xladev.compile(
        parse_module(f"""HloModule m
    c {{ s = {state} parameter(0)  i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(9)  ROOT more = pred[] compare(i, n), direction=LT }}
    b {{ t = {state} parameter(0)  i = s32[] get-tuple-element(t), index=0
      w = f32[512,256] get-tuple-element(t), index=1
      h = f32[1,256] get-tuple-element(t), index=2
      one = s32[] constant(1)  j = s32[] add(i, one)
      wide = f32[1,512] pad(h, z), padding=0_0x0_256  z = f32[] constant(1)
      d = f32[1,256] dot(wide, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
      ROOT u = {state} tuple(j, w, d) }}
    ENTRY main {{ x = f32[256,512] parameter(0)  h = f32[1,256] parameter(1)
      z = s32[] constant(0)  w = f32[512,256] transpose(x), dimensions={{1,0}}
      t = {state} tuple(z, w, h)  l = {state} while(t), condition=c, body=b
      ROOT r = f32[1,256] get-tuple-element(l), index=2 }}"""),
        "cpu",
    )
    (executable,) = compiled.program.executables
    assert executable.signature.scratch_nbytes < 4 * 512 * 256
