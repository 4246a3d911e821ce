"""Filters with the window innermost: packed without a copy in another order."""

from __future__ import annotations

import numpy as np
import pytest

import xladev
from xladev.client import compile as compile_for
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen import sharing
from xladev.platforms.cpu.codegen.products import convolution
from xladev.platforms.cpu.codegen.products.windows import Packing, window_plan
from xladev.platforms.cpu.codegen.tactics import Tactic

ORDERS = {"oi01": (3, 2, 0, 1), "01io": (0, 1, 2, 3), "01oi": (0, 1, 3, 2)}
SIZES = {
    "many pixels": (24, 24, 20, 70, 3, 1),
    "few pixels": (7, 7, 40, 100, 3, 1),
    "few features": (7, 9, 33, 24, 3, 1),
    "groups": (23, 24, 9, 40, 3, 2),
    "one channel": (30, 30, 1, 16, 5, 1),
    "points": (7, 7, 150, 112, 1, 1),
}
"""Two of pixels, channels of a group, features, window, groups."""


def text(name: str, order: str) -> str:
    height, width, channels, features, window, groups = SIZES[name]
    dims = [(window, window, channels, features)[n] for n in ORDERS[order]]
    pad, filters = window // 2, ",".join(map(str, dims))
    return f"""HloModule m
    ENTRY e {{ x = f32[1,{height},{width},{groups * channels}] parameter(0)
      f = f32[{filters}] parameter(1)
      ROOT c = f32[1,{height},{width},{features}] convolution(x, f),
        window={{size={window}x{window} pad={pad}_{pad}x{pad}_{pad}}},
        dim_labels=b01f_{order}->b01f, feature_group_count={groups} }}"""


def result(name: str, order: str, arrays: tuple[np.ndarray, np.ndarray], threads: int) -> bytes:
    base, filters = arrays
    given = np.ascontiguousarray(filters.transpose(ORDERS[order]))
    program = compile_for(parse_module(text(name, order)), "cpu", CompileOptions(threads=threads))
    return bytes(program(base, given).numpy().tobytes())


def drawn(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    height, width, channels, features, window, groups = SIZES[name]
    rng = np.random.default_rng(seed)
    shapes = (1, height, width, groups * channels), (window, window, channels, features)
    return tuple(rng.standard_normal(s).astype(np.float32) for s in shapes)


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_the_same_bits_as_filters_in_another_order(
    name: str, threads: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "LEAST_NS", 0.0)
    monkeypatch.setattr(convolution, "SHARED_NS", 0.0)
    arrays = drawn(name, seed)
    wanted = result(name, "01io", arrays, 1)
    assert result(name, "oi01", arrays, threads) == wanted
    assert result(name, "01oi", arrays, threads) == wanted


@pytest.mark.parametrize(
    ("name", "order", "packing"),
    [
        ("many pixels", "oi01", Packing.ALL),
        ("few pixels", "oi01", Packing.PANEL),
        ("many pixels", "01io", Packing.PARTS),
        ("few pixels", "01oi", Packing.PARTS),
        ("points", "oi01", Packing.PANEL),
    ],
)
def test_what_is_packed_at_once(name: str, order: str, packing: Packing) -> None:
    plan = window_plan(parse_module(text(name, order)).entry.root)
    assert plan is not None
    assert plan.packing is packing
    assert bool(plan.shared_nbytes) == (packing is Packing.ALL)


def test_wide_tiles_pack_as_ever() -> None:
    root = parse_module(text("few pixels", "oi01")).entry.root
    plan = window_plan(root, Tactic(tile=(6, 4)))
    assert plan is not None
    assert plan.packing is Packing.PARTS


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_stays_in_its_feature(value: float, seed: int) -> None:
    """Lanes without a feature are the last one once more, and are not kept."""
    base, filters = drawn("few features", seed)
    filters[1, 1, 5, 23] = value
    program = xladev.compile(parse_module(text("few features", "oi01")), "cpu")
    got = program(base, np.ascontiguousarray(filters.transpose(3, 2, 0, 1))).numpy()
    assert np.isfinite(got[..., :23]).all()
    assert not np.isfinite(got[..., 23]).any()
