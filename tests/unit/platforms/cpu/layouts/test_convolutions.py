"""Which convolutions are faster with their channels last, and what becomes of their filters."""

from __future__ import annotations

import pytest

from xladev.hlo.ir import HloInstruction
from xladev.hlo.text import parse_module
from xladev.passes.expansions.emit import Emitter
from xladev.platforms.cpu.layouts.convolutions import gain_ns, written_convolution

LANES = 16


def convolution(
    features: int, channels: int, size: int, window: int = 1, groups: int = 1, filters: str = ""
) -> HloInstruction:
    pad = window // 2
    part = channels // groups
    given = filters or f"f32[{features},{part},{window},{window}] parameter(1)"
    return parse_module(f"""HloModule m
    ENTRY e {{ x = f32[1,{channels},{size},{size}] parameter(0)  f = {given}
      ROOT c = f32[1,{features},{size},{size}] convolution(x, f),
        window={{size={window}x{window} pad={pad}_{pad}x{pad}_{pad}}},
        dim_labels=bf01_oi01->bf01, feature_group_count={groups} }}""").entry.root


def gain(i: HloInstruction) -> float:
    found = gain_ns(i, LANES)
    assert found is not None
    return found


def test_pixels_that_fill_no_vectors_gain_most() -> None:
    flops = 512 * 512 * 49 * 9
    seven, eight = gain(convolution(512, 512, 7, 3)), gain(convolution(512, 512, 8, 3))
    assert seven > eight + 0.1 * flops / 118


def test_filters_that_must_be_packed_cost() -> None:
    assert gain(convolution(64, 64, 14)) < gain(convolution(64, 64, 28))


def test_features_that_fill_no_vectors_cost() -> None:
    assert gain(convolution(24, 64, 56)) < gain(convolution(32, 64, 56))


@pytest.mark.parametrize(
    ("made", "labels"),
    [
        (convolution(64, 32, 8, 3), (0, 1, (2, 3))),
        (convolution(64, 32, 16, 11), (3, 0, (1, 2))),
        (convolution(64, 32, 8), (0, 1, (2, 3))),
        (convolution(64, 64, 8, 3, groups=64), (3, 0, (1, 2))),
    ],
    ids=["window", "large window", "pointwise", "depthwise"],
)
def test_filters(made: HloInstruction, labels: tuple[object, ...]) -> None:
    e = Emitter("e")
    base = e.parameter(made.operands[0].shape.__class__(*_moved(made)))
    filters = e.parameter(made.operands[1].shape)
    changed = written_convolution(e, made, (base, filters))
    d = changed["dim_labels"]
    assert (d.kernel_output_feature, d.kernel_input_feature, d.kernel_spatial) == labels
    assert (changed.operands[1] is filters) == (labels[0] == 0)


def _moved(i: HloInstruction) -> tuple[object, ...]:
    shape = i.operands[0].shape
    n, c, h, w = shape.dims
    return shape.element_type, (n, h, w, c)
