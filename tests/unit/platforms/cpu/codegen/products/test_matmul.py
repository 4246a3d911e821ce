"""Matrix products in register tiles, against NumPy in f64."""

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xladev
from xladev.hlo.text import parse_module
from xladev.platforms.cpu import compiler, linker
from xladev.platforms.cpu.codegen.products.dot import LEAST_PRODUCTS, is_fast_as_it_is
from xladev.platforms.cpu.codegen.products.matmul import LEAST_REUSE, ROW_BLOCK, product_of
from xladev.platforms.cpu.codegen.products.row_sums import row_sums_plan
from xladev.platforms.cpu.engine import target_traits

DTYPES: dict[str, Any] = {
    "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16,
    "s8": np.int8, "s32": np.int32, "u32": np.uint32,
}  # fmt: skip
ROUNDING = {"f32": 1e-5, "f64": 1e-14, "bf16": 1e-2, "f16": 2e-3}


def text(
    m: int, k: int, n: int, dtype: str, out: str, batch: tuple[int, ...], turned: tuple[int, int]
) -> str:
    """A product; operands that are turned have the dimension that is summed over elsewhere."""
    shapes = ((k, m) if turned[0] else (m, k), (n, k) if turned[1] else (k, n), (m, n))
    x, y, d = (",".join(map(str, (*batch, *s))) for s in shapes)
    first = len(batch)
    batches = ",".join(map(str, range(first)))
    return f"""
    HloModule m
    ENTRY main {{ x = {dtype}[{x}] parameter(0)  y = {dtype}[{y}] parameter(1)
      ROOT d = {out}[{d}] dot(x, y), lhs_batch_dims={{{batches}}}, rhs_batch_dims={{{batches}}},
        lhs_contracting_dims={{{first + 1 - turned[0]}}},
        rhs_contracting_dims={{{first + turned[1]}}}
    }}"""


def check(
    seed: int, m: int, k: int, n: int, dtype: str = "f32", out: str = "", *,
    batch: tuple[int, ...] = (), turned: tuple[int, int] = (0, 0),
) -> None:  # fmt: skip
    """Compiles, runs and compares a product that is done in tiles."""
    out = out or dtype
    module = parse_module(text(m, k, n, dtype, out, batch, turned))
    assert product_of(module.entry.root) is not None
    rng = np.random.default_rng(seed)
    arguments = []
    for parameter in module.entry.parameters:
        shape = parameter.shape.dims
        drawn = (
            rng.integers(0 if dtype[0] == "u" else -9, 9, shape)
            if dtype[0] in "su"
            else rng.standard_normal(shape)
        )
        arguments.append(drawn.astype(DTYPES[dtype]))
    got = np.asarray(xladev.compile(module, "cpu")(*arguments))
    x, y = (a.astype(np.float64) for a in arguments)
    wanted = (x.swapaxes(-1, -2) if turned[0] else x) @ (y.swapaxes(-1, -2) if turned[1] else y)
    if dtype[0] in "su":
        np.testing.assert_array_equal(got, wanted.astype(np.int64).astype(DTYPES[out]))
        return
    bound = ROUNDING[out] * float(np.abs(wanted).max())
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=0, atol=bound)


@pytest.mark.parametrize("m", [LEAST_REUSE, 8, 9, ROW_BLOCK + 9])
@pytest.mark.parametrize("n", [8, 31, 32, 65])
def test_edges_of_tiles_and_blocks(m: int, n: int, seed: int) -> None:
    check(seed, m, 67, n)


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "s32"])
@pytest.mark.parametrize("m", [17, 250])
def test_first_tiles_pack_whole_panels_in_parts_of_the_depth(m: int, dtype: str, seed: int) -> None:
    """Panels of all columns, and one of fewer; parts of the depth, and blocks of rows."""
    check(seed, m, 1100, 70, dtype)


@pytest.mark.parametrize("n", [32, 300, 321])
@pytest.mark.parametrize("m", [LEAST_REUSE, 9, 16])
def test_streams_leave_columns_that_fill_no_tile_to_panels(m: int, n: int, seed: int) -> None:
    check(seed, m, 500, n)
    check(seed, m, 150, n, batch=(2,))


