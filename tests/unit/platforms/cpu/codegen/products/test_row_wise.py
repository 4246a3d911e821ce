"""Dots row by row, of matrices that caches hold and of such that they do not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.platforms.cpu.one_kernel import run_kernel
from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import ModuleBuilder
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.products import row_wise
from xladev.platforms.cpu.codegen.products.row_wise import is_row_wise
from xladev.platforms.cpu.codegen.table import emit_kernel
from xladev.platforms.cpu.engine import target_traits


def product(depth: int, columns: int, dtype: str = "f32", batch: int = 1) -> HloModule:
    return parse_module(f"""HloModule m
    ENTRY main {{ x = {dtype}[{batch},1,{depth}] parameter(0)
      y = {dtype}[{batch},{depth},{columns}] parameter(1)
      ROOT d = {dtype}[{batch},1,{columns}] dot(x, y), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},
        lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}} }}""")


def fetches(module: HloModule) -> bool:
    """Whether the kernel asks for memory ahead."""
    builder = ModuleBuilder("m", target_traits())
    emit_kernel(builder, KernelSpec("kernel", module.entry))
    return "call void @llvm.prefetch" in str(builder)


@pytest.mark.parametrize("dtype", ["f32", "f64", "s32"])
@pytest.mark.parametrize("columns", [16, 127, 128, 129, 300])
def test_lines_that_are_asked_for_change_no_bit(
    dtype: str, columns: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    for depth, batch in ((150, 1), (203, 3), (4, 60)):
        module = product(depth, columns, dtype, batch)
        assert is_row_wise(module.entry.root)
        kind = {"f32": np.float32, "f64": np.float64, "s32": np.int32}[dtype]
        shapes = [p.shape.dims for p in module.entry.parameters]
        x, y = ((rng.standard_normal(dims) * 9).astype(kind) for dims in shapes)
        (near,) = run_kernel(module, x, y)
        np.testing.assert_allclose(near, x.astype(float) @ y, rtol=1e-3, atol=1e-3)
        with monkeypatch.context() as patched:
            patched.setattr(row_wise, "CACHED_NBYTES", 0)
            (far,) = run_kernel(module, x, y)
        assert near.tobytes() == far.tobytes()


def test_only_large_matrices_are_asked_for_ahead() -> None:
    assert fetches(product(1024, 1025))
    assert not fetches(product(1024, 1024))
