"""What windows of a convolution see first."""

from itertools import product

import pytest

from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.products.windows import WindowPlan, window_plan


def depthwise(window: str, size: tuple[int, int], filters: tuple[int, int]) -> WindowPlan:
    module = parse_module(f"""HloModule m
    ENTRY e {{ x = f32[1,{size[0]},{size[1]},32] parameter(0)
      w = f32[{filters[0]},{filters[1]},1,32] parameter(1)
      ROOT y = convolution(x, w), window={{{window}}}, dim_labels=b01f_01io->b01f,
        feature_group_count=32 }}""")
    plan = window_plan(module.entry.root)
    assert plan is not None and plan.is_depthwise
    return plan


@pytest.mark.parametrize(
    ("window", "filters"),
    [
        ("size=3x3", (3, 3)),
        ("size=3x3 stride=2x2", (3, 3)),
        ("size=3x2 stride=1x3", (3, 2)),
        ("size=3x3 rhs_dilate=2x2 stride=1x2", (3, 3)),
        ("size=5x3 rhs_dilate=3x2 stride=2x3", (5, 3)),
        ("size=3x3 stride=2x1 rhs_reversal=1x1", (3, 3)),
    ],
)
def test_new_positions_see_what_no_pixel_before_has_seen(
    window: str, filters: tuple[int, int]
) -> None:
    """All others see it again, as far as windows of pixels before are whole."""
    plan = depthwise(window, (40, 40), filters)
    rows, columns = plan.pixels[1:]
    dims = [axis.window for axis in plan.axes]
    seen, new = set[tuple[int, ...]](), set[int]()
    far = 14  # lesser pixels are enough that see what this one does, in both dimensions
    for pixel in product(range(min(rows, far + 1)), range(min(columns, far + 1))):
        for number, at in enumerate(product(*(range(w.size) for w in dims))):
            place = tuple(
                p * w.stride + (w.size - 1 - x if w.reversal else x) * w.window_dilation
                for p, x, w in zip(pixel, at, dims, strict=True)
            )
            if pixel == (min(rows - 1, far), min(columns - 1, far)) and place not in seen:
                new.add(number)
            seen.add(place)
    assert set(plan.new_positions) == new


def test_large_bases_are_fetched_ahead() -> None:
    assert depthwise("size=3x3", (128, 128), (3, 3)).is_fetched
    assert not depthwise("size=3x3", (64, 64), (3, 3)).is_fetched
