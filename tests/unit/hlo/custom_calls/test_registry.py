"""The registry: built-in, registered and unknown targets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.tools.rejections import assert_rejected, of
from tests.tools.single_op import infer, run
from xladev.errors import ArgumentError, EvaluationError
from xladev.hlo.builder import HloBuilder
from xladev.hlo.custom_calls.definition import CustomCall
from xladev.hlo.custom_calls.registry import BUILT_IN, find, known, register, unregister
from xladev.hlo.opdef import OpCall

X = np.arange(4, dtype=np.float32)


def call(target: str, *operands: Any, to: str = "f32[4]") -> Any:
    return run("custom-call", *operands, shape=of(to), custom_call_target=target)


@pytest.fixture
def doubled() -> Iterator[CustomCall]:
    def check(call: OpCall) -> None:
        call.require(len(call.operands) == 1, "custom_call_double", "one operand, please")

    made = CustomCall("double", "Doubles.", lambda _, __, values: 2 * values[0], check)
    register(made)
    yield made
    unregister("double")


def test_a_registered_target_is_evaluated_and_checked(doubled: CustomCall) -> None:
    assert find("double") is doubled
    assert call("double", X).tolist() == [0, 2, 4, 6]
    assert_rejected(
        "custom_call_double", "custom-call", "f32[4]", "f32[4]", to="f32[4]",
        custom_call_target="double",
    )  # fmt: skip


def test_unregistering_forgets_it(doubled: CustomCall) -> None:
    unregister("double")
    assert known("double") is None


def test_an_unknown_target_lists_near_names() -> None:
    with pytest.raises(EvaluationError) as caught:
        call("lapack_spotrv_ffi", X)
    assert "'lapack_spotrv_ffi'" in caught.value.what
    assert "lapack_spotrf_ffi" in str(caught.value.hint)


def test_an_unknown_target_still_has_a_shape() -> None:
    assert infer("custom-call", of("f32[4]"), shape=of("s8[2]"), custom_call_target="x").dims == (
        2,
    )


def test_a_target_is_registered_once(doubled: CustomCall) -> None:
    for taken in ("double", "TopK"):
        with pytest.raises(ArgumentError, match="registered already"):
            register(CustomCall(taken, ""))


def test_a_built_in_target_can_be_replaced_and_comes_back() -> None:
    register(CustomCall("TopK", "Nothing."), replace=True)
    try:
        with pytest.raises(EvaluationError, match="no value here"):
            call("TopK", X)
    finally:
        unregister("TopK")
    assert find("TopK") is BUILT_IN["TopK"]


def test_every_built_in_target_says_what_it_does() -> None:
    for target, made in BUILT_IN.items():
        assert made.target == target and made.summary.endswith(".")
        assert made.evaluate is not None


@pytest.mark.parametrize("target", ["Sharding", "MoveToHost", "annotate_device_placement"])
def test_markers_pass_their_operand_on(target: str) -> None:
    assert call(target, X).tolist() == X.tolist()
    made = find(target)
    b = HloBuilder("expanded")
    x = b.parameter(of("f32[4]"))
    assert made.expand is not None and made.expand(b, x, (x,)) is x
    assert_rejected(
        "custom_call_marker", "custom-call", "f32[4]", to="f32[5]", custom_call_target=target
    )


@pytest.mark.parametrize("target", ["xla.sdy.ShardingGroup", "dce_sink"])
def test_sinks_give_nothing(target: str) -> None:
    assert call(target, X, to="()") == ()
    made = find(target)
    b = HloBuilder("expanded")
    x = b.parameter(of("f32[4]"))
    assert made.expand is not None and made.expand(b, x, (x,)).shape.tuple_shapes == ()


@pytest.mark.parametrize("target", ["mhlo.erf", "chlo.tan", "chlo.asinh"])
def test_functions_of_dialects(target: str) -> None:
    opcode = target.split(".")[1]
    np.testing.assert_array_equal(call(target, X), run(opcode, X))
    made = find(target)
    b = HloBuilder("expanded")
    x = b.parameter(of("f32[4]"))
    assert made.expand is not None and made.expand(b, x, (x,)).opcode == opcode
