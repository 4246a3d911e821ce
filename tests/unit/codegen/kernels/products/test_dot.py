"""Into which blocks a product is cut."""

import pytest

from xladev.codegen.kernels.products.dot import DotPlan, block_sizes, dot_plan
from xladev.hlo.text import parse_module


def plan(rows: int, depth: int, columns: int) -> DotPlan:
    text = f"""HloModule m
ENTRY e {{ x = f32[{rows},{depth}] parameter(0)  y = f32[{depth},{columns}] parameter(1)
  ROOT d = f32[{rows},{columns}] dot(x, y), lhs_contracting_dims={{1}},
    rhs_contracting_dims={{0}} }}
"""
    found = dot_plan(parse_module(text).entry.root)
    assert found is not None
    return found


@pytest.mark.parametrize(("columns", "width"), [(4096, 1024), (1024, 1024), (700, 1024)])
def test_columns_that_few_rows_read_are_cut_into_pages(columns: int, width: int) -> None:
    for is_shared in (True, False):
        assert block_sizes(plan(8, 4096, columns), True, is_shared)[1] == width


def test_others_are_cut_until_there_are_enough_to_share() -> None:
    assert block_sizes(plan(64, 256, 512), True, True) == (48, 128)
    assert block_sizes(plan(64, 4096, 512), False, True) == (48, 128)
    assert block_sizes(plan(1024, 1024, 1024), False, True) == (144, 512)
    assert block_sizes(plan(1024, 1024, 1024), False, False) == (240, 512)
