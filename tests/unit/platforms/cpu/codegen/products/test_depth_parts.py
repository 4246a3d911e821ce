"""In how many parts the depth is cut, and products that are cut so, beside sums of doubles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xladev
from tests.unit.platforms.cpu.one_kernel import run_kernel
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import ModuleBuilder
from xladev.compiler.options import CompileOptions
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.products.depth_parts import depth_parts, part_depth
from xladev.platforms.cpu.codegen.products.matmul import dot_way
from xladev.platforms.cpu.codegen.products.row_wise import row_wise_workspace_nbytes
from xladev.platforms.cpu.codegen.sharing import PARALLEL
from xladev.platforms.cpu.codegen.table import emit_kernel
from xladev.platforms.cpu.engine import target_traits

DTYPES: dict[str, Any] = {
    "f32": np.float32, "f64": np.float64, "s32": np.int32, "c64": np.complex64,
}  # fmt: skip


def product(rows: int, depth: int, columns: int, dtype: str = "f32") -> HloModule:
    return parse_module(f"""HloModule m
    ENTRY main {{ x = {dtype}[{rows},{depth}] parameter(0)
      y = {dtype}[{depth},{columns}] parameter(1)
      ROOT d = {dtype}[{rows},{columns}] dot(x, y),
        lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}""")


def operands(module: HloModule, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    made = []
    for parameter in module.entry.parameters:
        dims, dtype = parameter.shape.dims, DTYPES[parameter.shape.element_type.name]
        found = rng.standard_normal((2, *dims))
        if np.issubdtype(dtype, np.integer):
            made.append((found[0] * 100).astype(dtype))
        elif np.issubdtype(dtype, np.complexfloating):
            made.append((found[0] + 1j * found[1]).astype(dtype))
        else:
            made.append(found[0].astype(dtype))
    return made


@pytest.mark.parametrize(
    ("rows", "depth", "row_nbytes", "parts"),
    [
        (1, 768, 3072, 4),  # 2.25 MiB
        (1, 3072, 3072, 16),
        (1, 1 << 20, 4096, 16),
        (1, 128, 1 << 20, 2),  # of 64 steps at least
        (1, 127, 1 << 20, 1),
        (1, 1000, 1000, 1),  # too few bytes
        (8, 768, 3072, 2),  # sums of 2 parts are 16 rows, 1/48 of the right operand's
        (8, 256, 1 << 20, 1),
        (16, 3072, 3072, 4),
    ],
)
def test_parts_follow_from_the_shapes(rows: int, depth: int, row_nbytes: int, parts: int) -> None:
    assert depth_parts(rows, depth, row_nbytes) == parts


def test_steps_of_parts_are_whole_groups() -> None:
    assert part_depth(3072, 16, 8) == 192
    assert part_depth(3073, 16, 8) == 200
    assert part_depth(3073, 16) == 193


CUT = [
    (1, 768, 768),
    (1, 1100, 517),
    (3, 2056, 300),
    (2, 3000, 768),
    (8, 1030, 515),
    (16, 2048, 600),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", CUT, ids=str)
def test_sums_of_parts_are_the_product(sizes: tuple[int, int, int], dtype: str, seed: int) -> None:
    module = product(*sizes, dtype)
    if dtype == "f32":
        way = dot_way(module.entry.root)
        parts = row_wise_workspace_nbytes(module.entry.root) if way is None else way.depth_parts > 1
        assert parts, "nothing is cut"
    x, y = operands(module, seed)
    (got,) = run_kernel(module, x, y)
    if dtype == "s32":
        np.testing.assert_array_equal(got, x @ y)
        return
    wide = np.complex128 if dtype == "c64" else np.float64
    wanted, magnitude = x.astype(wide) @ y.astype(wide), abs(x) @ abs(y)
    rounding = 2.0**-53 if dtype == "f64" else 2.0**-24
    assert np.all(abs(got - wanted) <= 4 * x.shape[-1] * rounding * magnitude)


@pytest.mark.parametrize("sizes", CUT, ids=str)
def test_threads_change_no_bit(sizes: tuple[int, int, int], seed: int) -> None:
    module = product(*sizes)
    arguments = operands(module, seed)
    one, two, many = (
        np.asarray(xladev.compile(module, "cpu", CompileOptions(threads=n))(*arguments))
        for n in (1, 2, 5)
    )
    assert one.tobytes() == two.tobytes() == many.tobytes()


def test_columns_of_few_rows_are_shared_where_the_depth_is_not_cut(seed: int) -> None:
    module = product(1, 100, 9000)
    builder = ModuleBuilder("m", target_traits())
    emit_kernel(builder, KernelSpec("kernel", module.entry), threads=2)
    assert PARALLEL in str(builder)
    arguments = operands(module, seed)
    one, many = (
        np.asarray(xladev.compile(module, "cpu", CompileOptions(threads=n))(*arguments))
        for n in (1, 3)
    )
    assert one.tobytes() == many.tobytes()


def test_narrow_rows_are_not_cut() -> None:
    """On no machine: how wide tiles are must not decide in which order sums are made."""
    for columns, is_cut in ((63, False), (64, True)):
        way = dot_way(product(4, 16384, columns).entry.root)
        assert (way.depth_parts > 1) is is_cut


def test_terms_that_are_not_finite_are_those_of_the_product() -> None:
    module = product(1, 2048, 512)
    x, y = np.ones((1, 2048), np.float32), np.ones((2048, 512), np.float32)
    y[0, 0], y[2047, 1], y[5, 2], y[2000, 2] = np.inf, np.nan, np.inf, -np.inf
    (got,) = run_kernel(module, x, y)
    assert np.isposinf(got[0, 0]) and np.isnan(got[0, 1:3]).all() and (got[0, 3:] == 2048).all()
