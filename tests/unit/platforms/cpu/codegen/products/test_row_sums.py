"""Sums of rows times a vector: the kernel alone, of random sizes, against NumPy in f64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.unit.platforms.cpu.one_kernel import run_kernel
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.products import row_sums
from xladev.platforms.cpu.codegen.products.dot import LEAST_PRODUCTS
from xladev.platforms.cpu.codegen.products.row_sums import (
    BLOCK_ROWS,
    ROWS,
    RowSumsPlan,
    is_faster_reduced,
    row_sums_plan,
)

DTYPES: dict[str, Any] = {
    "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f16": np.float16,
    "s8": np.int8, "s32": np.int32, "u32": np.uint32,
}  # fmt: skip
ROUNDING = {"f32": 2.0**-24, "f64": 2.0**-53}
"""Half a unit in the last place of one."""
KEPT = {"bf16": 2.0**-8, "f16": 2.0**-11}
"""Likewise of results that are rounded once more."""
TYPES = [
    ("f32", "f32"), ("f64", "f64"), ("bf16", "f32"), ("f16", "f32"), ("s8", "s32"),
    ("s32", "s32"), ("u32", "u32"), ("bf16", "bf16"), ("f16", "f16"),
]  # fmt: skip


def product(
    rows: int, depth: int, dtype: str, out: str, *,
    batch: tuple[int, ...] = (), matrix: int = 0, strided: bool = False,
) -> HloModule:  # fmt: skip
    """A product of a matrix and a vector, a matrix of one row, as `DotCanonicalizer` leaves it.

    Args:
        rows, depth: of the matrix.
        dtype, out: of the operands and of the result.
        batch: dimensions before those of the matrix, and of the vector.
        matrix: which operand it is.
        strided: its rows are not next to each other in memory: what is summed over comes first.
    """
    of_matrix = (depth, rows) if strided else (rows, depth)
    operands = [(*batch, *of_matrix), (*batch, 1, depth)]
    summed = [len(batch) + (not strided), len(batch) + 1]
    if matrix:
        operands.reverse()
        summed.reverse()
    result = (*batch, 1, rows) if matrix else (*batch, rows, 1)
    x, y, d = (",".join(map(str, shape)) for shape in (*operands, result))
    batches = ",".join(map(str, range(len(batch))))
    return parse_module(f"""HloModule m
    ENTRY main {{ x = {dtype}[{x}] parameter(0)  y = {dtype}[{y}] parameter(1)
      ROOT d = {out}[{d}] dot(x, y), lhs_batch_dims={{{batches}}}, rhs_batch_dims={{{batches}}},
        lhs_contracting_dims={{{summed[0]}}}, rhs_contracting_dims={{{summed[1]}}} }}""")


def plan_of(module: HloModule) -> RowSumsPlan | None:
    return row_sums_plan(module.entry.root)


def check(rng: np.random.Generator, module: HloModule, matrix: int, nbytes: int = 64) -> None:
    """Runs the kernel, which must call the function of this file, and compares."""
    arguments = [_drawn(rng, p.shape.dims, p.shape.element_type.name) for p in _parameters(module)]
    (got,) = run_kernel(module, *arguments, nbytes=nbytes, calls="row_sums")
    got = got.squeeze(-2 if matrix else -1)
    out = module.entry.root.shape.element_type.name
    if out[0] in "su":
        exact = [a.astype(np.int64) for a in arguments]
        wanted = np.einsum("...rk,...k->...r", exact[matrix], exact[1 - matrix][..., 0, :])
        np.testing.assert_array_equal(got, wanted.astype(DTYPES[out]))
        return
    wide = [a.astype(np.float64) for a in arguments]
    rows, vector = wide[matrix], wide[1 - matrix][..., 0, :]
    wanted = np.einsum("...rk,...k->...r", rows, vector)
    magnitude = np.einsum("...rk,...k->...r", abs(rows), abs(vector))
    depth = arguments[matrix].shape[-1]
    error = abs(got.astype(np.float64) - wanted)
    bound = 2 * depth * ROUNDING.get(out, ROUNDING["f32"]) * magnitude
    bound += KEPT.get(out, 0) * abs(wanted) * 1.01
    assert np.all(error <= bound), float(np.max(error))


def _parameters(module: HloModule) -> list[Any]:
    return list(module.entry.parameters)


def _drawn(rng: np.random.Generator, dims: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype[0] in "su":
        limits = np.iinfo(DTYPES[dtype])
        return rng.integers(limits.min, limits.max, dims, endpoint=True).astype(DTYPES[dtype])
    return rng.standard_normal(dims).astype(DTYPES[dtype])


@pytest.mark.parametrize(("dtype", "out"), TYPES)
@pytest.mark.parametrize("matrix", [0, 1])
def test_random_sizes(dtype: str, out: str, matrix: int, seed: int) -> None:
    rng = np.random.default_rng([seed, matrix])
    for _ in range(4):
        depth = int(rng.integers(1, 700))
        rows = LEAST_PRODUCTS // depth + int(rng.integers(1, 3 * BLOCK_ROWS))
        batch = tuple(rng.integers(1, 4, rng.integers(0, 3)).tolist())
        nbytes = int(rng.choice([16, 32, 64]))
        module = product(rows, depth, dtype, out, batch=batch, matrix=matrix)
        found = plan_of(module)
        assert found is not None
        assert (found.matrix, found.batch) == (matrix, batch)
        assert (found.rows, found.depth) == (rows, depth)
        check(rng, module, matrix, nbytes)


@pytest.mark.parametrize("rows", [1, ROWS - 1, ROWS, ROWS + 1, BLOCK_ROWS, BLOCK_ROWS + 1])
@pytest.mark.parametrize("left", [0, 1, 15, 16, 63])
def test_rows_and_elements_left_over(rows: int, left: int, seed: int) -> None:
    module = product(rows, LEAST_PRODUCTS + left, "f32", "f32")
    found = plan_of(module)
    assert found is not None
    check(np.random.default_rng(seed), module, found.matrix)


@pytest.mark.parametrize("matrix", [0, 1])
def test_other_products_are_not_taken(matrix: int) -> None:
    assert plan_of(product(64, 64, "f32", "f32", matrix=matrix)) is not None
    assert plan_of(product(64, 31, "f32", "f32", matrix=matrix)) is None
    assert plan_of(product(64, 64, "f32", "f32", matrix=matrix, strided=True)) is None
    two_columns = parse_module("""HloModule m
    ENTRY main { x = f32[64,64] parameter(0)  y = f32[64,2] parameter(1)
      ROOT d = f32[64,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }""")
    assert plan_of(two_columns) is None


def test_a_sum_of_terms_that_are_not_finite_is_what_they_give() -> None:
    module = product(8, 300, "f32", "f32")
    x, y = np.ones((8, 300), np.float32), np.ones((1, 300), np.float32)
    x[1, 7], x[2, 299], x[3, 0], x[3, 1] = np.inf, np.nan, np.inf, -np.inf
    (got,) = run_kernel(module, x, y, calls="row_sums")
    np.testing.assert_array_equal(got[:, 0], [300, np.inf, np.nan, np.nan, 300, 300, 300, 300])


@pytest.mark.parametrize(
    ("dtype", "shapes", "wanted"),
    [
        ("c64", ("[9,30]", "[30]", "[9]"), True),
        ("s64", ("[9,30]", "[30]", "[9]"), True),
        ("f32", ("[9,30]", "[30]", "[9]"), False),
        ("s32", ("[9,30]", "[30]", "[9]"), False),
    ],
)
def test_what_is_faster_as_a_reduce(dtype: str, shapes: tuple[str, str, str], wanted: bool) -> None:
    x, y, result = shapes
    module = parse_module(f"""HloModule m
    ENTRY e {{ x = {dtype}{x} parameter(0)  y = {dtype}{y} parameter(1)
      ROOT d = {dtype}{result} dot(x, y),
        lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}""")
    assert is_faster_reduced(module.entry.root) is wanted


@pytest.mark.parametrize(("batch", "wanted"), [(1, False), (7, True)])
def test_many_products_of_two_vectors_are_faster_as_a_reduce(batch: int, wanted: bool) -> None:
    module = parse_module(f"""HloModule m
    ENTRY e {{ x = f32[{batch},30] parameter(0)  y = f32[{batch},30] parameter(1)
      ROOT d = f32[{batch}] dot(x, y), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
        lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}} }}""")
    assert is_faster_reduced(module.entry.root) is wanted


@pytest.mark.parametrize("dtype", ["f32", "bf16", "s32"])
def test_matrices_that_no_cache_holds_have_the_same_sums(
    dtype: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    for rows in (*range(5, 10), BLOCK_ROWS - 1, BLOCK_ROWS, 2 * BLOCK_ROWS + 1):
        depth = int(rng.integers(LEAST_PRODUCTS // 5 + 1, 700))
        module = product(rows, depth, dtype, "f32" if dtype == "bf16" else dtype)
        x, y = (rng.integers(-9, 9, p.shape.dims) for p in module.entry.parameters)
        given = [a.astype(DTYPES[dtype]) for a in (x * 0.3, y * 0.7)]
        (near,) = run_kernel(module, *given, calls="row_sums")
        with monkeypatch.context() as patched:
            patched.setattr(row_sums, "CACHED_NBYTES", 0)
            (far,) = run_kernel(module, *given, calls="row_sums.far")
        assert near.tobytes() == far.tobytes()