@pytest.mark.parametrize("turned", [(0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("m", [7, ROW_BLOCK + 1])
def test_operands_in_either_order(m: int, turned: tuple[int, int], seed: int) -> None:
    check(seed, m, 33, 35, turned=turned)


@pytest.mark.parametrize("turned", [(0, 0), (1, 1)])
@pytest.mark.parametrize("n", [1, 3, 7])
def test_few_columns_become_rows(n: int, turned: tuple[int, int], seed: int) -> None:
    check(seed, 100, 40, n, turned=turned)
    check(seed, 100, 40, n, batch=(2,), turned=turned)


@pytest.mark.parametrize("batch", [(3,), (2, 2)])
def test_batches(batch: tuple[int, ...], seed: int) -> None:
    check(seed, 17, 20, 33, batch=batch)
    check(seed, 17, 20, 33, "bf16", batch=batch, turned=(1, 1))


@pytest.mark.parametrize(
    ("dtype", "out"),
    [("f64", ""), ("bf16", ""), ("bf16", "f32"), ("f16", ""), ("s8", "s32"), ("s32", ""),
     ("u32", "")],
)  # fmt: skip
def test_types(dtype: str, out: str, seed: int) -> None:
    check(seed, 21, 30, 37, dtype, out)
    check(seed, 1 if dtype == "bf16" else 4, 70, 64, dtype, out, turned=(0, 1))


@pytest.mark.parametrize("nbytes", [16, 32, 64])
def test_processors_with_other_vectors(
    nbytes: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    traits = replace(target_traits(), vector_nbytes=nbytes)
    for each in (linker, compiler):
        monkeypatch.setattr(each, "target_traits", lambda: traits)
    check(seed, 19, 25, 50)
    check(seed, 19, 25, 50, "f64", turned=(1, 0))


def test_nans_and_infinities_stay_in_their_row_and_column() -> None:
    x, y = np.ones((9, 24), np.float32), np.ones((24, 40), np.float32)
    x[2, 3], y[5, 33] = np.nan, np.inf
    got = np.asarray(
        xladev.compile(parse_module(text(9, 24, 40, "f32", "f32", (), (0, 0))), "cpu")(x, y)
    )
    assert np.isnan(got[2]).all()
    rest = np.delete(got, 2, axis=0)
    assert np.isinf(rest[:, 33]).all()
    assert (np.delete(rest, 33, axis=1) == 24).all()


@pytest.mark.parametrize(
    ("m", "k", "n", "dtype"), [(4, 4, 4, "f32"), (2, 64, 64, "f32"), (64, 64, 64, "c64")]
)
def test_what_is_not_done_in_tiles(m: int, k: int, n: int, dtype: str) -> None:
    module = parse_module(text(m, k, n, dtype, dtype, (), (0, 0)))
    assert product_of(module.entry.root) is None


def test_a_matrix_times_itself(seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((40, 40)).astype(np.float32)
    module = parse_module("""
    HloModule m
    ENTRY main { x = f32[40,40] parameter(0)
      ROOT d = f32[40,40] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }""")
    got = np.asarray(xladev.compile(module, "cpu")(x))
    np.testing.assert_allclose(got, x.astype(np.float64) @ x, rtol=0, atol=1e-4)


@pytest.mark.parametrize("m", [4, 8, 9, 32])
def test_few_rows_of_a_wide_matrix(m: int, seed: int) -> None:
    check(seed, m, 53, 1088)


@pytest.mark.parametrize(("m", "n"), [(300, 600), (8, 2048)])
@pytest.mark.parametrize("turned", [(0, 0), (1, 1)])
def test_more_depth_than_a_panel_holds(m: int, n: int, turned: tuple[int, int], seed: int) -> None:
    check(seed, m, 700, n, turned=turned)


@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 0)])
@pytest.mark.parametrize(("m", "k", "n"), [(9, 1100, 70), (16, 64, 32), (5, 66, 40)])
def test_bytes_to_their_bounds(m: int, k: int, n: int, turned: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(-128, 128, s).astype(np.int8) for s in ((m, k), (k, n)))
    x[0], y[:, 0] = -128, -128
    x[1] = 127
    module = parse_module(text(m, k, n, "s8", "s32", (), turned))
    arguments = (x.T.copy() if turned[0] else x), (y.T.copy() if turned[1] else y)
    got = np.asarray(xladev.compile(module, "cpu")(*arguments))
    np.testing.assert_array_equal(got, x.astype(np.int32) @ y.astype(np.int32))


@pytest.mark.parametrize(
    ("m", "n", "turned"), [(131, 1, (0, 0)), (130, 1, (0, 1)), (1, 129, (0, 1)), (1, 1, (0, 0))]
)
@pytest.mark.parametrize("k", [61, 2100])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_a_matrix_times_a_vector(
    m: int, n: int, turned: tuple[int, int], k: int, batch: tuple[int, ...], seed: int
) -> None:
    module = parse_module(text(m, k, n, "f32", "f32", batch, turned))
    assert m * k * n < LEAST_PRODUCTS or row_sums_plan(module.entry.root) is not None
    rng = np.random.default_rng(seed)
    x, y = (rng.standard_normal((*batch, *s)).astype(np.float32) for s in ((m, k), (k, n)))
    arguments = x, (y.swapaxes(-1, -2).copy() if turned[1] else y)
    got = np.asarray(xladev.compile(module, "cpu")(*arguments))
    np.testing.assert_allclose(got, x.astype(np.float64) @ y, rtol=0, atol=1e-5 * k)


def test_bytes_times_a_vector(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(-128, 128, s).astype(np.int8) for s in ((70, 333), (333, 1)))
    module = parse_module(text(70, 333, 1, "s8", "s32", (), (0, 0)))
    got = np.asarray(xladev.compile(module, "cpu")(x, y))
    np.testing.assert_array_equal(got, x.astype(np.int32) @ y.astype(np.int32))


@pytest.mark.parametrize("turned", [(0, 0), (0, 1)])
@pytest.mark.parametrize(("m", "k", "n"), [(16, 34, 40), (17, 66, 31), (250, 1100, 33)])
@pytest.mark.parametrize("out", ["bf16", "f32"])
def test_pairs_of_bf16(
    m: int, k: int, n: int, out: str, turned: tuple[int, int], seed: int
) -> None:
    check(seed, m, k, n, "bf16", out, turned=turned)


@pytest.mark.parametrize("turned", [(0, 0), (0, 1)])
def test_denormals_are_kept_and_change_no_other_row(turned: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = (rng.standard_normal(s).astype(np.float32) for s in ((20, 96), (96, 40)))
    tiny = np.array(x)
    tiny[3] = 2.0**-130
    small = np.full((20, 96), 2.0**-80, np.float32), np.full((96, 40), 2.0**-52, np.float32)
    product = xladev.compile(parse_module(text(20, 96, 40, "bf16", "f32", (), turned)), "cpu")

    def run(left: Any, right: Any) -> Any:
        right = right.T if turned[1] else right
        operands = (np.ascontiguousarray(a.astype(ml_dtypes.bfloat16)) for a in (left, right))
        return np.asarray(product(*operands))

    rounded = y.astype(ml_dtypes.bfloat16).astype(np.float64)
    changed, same = run(tiny, y), run(x, y)
    np.testing.assert_allclose(changed[3], 2.0**-130 * rounded.sum(0), rtol=0, atol=2.0**-141)
    np.testing.assert_array_equal(np.delete(changed, 3, 0), np.delete(same, 3, 0))
    np.testing.assert_array_equal(run(*small), np.full((20, 40), 96 * 2.0**-132, np.float32))


@pytest.mark.parametrize(
    ("x", "y", "attributes", "equation"),
    [
        ((2, 17, 24), (24, 40), "lhs_contracting_dims={2}, rhs_contracting_dims={0}",
         "abk,kn->abn"),
        ((2, 9, 24), (5, 8, 24), "lhs_contracting_dims={2}, rhs_contracting_dims={2}",
         "abk,cdk->abcd"),
        ((3, 8, 20), (3, 8, 40), "lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}",
         "abm,abn->mn"),
        ((2, 16, 4, 8), (2, 24, 4, 8), "lhs_batch_dims={0,2}, rhs_batch_dims={0,2}, "
         "lhs_contracting_dims={3}, rhs_contracting_dims={3}", "bqhd,bkhd->bhqk"),
        ((2, 4, 16, 24), (2, 24, 4, 16), "lhs_batch_dims={0,1}, rhs_batch_dims={0,2}, "
         "lhs_contracting_dims={3}, rhs_contracting_dims={1}", "bhqk,bkhd->bhqd"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_any_dimension_numbers_without_transposes(
    x: tuple[int, ...], y: tuple[int, ...], attributes: str, equation: str, dtype: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    left, right = (rng.standard_normal(s).astype(DTYPES[dtype]) for s in (x, y))
    wanted = np.einsum(equation, left.astype(np.float64), right.astype(np.float64))
    shapes = [",".join(map(str, s)) for s in (x, y, wanted.shape)]
    module = parse_module(f"""
    HloModule m
    ENTRY main {{ x = {dtype}[{shapes[0]}] parameter(0)  y = {dtype}[{shapes[1]}] parameter(1)
      ROOT d = f32[{shapes[2]}] dot(x, y), {attributes}
    }}""")
    assert is_fast_as_it_is(module.entry.root)
    got = np.asarray(xladev.compile(module, "cpu")(left, right))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-4)


def test_what_a_dot_needs_turned_first() -> None:
    module = parse_module("""
    HloModule m
    ENTRY main { x = f32[8,16,4] parameter(0)  y = f32[16,40] parameter(1)
      ROOT d = f32[8,4,40] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    }""")
    assert not is_fast_as_it_is(module.entry.root)
