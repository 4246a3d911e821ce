"""Convolutions whose groups, batches, dilated images or kernels are cut."""

from typing import Any

import numpy as np
import pytest

from tests.unit.passes.spmd.sharded_programs import check
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.passes.spmd.operation import Operation


def program(x: str, kernel: str, result: str, attrs: str, *cuts: str, count: int = 4) -> HloModule:
    first, second, last = (f"sharding={{{cut}}}" for cut in cuts)
    return parse_module(f"""HloModule m, num_partitions={count}
ENTRY e {{
  x = f32[{x}] parameter(0), {first}
  k = f32[{kernel}] parameter(1), {second}
  ROOT r = f32[{result}] convolution(x, k), {attrs}, {last}
}}""")


def compared(module: HloModule, count: int = 4) -> set[str]:
    """The collectives that it took."""
    rng = np.random.default_rng(3)
    shapes = [p.shape.dims for p in module.entry.parameters]
    made = check(module, [rng.standard_normal(s).astype(np.float32) for s in shapes], count)
    found = {"all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter"}
    return {i.opcode for i in made.module.entry.instructions} & found


IMAGES = "devices=[1,4,1]<=[4]"
KERNEL_GRADIENTS = {
    "plain": ("2,8,3", "2,8,5", "1,3,5", "size=8"),
    "padded": ("2,8,3", "2,8,5", "3,3,5", "size=8 pad=1_1"),
    "strided": ("2,16,3", "2,8,5", "1,3,5", "size=8 pad=0_-1 rhs_dilate=2"),
    "uneven": ("2,14,3", "2,7,5", "3,3,5", "size=7 pad=1_0 rhs_dilate=2"),
    "uneven parts": ("2,9,3", "2,9,5", "3,3,5", "size=9 pad=1_1"),
    "turned": ("2,8,3", "2,8,5", "3,3,5", "size=8 pad=1_1 rhs_reversal=1"),
    "uneven and turned": ("2,9,3", "2,9,5", "3,3,5", "size=9 pad=1_1 rhs_reversal=1"),
    "dilated": ("2,4,3", "2,8,5", "3,3,5", "size=8 pad=1_2 lhs_dilate=2"),
}


@pytest.mark.parametrize("name", KERNEL_GRADIENTS)
def test_gradients_of_kernels(name: str) -> None:
    """Each device sums over its part of the kernel, with what that meets of the image."""
    x, kernel, result, window = KERNEL_GRADIENTS[name]
    attrs = f"window={{{window}}}, dim_labels=f0b_i0o->0bf"
    module = program(x, kernel, result, attrs, IMAGES, IMAGES, "replicated")
    assert "all-reduce" in compared(module)


def test_padding_of_a_kernel_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a mask the padding of the last part is summed over."""
    right = Operation.masked

    def masked(o: Operation, number: int, value: Any) -> Any:
        return o.operands[1] if number else right(o, number, value)

    monkeypatch.setattr(Operation, "masked", masked)
    x, kernel, result, window = KERNEL_GRADIENTS["uneven parts"]
    attrs = f"window={{{window}}}, dim_labels=f0b_i0o->0bf"
    with pytest.raises(AssertionError):
        compared(program(x, kernel, result, attrs, IMAGES, IMAGES, "replicated"))


@pytest.mark.parametrize(
    ("x", "result", "window"),
    [
        ("2,8,3", "2,15,5", "size=3 pad=1_1 lhs_dilate=2"),
        ("2,5,3", "2,17,5", "size=5 pad=4_4 lhs_dilate=3"),
        ("2,7,3", "2,9,5", "size=4 pad=0_-1 lhs_dilate=2 stride=1"),
        ("2,8,3", "2,9,5", "size=3 pad=1_6 lhs_dilate=3 stride=3"),
    ],
)
def test_dilated_images(x: str, result: str, window: str) -> None:
    """Parts begin between two elements; neighbours are enough."""
    attrs = f"window={{{window}}}, dim_labels=b0f_0io->b0f"
    size = window[5]
    module = program(x, f"{size},3,5", result, attrs, IMAGES, "replicated", IMAGES)
    assert compared(module) == {"collective-permute"}


def test_groups_of_the_batch() -> None:
    """Group n of the results is of group n of the images."""
    cut = "devices=[1,1,4]<=[4]"
    attrs = "window={size=9 pad=2_2}, dim_labels=f0b_i0o->0bf, batch_group_count=8"
    assert compared(program("2,9,16", "2,9,8", "5,2,8", attrs, cut, cut, cut)) == set()
    attrs = "window={size=9 pad=2_2}, dim_labels=f0b_i0o->0bf, batch_group_count=4"
    assert compared(program("2,9,4", "2,9,16", "5,1,16", attrs, cut, cut, cut)) == set()


def test_features_of_groups() -> None:
    cut = "devices=[1,1,4]<=[4]"
    attrs = "window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f, feature_group_count=8"
    assert compared(program("2,9,8", "3,1,16", "2,9,16", attrs, cut, cut, cut)) == set()


@pytest.mark.parametrize("size", [8, 4])
def test_a_batch_written_as_a_dimension(size: int) -> None:
    """The window meets element n of the image with element n of the kernel alone."""
    attrs = (
        f"window={{size={size}x3 stride={size - 1}x1 lhs_dilate={size}x1}}, "
        "dim_labels=01bf_01oi->01bf"
    )
    cut = "devices=[4,1,1,1]<=[4]"
    shapes = (f"{size},5,2,3", f"{size},3,4,3", f"{size},3,2,4")
    assert compared(program(*shapes, attrs, cut, cut, cut)) == set()
