"""Emulated cuDNN refuses what the real one refuses, with its statuses."""

from dataclasses import replace

import pytest

from tests.unit.platforms.cuda.driver.test_emulated_libraries import launched
from xladev.platforms.cuda.driver.cudnn import buffer_nbytes
from xladev.platforms.cuda.driver.emulated import EmulatedDriver
from xladev.platforms.cuda.driver.interface import LibraryError
from xladev.platforms.cuda.libraries.calls import Convolution, Tensor, read_call, write_call


def tensor(dtype, *dims, last=True):
    """A packed tensor, features last or first."""
    rank = len(dims)
    order = (0, *range(2, rank), 1) if last else range(rank)
    strides, step = [0] * rank, 1
    for n in reversed(order):
        strides[n], step = step, step * dims[n]
    return Tensor(dtype, dims, tuple(strides))


def convolution(dtype, kind="FORWARD", last=True, **more):
    """3x3 with a stride of 2, of 8 features to 16, padded by one and two."""
    return Convolution(
        kind,
        tensor(dtype, 2, 8, 9, 9, last=last),
        tensor(dtype, 16, 8, 3, 3, last=last),
        tensor(dtype, 2, 16, 5, 6, last=last),
        **{"strides": (2, 2), "padding": (1, 2), "dilations": (1, 1), "compute": "32F"} | more,
    )


PLAIN = convolution("bf16")
CALLS = {
    "forward": PLAIN,
    "with all": replace(PLAIN, epilogue="RELU_BIAS", deterministic=True),
    "backward input": convolution("f16", "BACKWARD_INPUT"),
    "backward kernel": convolution("f32", "BACKWARD_KERNEL", last=False),
    "tf32": convolution("f32", compute="32F_FAST_TF32"),
}


@pytest.fixture
def device():
    return EmulatedDriver(0).open(0)


@pytest.mark.parametrize("name", CALLS)
def test_calls_travel_as_text_and_run(name, device):
    call = CALLS[name]
    assert read_call(write_call(call)) == call
    assert launched(device, call, buffer_nbytes(call)) is None


BAD = {
    "a result of another size": replace(PLAIN, result=tensor("bf16", 2, 16, 5, 5)),
    "a result of another batch": replace(PLAIN, result=tensor("bf16", 1, 16, 5, 6)),
    "a result of other features": replace(PLAIN, result=tensor("bf16", 2, 8, 5, 6)),
    "no groups of inputs": replace(PLAIN, kernel=tensor("bf16", 16, 3, 3, 3)),
    "no groups of outputs": replace(
        PLAIN, kernel=tensor("bf16", 15, 4, 3, 3), result=tensor("bf16", 2, 15, 5, 6)
    ),
    "padding below zero": replace(PLAIN, padding=(-1, 2)),
    "a stride of zero": replace(PLAIN, strides=(0, 2)),
    "a dilation of zero": replace(PLAIN, dilations=(1, 0)),
    "another number of strides": replace(PLAIN, strides=(2,)),
    "another number of dimensions": replace(PLAIN, kernel=tensor("bf16", 16, 8, 9)),
    "a stride for each dimension but one": replace(
        PLAIN, image=Tensor("bf16", (2, 8, 9, 9), (648, 1, 72))
    ),
    "an empty dimension": replace(PLAIN, image=tensor("bf16", 0, 8, 9, 9)),
    "an unknown direction": replace(PLAIN, kind="BACKWARD"),
    "an unknown epilogue": replace(PLAIN, epilogue="SWISH"),
}
UNSUPPORTED = {
    "rows": convolution("f16", last=False),
    "tf32 with features first": convolution("f32", last=False, compute="32F_FAST_TF32"),
    "f64": convolution("f64"),
    "types that differ": replace(PLAIN, result=tensor("f32", 2, 16, 5, 6)),
    "tf32 of bf16": replace(PLAIN, compute="32F_FAST_TF32"),
    "orders that differ": replace(
        convolution("f32"), kernel=tensor("f32", 16, 8, 3, 3, last=False)
    ),
    "gaps": replace(PLAIN, image=Tensor("bf16", (2, 8, 9, 9), (1296, 1, 144, 16))),
    "an epilogue of a gradient": convolution("f16", "BACKWARD_INPUT", epilogue="RELU"),
    "an exact epilogue": convolution("f32", epilogue="BIAS"),
    "an epilogue of few features": replace(
        PLAIN,
        image=tensor("bf16", 2, 6, 9, 9),
        kernel=tensor("bf16", 16, 6, 3, 3),
        epilogue="BIAS",
    ),
    "an epilogue of groups": replace(PLAIN, kernel=tensor("bf16", 16, 4, 3, 3), epilogue="RELU"),
}
WRONG = [("BAD_PARAM", n) for n in BAD] + [("NOT_SUPPORTED", n) for n in UNSUPPORTED]


@pytest.mark.parametrize(("status", "name"), WRONG)
def test_descriptors_that_cudnn_refuses(status, name, device):
    with pytest.raises(LibraryError) as caught:
        device.libraries.prepare({**BAD, **UNSUPPORTED}[name], "k")
    assert caught.value.status == f"CUDNN_STATUS_{status}"


@pytest.mark.parametrize("place", range(5))
def test_a_buffer_that_is_too_small_is_found(place, device):
    call = CALLS["with all"]
    sizes = buffer_nbytes(call)
    sizes[place] -= 2
    assert "no live allocation" in str(launched(device, call, sizes))


@pytest.mark.parametrize("place", range(4))
def test_alignment_is_checked(place, device):
    failure = launched(device, PLAIN, buffer_nbytes(PLAIN), 8, place)
    assert isinstance(failure, LibraryError)
    assert "not aligned to 16" in str(failure)
