"""scan: carries along a dimension; values seen from XLA's CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tools.rejections import assert_rejected, of, result_of
from tests.tools.single_op import run
from xladev.hlo.attributes import SliceDim
from xladev.hlo.builder import HloBuilder
from xladev.hlo.ir import HloComputation
from xladev.hlo.shape import tuple_of


def body(dims: str = "2") -> HloComputation:
    """(x, carry) -> (-(x + 2 carry), x + 2 carry)."""
    b = HloBuilder("body")
    x, carry = b.parameter(of(f"f32[{dims}]")), b.parameter(of(f"f32[{dims}]"))
    total = b.op("add", x, b.op("add", carry, carry))
    return b.build(b.op("tuple", b.op("negate", total), total))


def sums() -> HloComputation:
    """(x, carry) -> (x + carry): no outputs."""
    b = HloBuilder("sums")
    return b.build(b.op("add", b.parameter(of("f32[2]")), b.parameter(of("f32[2]"))))


SLICE = (SliceDim(0, 1),)
X = np.arange(10, dtype=np.float32).reshape(5, 2)
ONES = np.ones(2, np.float32)
PLAIN: dict[str, Any] = {"dimensions": (0,), "num_carries": 1, "to_apply": body()}


def test_forwards() -> None:
    outputs, carry = run("scan", X, ONES, **PLAIN)
    assert outputs.tolist() == [[-2, -3], [-6, -9], [-16, -23], [-38, -53], [-84, -115]]
    assert carry.tolist() == [84, 115]


def test_backwards() -> None:
    outputs, carry = run("scan", X, ONES, is_reverse=True, **PLAIN)
    want = [[-228, -259], [-114, -129], [-56, -63], [-26, -29], [-10, -11]]
    assert outputs.tolist() == want and carry.tolist() == [228, 259]


def test_along_another_dimension() -> None:
    outputs, carry = run("scan", X.T, ONES, **{**PLAIN, "dimensions": (1,)})
    assert outputs.T.tolist()[-1] == [-84, -115] and carry.tolist() == [84, 115]


def test_a_single_result_is_no_tuple() -> None:
    got = run("scan", X, ONES, dimensions=(0,), num_carries=1, to_apply=sums())
    np.testing.assert_array_equal(got, X.sum(0) + 1)


def test_of_no_steps() -> None:
    outputs, carry = run("scan", X[:0], ONES, **PLAIN)
    assert outputs.shape == (0, 2) and carry.tolist() == [1, 1]


def test_without_inputs_the_outputs_tell_the_length() -> None:
    b = HloBuilder("count")
    carry = b.parameter(of("f32[]"))
    count = b.build(b.op("tuple", carry, b.op("add", carry, b.constant(1.0))))
    shape = tuple_of(of("f32[4]"), of("f32[]"))
    attrs = {"dimensions": (0,), "num_carries": 1, "to_apply": count}
    outputs, last = run("scan", np.float32(3), shape=shape, **attrs)
    assert outputs.tolist() == [3, 4, 5, 6] and last == 7
    assert_rejected("scan_c6", "scan", "f32[]", **attrs)


@pytest.mark.parametrize(
    ("constraint", "operands", "attrs"),
    [
        ("scan_c1", ("f32[5,2]",), {"num_carries": 2}),
        ("scan_c2", ("f32[5,2]", "f32[2]"), {"dimensions": (0, 1)}),
        ("scan_c2", ("f32[5,2]", "f32[2]"), {"dimensions": (2,)}),
        ("scan_c3", ("f32[5,2]", "f32[4,2]", "f32[2]"), {}),
        ("scan_c4", ("f32[5,3]", "f32[2]"), {}),
        ("scan_c4", ("f32[5,2]", "f32[5,2]", "f32[2]"), {}),
        ("scan_c5", ("f32[5,2]",), {"num_carries": 0, "to_apply": sums()}),
        ("scan_c6", ("f32[2]",), {"to_apply": None}),
    ],
)
def test_scan_rejects(constraint: str, operands: tuple[str, ...], attrs: dict[str, Any]) -> None:
    given = {**PLAIN, **attrs}
    if constraint == "scan_c5":
        b = HloBuilder("wrong")
        x, carry = b.parameter(of("f32[2]")), b.parameter(of("f32[2]"))
        given |= {"to_apply": b.build(b.op("tuple", carry, b.op("slice", x, slice=SLICE)))}
        operands, given["num_carries"] = ("f32[5,2]", "f32[2]"), 1
    if constraint == "scan_c6":
        b = HloBuilder("carry")
        given["to_apply"] = b.build(b.parameter(of("f32[2]")))
    assert_rejected(constraint, "scan", *operands, **given)


def test_scan_shapes() -> None:
    assert result_of("scan", "f32[5,2]", "f32[2]", **PLAIN) == "(f32[5,2], f32[2])"
