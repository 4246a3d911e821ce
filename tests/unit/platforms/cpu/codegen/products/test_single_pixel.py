"""Convolutions of a single pixel: filters times a vector, without packing."""

from __future__ import annotations

import numpy as np
import pytest

from xladev.client import compile as compile_for
from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen import sharing
from xladev.platforms.cpu.codegen.choices import choices
from xladev.platforms.cpu.codegen.products.convolution_kernel import convolution_workspace_nbytes
from xladev.platforms.cpu.codegen.products.single_pixel import is_single_pixel
from xladev.platforms.cpu.codegen.products.windows import window_plan
from xladev.platforms.cpu.engine import target_traits


def text(
    channels: int, features: int, filters: str = "", labels: str = "oi01", batch: int = 1,
    dtype: str = "f32",
) -> str:  # fmt: skip
    filters = filters or f"{features},{channels},1,1"
    return f"""HloModule m
    ENTRY e {{ x = {dtype}[{batch},1,1,{channels}] parameter(0)
      f = {dtype}[{filters}] parameter(1)
      ROOT c = {dtype}[{batch},1,1,{features}] convolution(x, f), window={{size=1x1}},
        dim_labels=b01f_{labels}->b01f }}"""


CUT = (
    text(48, 64).replace("size=1x1", "size=1x1 pad=-1_-1x-1_0").replace("[1,1,1,48]", "[1,3,2,48]")
)
"""Negative padding leaves one pixel that is not the first one."""


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("sizes", [(48, 1152), (1152, 48), (21, 130), (5, 8), (300, 65)])
@pytest.mark.parametrize("threads", [1, 3])
def test_products_of_one_pixel(
    sizes: tuple[int, int], threads: int, dtype: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "LEAST_NS", 0.0)
    channels, features = sizes
    module = parse_module(text(channels, features, dtype=dtype))
    spec = KernelSpec("k", module.entry)
    assert convolution_workspace_nbytes(spec) == 0
    assert not [c for c in choices(spec, target_traits(), 1) if c.family == "convolution"]
    rng = np.random.default_rng(seed)
    kind = np.float64 if dtype == "f64" else np.float32
    x = rng.standard_normal((1, 1, 1, channels)).astype(kind)
    f = rng.standard_normal((features, channels, 1, 1)).astype(kind)
    one, many = (
        compile_for(module, "cpu", CompileOptions(threads=n))(x, f).numpy() for n in (1, threads)
    )
    assert one.tobytes() == many.tobytes()
    wanted = f[:, :, 0, 0].astype(np.float64) @ x.ravel().astype(np.float64)
    np.testing.assert_allclose(one.ravel(), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize(
    "other",
    [
        text(48, 64, batch=2),
        text(48, 64, "1,1,48,64", "01io"),
        text(48, 64)
        .replace("size=1x1", "size=1x1 pad=1_0x0_0")
        .replace("[1,1,1,64]", "[1,2,1,64]"),
        CUT,
    ],
    ids=["two pixels", "features neighbours", "padding", "one pixel inside an image"],
)
def test_others_are_packed(other: str) -> None:
    plan = window_plan(parse_module(other).entry.root)
    assert plan is not None
    assert not is_single_pixel(plan)


def test_the_pixel_that_negative_padding_leaves(seed: int) -> None:
    module = parse_module(CUT)
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((1, 3, 2, 48)).astype(np.float32)
    f = rng.standard_normal((64, 48, 1, 1)).astype(np.float32)
    got = compile_for(module, "cpu")(x, f).numpy().ravel()
    wanted = f[:, :, 0, 0].astype(np.float64) @ x[0, 1, 1].astype(np.float64)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
