"""Dots whose operands change places, beside products in f64 and beside blocks that pack columns."""

from __future__ import annotations

import numpy as np
import pytest

import xladev
from tests.unit.platforms.cpu.codegen.products.test_few_rows import product
from tests.unit.platforms.cpu.one_kernel import run_kernel
from xladev.compiler.options import CompileOptions
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.products import swapped
from xladev.platforms.cpu.codegen.products.swapped import BLOCK_COLUMNS, swapped_plan

ROUNDING = {np.dtype(np.float32): 2.0**-24, np.dtype(np.float64): 2.0**-53}


def check(rng: np.random.Generator, module: HloModule, nbytes: int = 64) -> None:
    """Runs the kernel, which must call the function of this file, and compares."""
    shapes = [p.shape for p in module.entry.parameters]
    x, y = (rng.standard_normal(s.dims).astype(s.element_type.np) for s in shapes)
    (got,) = run_kernel(module, x, y, nbytes=nbytes, calls="swapped")
    wide = x.astype(np.float64), np.swapaxes(y.astype(np.float64), -1, -2)
    bound = 2 * x.shape[-1] * ROUNDING[x.dtype] * (abs(wide[0]) @ abs(wide[1]))
    assert np.all(abs(got - wide[0] @ wide[1]) <= bound)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_random_sizes(dtype: str, seed: int) -> None:
    rng = np.random.default_rng([seed])
    for _ in range(4):
        batch = tuple(rng.integers(1, 4, rng.integers(0, 3)).tolist())
        rows, depth = 16 * int(rng.integers(1, 5)) - int(rng.integers(0, 2)), 64
        depth += int(rng.integers(256, 700))
        columns = int(rng.integers(5 * BLOCK_COLUMNS, 9 * BLOCK_COLUMNS))
        module = product(rows, depth, columns, dtype, batch)
        assert swapped_plan(module.entry.root) is not None
        check(rng, module, int(rng.choice([16, 32, 64])))


@pytest.mark.parametrize("rows", [13, 16, 31, 48, 65, 128])
@pytest.mark.parametrize("more", [0, 17])
def test_rows_columns_and_elements_left_over(
    rows: int, more: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swapped, "LEAST_GAIN", 0)
    monkeypatch.setattr(swapped, "LEAST_FULL", 0)
    module = product(rows, 128 + more, 3 * BLOCK_COLUMNS + more)
    check(np.random.default_rng(seed), module)


def test_depths_that_are_cut_sum_in_the_same_order(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    module = product(32, 2100, 200)
    x, y = (rng.standard_normal(p.shape.dims, np.float32) for p in module.entry.parameters)
    (got,) = run_kernel(module, x, y, calls="swapped")
    monkeypatch.setattr(swapped, "LEAST_ROWS", 1000)
    (packed,) = run_kernel(module, x, y, calls="block.columns")
    assert got.tobytes() == packed.tobytes()


@pytest.mark.parametrize("lhs", [0, 1])
def test_left_operands_across_memory(lhs: int, seed: int) -> None:
    shape = "512,32" if lhs == 0 else "32,512"
    module = parse_module(f"""HloModule m
    ENTRY main {{ x = f32[{shape}] parameter(0)  y = f32[400,512] parameter(1)
      ROOT d = f32[32,400] dot(x, y), lhs_contracting_dims={{{lhs}}},
        rhs_contracting_dims={{1}} }}""")
    rng = np.random.default_rng(seed)
    x, y = (rng.standard_normal(p.shape.dims, np.float32) for p in module.entry.parameters)
    (got,) = run_kernel(module, x, y, calls="swapped")
    wide = (x if lhs else x.T).astype(np.float64)
    np.testing.assert_allclose(got, wide @ y.T, rtol=1e-4, atol=1e-4)


def test_threads_change_no_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((2, 48, 600), np.float32)
    y = rng.standard_normal((2, 1500, 600), np.float32)
    module = product(48, 600, 1500, batch=(2,))
    one, many = (
        np.asarray(xladev.compile(module, "cpu", CompileOptions(threads=n))(x, y)) for n in (1, 3)
    )
    assert one.tobytes() == many.tobytes()


def test_terms_that_are_not_finite_stay_in_their_columns_and_rows() -> None:
    x, y = np.ones((16, 300), np.float32), np.ones((200, 300), np.float32)
    y[0, 5], y[1, 299], y[2, [3, 200]] = np.inf, np.nan, (np.inf, -np.inf)
    x[15, 7] = np.nan
    (got,) = run_kernel(product(16, 300, 200), x, y, calls="swapped")
    assert np.all(got[:15, 0] == np.inf)
    assert np.all(np.isnan(got[:15, 1:3]))
    assert np.all(got[:15, 3:] == 300)
    assert np.all(np.isnan(got[15]))


def test_other_products_are_not_taken() -> None:
    assert swapped_plan(product(32, 512, 512).entry.root) is not None
    others = [
        product(32, 512, 512, "bf16"),  # in pairs
        product(12, 512, 512),  # sums along memory
        product(24, 512, 512),  # a quarter of the second vector's lanes were idle
        product(128, 128, 128),  # packing both is as much
        product(32, 512, 64),
        product(1024, 8192, 8192),
    ]
    for module in others:
        assert swapped_plan(module.entry.root) is None
    along_rows = parse_module("""HloModule m
    ENTRY main { x = f32[32,512] parameter(0)  y = f32[512,512] parameter(1)
      ROOT d = f32[32,512] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""")
    assert swapped_plan(along_rows.entry.root) is None
