"""The device of a block is that of what a builder appends within it."""

import threading

import pytest

import xladev
from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.ir import Annotations
from xladev.hlo.shape import array


def test_the_innermost_block_counts_and_ends() -> None:
    b = HloBuilder("b")
    with xladev.device("npu:0"):
        x = b.parameter(array(dt.F32, (2,)))
        y = b.op("negate", x)
        with xladev.device("cpu"):
            z = b.op("sine", y)
        with xladev.device(None):
            free = b.op("cosine", y)
        again = b.op("negate", z)
        own = b.op("negate", z, note=Annotations(device="cpu:3"))
    outside = b.op("negate", again)
    made = [i.note.device for i in (x, y, z, free, again, own, outside)]
    assert made == [None, "npu:0", "cpu", None, "npu:0", "cpu:3", None]


def test_a_block_ends_with_an_error_too() -> None:
    b = HloBuilder("b")
    with pytest.raises(KeyError), xladev.device("npu:0"):
        raise KeyError
    assert b.parameter(array(dt.F32)).note.device is None


def test_other_threads_are_not_in_the_block() -> None:
    found: list[str | None] = []
    b = HloBuilder("b")
    x = b.parameter(array(dt.F32))
    with xladev.device("npu:0"):
        other = threading.Thread(target=lambda: found.append(b.op("negate", x).note.device))
        other.start()
        other.join()
    assert found == [None]
