"""What the tiles of a block fetch while they multiply."""

from __future__ import annotations

from dataclasses import replace

import pytest

from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import ModuleBuilder
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.products.driver import HIGH
from xladev.platforms.cpu.codegen.products.kinds import CACHE_LINE_NBYTES
from xladev.platforms.cpu.codegen.products.tile import FETCHED_LINES
from xladev.platforms.cpu.codegen.table import emit_kernel
from xladev.platforms.cpu.engine import target_traits


def block(order: str) -> str:
    """LLVM of the block of a product whose right operand is laid out so."""
    dims, contracting = {"columns": ("100,250", 1), "rows": ("250,100", 0)}[order]
    module = parse_module(f"""HloModule m
    ENTRY e {{ x = f32[64,250] parameter(0)  y = f32[{dims}] parameter(1)
      ROOT d = f32[64,100] dot(x, y), lhs_contracting_dims={{1}},
        rhs_contracting_dims={{{contracting}}} }}""")
    builder = ModuleBuilder("m", replace(target_traits(), vector_nbytes=64))
    emit_kernel(builder, KernelSpec("kernel", module.entry))
    texts = str(builder).split("\ndefine ")
    return next(text for text in texts if f"block.{order}." in text.split("(")[0])


@pytest.mark.parametrize("order", ["columns", "rows"])
def test_columns_along_memory_are_fetched_one_after_the_other(order: str) -> None:
    lines = f"i64 {FETCHED_LINES * CACHE_LINE_NBYTES}, i64"
    chosen = [line for line in block(order).splitlines() if " select " in line and lines in line]
    assert bool(chosen) == (order == "columns")


@pytest.mark.parametrize("order", ["columns", "rows"])
def test_the_first_panel_fetches_the_rows_of_the_next_tile(order: str) -> None:
    """From where its own rows are: as far behind the first as all rows of a tile."""
    text = block(order)
    rows = [line for line in text.splitlines() if "inttoptr" in line]
    assert rows
    for line in rows:
        place = line.split(" = ")[0].strip()
        used = [each for each in text.splitlines() if f"ptr {place}," in each]
        assert used and all("getelementptr" in each for each in used)
    assert any("icmp sge" in line and f", {HIGH * 32}" in line for line in text.splitlines())
