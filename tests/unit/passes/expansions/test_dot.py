"""Dots of every kind and grouped convolutions, against their direct definitions."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.unit.passes.expansions.single import assert_near, expanded
from xladev.hlo.text import parse_module
from xladev.passes.expansions.dot import expand_dot

DOTS = [
    "r = f32[2,3,5,4] dot(f32[3,2,5,6] x, f32[6,4,2,3] y), lhs_batch_dims={1,0}, "
    "rhs_batch_dims={2,3}, lhs_contracting_dims={3}, rhs_contracting_dims={0}",
    "r = f32[] dot(f32[7] x, f32[7] y), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "r = f32[3,4] dot(f32[3] x, f32[4] y)",
    "r = c64[3,4] dot(c64[5,2,3] x, c64[2,4,5] y), lhs_contracting_dims={0,1}, "
    "rhs_contracting_dims={2,0}",
    "r = s32[3,4] dot(s8[5,3] x, s8[5,4] y), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "r = f32[0,4] dot(f32[5,0] x, f32[5,4] y), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
]


@pytest.mark.parametrize("text", DOTS)
def test_a_dot_in_canonical_form(text: str, seed: int) -> None:
    assert_near(text, seed)
    dot = next(i for i in expanded(parse_module(text)).instructions if i.opcode == "dot")
    assert expand_dot(dot) is None


def test_scaled_dot(seed: int) -> None:
    rng = np.random.default_rng(seed)
    narrow = ml_dtypes.float8_e4m3fn
    assert_near(
        "r = f32[4,6] scaled-dot(f8e4m3fn[4,32] x, f8e4m3fn[32,6] y, f32[4,2] u, f32[] v), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}", 0,
        rng.standard_normal((4, 32)).astype(narrow), rng.standard_normal((32, 6)).astype(narrow),
        rng.random((4, 2)).astype(np.float32), np.float32(3) + np.zeros((), np.float32),
    )  # fmt: skip


RAGGED: dict[str, tuple[str, list[int], Any]] = {
    "free": (
        "r = f32[9,4] ragged-dot(f32[9,5] x, f32[3,5,4] y, s32[3] z), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}",
        [3],
        [3, 0, 4],
    ),
    "contracting": (
        "r = f32[3,5,4] ragged-dot(f32[5,9] x, f32[9,4] y, s32[3] z), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}, lhs_ragged_dims={1}",
        [3],
        [3, 0, 4],
    ),
    "free, behind a batch": (
        "r = f32[2,9,4] ragged-dot(f32[2,9,5] x, f32[3,2,5,4] y, s32[2,3] z), "
        "lhs_contracting_dims={2}, rhs_contracting_dims={2}, lhs_batch_dims={0}, "
        "rhs_batch_dims={1}, lhs_ragged_dims={1}, rhs_group_dims={0}",
        [2, 3],
        [[1, 2, 3], [4, 5, 0]],
    ),
    "batch": (
        "r = f32[2,9,4] ragged-dot(f32[2,9,5] x, f32[2,5,4] y, s32[2] z), "
        "lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_batch_dims={0}, "
        "rhs_batch_dims={0}, lhs_ragged_dims={0}",
        [2],
        [1, 1],
    ),
}


@pytest.mark.parametrize("name", RAGGED)
def test_ragged_dot(name: str, seed: int) -> None:
    text, _, sizes = RAGGED[name]
    rng = np.random.default_rng(seed)
    operands = parse_module(text).entry.root.operands
    lhs, rhs = (rng.standard_normal(o.shape.dims).astype(np.float32) for o in operands[:2])
    if name == "contracting":
        rhs[8] = np.inf  # of no group, so it must not matter
    assert_near(text, 0, lhs, rhs, np.array(sizes, np.int32))


@pytest.mark.parametrize(
    "groups", ["feature_group_count=3", "batch_group_count=2"], ids=["features", "batches"]
)
@pytest.mark.parametrize("labels", ["b01f_01io->b01f", "bf01_oi01->bf01"])
def test_convolution_groups(groups: str, labels: str, seed: int) -> None:
    inputs, outputs = (6, 12) if groups.startswith("feature") else (4, 10)
    kernel_inputs = 2 if groups.startswith("feature") else 4
    batch = 1 if groups.startswith("feature") else 2
    last = labels.startswith("b01f")
    image = f"2,7,6,{inputs}" if last else f"2,{inputs},7,6"
    kernel = f"3,2,{kernel_inputs},{outputs}" if last else f"{outputs},{kernel_inputs},3,2"
    result = 2 // batch
    made = f"{result},7,3,{outputs}" if last else f"{result},{outputs},7,3"
    assert_near(
        f"r = f32[{made}] convolution(f32[{image}] x, f32[{kernel}] y), "
        f"window={{size=3x2 stride=1x2 pad=1_1x0_0}}, dim_labels={labels}, {groups}",
        seed,
    )


def test_scaled_dot_takes_precisions_of_scales() -> None:
    """XLA gives one precision for each of the four operands."""
    text = (
        "r = f32[2,2] scaled-dot(f32[2,4] x, f32[4,2] y, f32[2,2] s, f32[2,2] t), "
        "lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
        "operand_precision={highest,highest,default,default}"
    )
    module = parse_module(text)
    dots = [i for i in expanded(module).instructions if i.opcode == "dot"]
    assert [tuple(i["operand_precision"]) for i in dots] == [("highest", "highest")]
