"""How convolutions are cut into blocks."""

from math import prod

import pytest

from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.products.window_blocks import BlockSizes, block_sizes
from xladev.platforms.cpu.codegen.products.windows import WindowPlan, window_plan
from xladev.platforms.cpu.codegen.tactics import Tactic


def plan_of(pixels: int, channels: int, features: int, window: int, tactic: Tactic) -> WindowPlan:
    pad = window // 2
    module = parse_module(f"""
    HloModule m
    ENTRY main {{
      x = f32[1,{pixels},{pixels},{channels}] parameter(0)
      w = f32[{window},{window},{channels},{features}] parameter(1)
      ROOT y = f32[1,{pixels},{pixels},{features}] convolution(x, w),
        window={{size={window}x{window} pad={pad}_{pad}x{pad}_{pad}}}, dim_labels=b01f_01io->b01f }}
    """)
    plan = window_plan(module.entry.root, tactic)
    assert plan is not None
    return plan


def sizes(
    pixels: int,
    channels: int,
    features: int,
    window: int = 1,
    tactic: Tactic | None = None,
    is_shared: bool = True,
) -> BlockSizes:
    plan = plan_of(pixels, channels, features, window, tactic or Tactic())
    return block_sizes(plan, plan.kind(64), is_shared)


@pytest.mark.parametrize("window", [1, 3])
def test_all_pixels_of_a_deep_layer_share_the_filters_of_a_block(window: int) -> None:
    """Else 49 pixels are 48 and one more, or 42 and 7, and each part reads all filters."""
    found = sizes(7, 512, 512, window)
    assert found.rows >= 49
    assert found.columns == 64  # eight equal parts


def test_few_features_are_left_together_where_pixels_are_many() -> None:
    assert sizes(56, 64, 256) == BlockSizes(392, 256)


def test_middle_layers_are_cut_both_ways() -> None:
    found = sizes(28, 128, 512)
    assert found == BlockSizes(392, 128)


def test_blocks_are_of_about_equal_size() -> None:
    rows, columns = sizes(14, 672, 112)
    pixels = [min(rows, 196 - first) for first in range(0, 196, rows)]
    assert min(pixels) * 1.25 > max(pixels)
    assert len(pixels) * -(-112 // columns) >= 8


def test_one_thread_has_the_largest_blocks() -> None:
    assert sizes(7, 512, 512, is_shared=False) == BlockSizes(96, 512)


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_tactic_bounds_blocks(is_shared: bool) -> None:
    tactic = Tactic(block_rows=96, block_columns=256)
    rows, columns = sizes(14, 64, 512, 1, tactic, is_shared)
    assert rows <= 96
    assert columns <= 256


def test_rows_end_where_tiles_do() -> None:
    plan = plan_of(14, 64, 128, 3, Tactic())
    kind = plan.kind(64)
    rows = block_sizes(plan, kind, True).rows
    assert kind.rows == 7
    assert rows % kind.rows == 0
    assert rows <= plan.block_rows
    assert prod(plan.pixels) == 196


@pytest.mark.parametrize("pixels", [7, 14, 28, 56, 112])
def test_depthwise_blocks_are_about_equal(pixels: int) -> None:
    """A few blocks of whole lines and a rest would leave one thread alone at the end."""
    module = parse_module(f"""
    HloModule m
    ENTRY main {{
      x = f32[1,{pixels},{pixels},144] parameter(0)
      w = f32[3,3,1,144] parameter(1)
      ROOT y = f32[1,{pixels},{pixels},144] convolution(x, w),
        window={{size=3x3 pad=1_1x1_1}}, dim_labels=b01f_01io->b01f, feature_group_count=144 }}
    """)
    plan = window_plan(module.entry.root)
    assert plan is not None
    assert plan.is_depthwise
    rows, columns = block_sizes(plan, plan.kind(64), True)
    assert columns == 144
    assert rows <= plan.block_rows
    count = -(-(pixels**2) // rows)
    halves = -(-count // 2) * rows
    assert halves <= 0.62 * pixels**2 + 2
