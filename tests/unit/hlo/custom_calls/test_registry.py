"""The registry: built-in, registered and unknown targets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import xladev
from tests.tools.rejections import assert_rejected, of
from tests.tools.single_op import infer, run
from xladev.errors import ArgumentError, EvaluationError, UserFunctionError
from xladev.hlo.builder import HloBuilder
from xladev.hlo.custom_calls.definition import CustomCall
from xladev.hlo.custom_calls.registry import BUILT_IN, find, known, register, unregister
from xladev.hlo.opdef import OpCall
from xladev.hlo.shape import tuple_of

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


def test_a_registered_function_that_raises_is_named() -> None:
    """Neither the sizes of the operands are at fault, as with built-in ones, nor the device."""

    def evaluate(_: Any, __: Any, values: Any) -> Any:
        raise ValueError("on purpose")

    register(CustomCall("mistaken", "Raises.", evaluate))
    try:
        with pytest.raises(UserFunctionError, match="registered for custom call 'mistaken'") as e:
            call("mistaken", X)
    finally:
        unregister("mistaken")
    assert f"{__file__}:" in str(e.value.where)
    assert 'raise ValueError("on purpose")' in str(e.value.why)


MISFITS = {
    "sizes": (np.ones(3, np.float32), "gave float32[3] as its result, not f32[4]"),
    "dtype": (np.ones(4), "gave float64[4] as its result, not f32[4]"),
    "none": (None, "gave NoneType as its result, not f32[4]"),
    "tuple": ((X, np.float32(1)), "gave a tuple of 2 as its result, not f32[4]"),
    "objects": (np.array([object()]), "gave object[1] as its result, not f32[4]"),
    "no tuple": (X, "gave float32[4] as its result, not (f32[4], (s32[]))"),
    "parts": ((X,), "gave a tuple of 1 as its result, not (f32[4], (s32[]))"),
    "part": ((X, [1.5]), "gave float64[] as part {1}{0}, not s32[]"),
}


@pytest.mark.parametrize("platform", ["cpu", "interpreter", "template_npu"])
@pytest.mark.parametrize("name", MISFITS)
def test_a_value_that_does_not_fit_is_told_with_the_call(name: str, platform: str) -> None:
    """It was told as a constant whose text left values out, or as a fault of the plugin."""
    value, told = MISFITS[name]
    shape = "(f32[4], (s32[]))" if "part" in name or name == "no tuple" else "f32[4]"
    text = f"""HloModule m
ENTRY e {{ p = f32[4] parameter(0)
  ROOT mine = {shape} custom-call(p), custom_call_target="misfit" }}"""
    register(CustomCall("misfit", "Gives what does not fit.", lambda *_: value))
    try:
        with pytest.raises(UserFunctionError, match="registered for custom call 'misfit'") as e:
            result = xladev.compile(text.encode(), platform)(X)
            (result[0] if isinstance(result, tuple) else result).numpy()
    finally:
        unregister("misfit")
    assert told in e.value.what
    assert "mine = " in str(e.value.where)


def test_what_numpy_makes_an_array_of_fits() -> None:
    register(CustomCall("lists", "Gives lists.", lambda *_: [[1.0, 2.0], True, np.int32(7)]))
    try:
        shape = tuple_of(of("f64[2]"), of("pred[]"), of("s32[]"))
        parts = run("custom-call", X, shape=shape, custom_call_target="lists")
        text = b"""HloModule m
ENTRY e { p = f32[4] parameter(0)  n = s32[] parameter(1)
  d = f32[<=4] set-dimension-size(p, n), dimensions={0}
  c = f32[<=4] custom-call(d), custom_call_target="twice"  z = f32[] constant(0)
  ROOT r = f32[] reduce(c, z), dimensions={0}, to_apply={ a = f32[] parameter(0)
    b = f32[] parameter(1)  ROOT s = f32[] add(a, b) } }"""
        register(CustomCall("twice", "Doubles.", lambda _, __, values: 2 * values[0]))
        assert xladev.compile(text, "interpreter")(X, np.int32(3)).numpy() == 6
    finally:
        unregister("lists")
        unregister("twice")
    assert [type(part) for part in parts] == [np.ndarray] * 3
    assert [part.dtype for part in parts] == [np.float64, np.bool_, np.int32]


def test_what_a_registered_function_says_itself_stays() -> None:
    def evaluate(_: Any, __: Any, values: Any) -> Any:
        raise ArgumentError("said on purpose")

    register(CustomCall("outspoken", "Raises.", evaluate))
    try:
        with pytest.raises(ArgumentError, match="said on purpose"):
            call("outspoken", X)
    finally:
        unregister("outspoken")


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
