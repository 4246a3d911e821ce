"""Tiles whose last vector is half as long: the same sums, and nothing written beside them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import xladev
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import ModuleBuilder
from xladev.hlo import dtype as dt
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.products.kinds import ProductKind
from xladev.platforms.cpu.codegen.table import emit_kernel
from xladev.platforms.cpu.engine import target_traits

WIDE = replace(target_traits(), vector_nbytes=64)


def text(rows: int, depth: int, columns: int, dtype: str = "f32") -> str:
    return f"""HloModule m
    ENTRY e {{ x = {dtype}[{rows},{depth}] parameter(0)  y = {dtype}[{depth},{columns}] parameter(1)
      ROOT d = {dtype}[{rows},{columns}] dot(x, y), lhs_contracting_dims={{1}},
        rhs_contracting_dims={{0}} }}"""


def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    dtype = "s32" if x.dtype.kind == "i" else "f32"
    source = text(x.shape[0], x.shape[1], y.shape[1], dtype)
    return np.asarray(xladev.compile(parse_module(source), "cpu")(x, y).numpy())


def code(columns: int, nbytes: int) -> str:
    """All functions of a product's kernel."""
    module = ModuleBuilder("m", replace(WIDE, vector_nbytes=nbytes))
    emit_kernel(module, KernelSpec("k", parse_module(text(40, 64, columns)).entry))
    return str(module)


@pytest.mark.parametrize("dtype", ["f32", "s32"])
@pytest.mark.parametrize("depth", [48, 1100])
@pytest.mark.parametrize("columns", [24, 40, 56, 23, 41])
@pytest.mark.parametrize("rows", [13, 33, 100])
def test_sums_are_those_of_whole_vectors(
    rows: int, columns: int, depth: int, dtype: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    whole = -(-columns // 32) * 32
    x, y = rng.standard_normal((rows, depth)), rng.standard_normal((depth, whole))
    kind = np.int32 if dtype == "s32" else np.float32
    x, y = (100 * x).astype(kind), (100 * y).astype(kind)
    wanted = product(x, y)[:, :columns]
    got = product(x, np.ascontiguousarray(y[:, :columns]))
    assert got.tobytes() == wanted.tobytes()


def test_long_vectors_of_four_bytes_have_halves() -> None:
    f32, bf16 = (dt.F32,) * 3, (dt.BF16, dt.BF16, dt.F32)
    assert ProductKind.of(WIDE, *f32).has_halves
    assert ProductKind.of(WIDE, *f32).half.lanes == 8
    assert not ProductKind.of(WIDE, *((dt.F64,) * 3)).has_halves
    assert not ProductKind.of(replace(WIDE, vector_nbytes=32), *f32).has_halves
    pairs = ProductKind.of(WIDE, *bf16).in_pairs(replace(WIDE, has_bfloat_products=True))
    assert pairs is not None
    assert not pairs.has_halves


@pytest.mark.parametrize(("nbytes", "has_halves"), [(64, True), (32, False), (16, False)])
def test_a_block_calls_them_where_there_are_any(nbytes: int, has_halves: bool) -> None:
    found = code(24, nbytes)
    assert ("tile.8x2.half" in found) is has_halves
    assert ("arithmetic.fence" in found) is has_halves
