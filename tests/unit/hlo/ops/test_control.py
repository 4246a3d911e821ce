"""Opcodes that run computations."""

from typing import Any

import numpy as np
import pytest

from tests.tools.rejections import assert_rejected, of, result_of
from tests.tools.single_op import run, scalar_computation
from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.ir import HloComputation


def below(limit: int) -> HloComputation:
    b = HloBuilder("below")
    return b.build(
        b.op("compare", b.parameter(of("s32[]")), b.constant(limit, dt.S32), direction="LT")
    )


def plus(step: int, name: str = "plus") -> HloComputation:
    b = HloBuilder(name)
    return b.build(b.op("add", b.parameter(of("s32[]")), b.constant(step, dt.S32)))


def constant_of(text: str, name: str = "constant_of") -> HloComputation:
    """A computation of one s32 scalar that gives a zero of another shape."""
    b, shape = HloBuilder(name), of(text)
    b.parameter(of("s32[]"))
    zero = b.constant(0, shape.element_type)
    return b.build(b.op("broadcast", zero, shape=shape))


@pytest.mark.parametrize(("start", "want"), [(0, 12), (10, 10), (-7, 11)])
def test_while(start: int, want: int) -> None:
    assert run("while", np.int32(start), condition=below(10), body=plus(3)) == want


def test_conditional_on_pred() -> None:
    attrs = {"true_computation": plus(1), "false_computation": plus(-1)}
    assert run("conditional", np.bool_(True), np.int32(5), np.int32(50), **attrs) == 6
    assert run("conditional", np.bool_(False), np.int32(5), np.int32(50), **attrs) == 49
    both = {"branch_computations": (plus(1), plus(-1))}
    assert run("conditional", np.bool_(True), np.int32(5), np.int32(50), **both) == 6


@pytest.mark.parametrize(("index", "want"), [(0, 1), (1, 10), (2, 100), (3, 100), (-1, 100)])
def test_conditional_on_index(index: int, want: int) -> None:
    branches = tuple(plus(step) for step in (1, 10, 100))
    zeros = [np.int32(0)] * 3
    assert run("conditional", np.int32(index), *zeros, branch_computations=branches) == want


def test_call_and_fusion() -> None:
    assert run("call", np.int32(2), to_apply=plus(5)) == 7
    assert run("fusion", np.int32(2), calls=plus(5), kind="kLoop") == 7


def test_while_rules() -> None:
    two = scalar_computation("compare", dt.S32, direction="LT")
    assert_rejected("while_c1", "while", "s32[]", condition=two, body=plus(1))
    assert_rejected("while_c2", "while", "f32[]", condition=below(1), body=plus(1))
    adds = scalar_computation("add", dt.S32)
    assert_rejected("while_c3", "while", "s32[]", condition=below(1), body=adds)
    wrong = HloBuilder("wrong")
    wrong.op("negate", wrong.parameter(of("f32[]")))
    assert_rejected("while_c4", "while", "s32[]", condition=below(1), body=wrong.build())
    assert_rejected("while_c5", "while", "s32[]", condition=plus(1), body=plus(1))
    grows = constant_of("s32[2]")
    assert_rejected("while_c6", "while", "s32[]", condition=below(1), body=grows)


@pytest.mark.parametrize(
    ("rule", "operands", "branches"),
    [
        ("c1", ("f32[]", "s32[]", "s32[]"), (plus(1), plus(2))),
        ("c1", ("s32[1]", "s32[]", "s32[]"), (plus(1), plus(2))),
        ("c2", ("pred[]", "s32[]"), (plus(1),)),
        ("c2", ("s32[]", "s32[]"), None),
        ("c3", ("s32[]", "s32[]"), (plus(1), plus(2))),
        ("c4", ("s32[]", "s32[]"), (scalar_computation("add", dt.S32),)),
        ("c5", ("s32[]", "f32[]"), (plus(1),)),
        ("c6", ("s32[]", "s32[]", "s32[]"), (plus(1), constant_of("s32[2]"))),
    ],
)
def test_conditional_rules(rule: str, operands: tuple[str, ...], branches: Any) -> None:
    assert_rejected(f"conditional_{rule}", "conditional", *operands, branch_computations=branches)


def test_conditional_is_dynamic_where_a_branch_is() -> None:
    b = HloBuilder("cut")
    rows, size = b.constant([1.0, 2.0]), b.parameter(of("s32[]"))
    cut = b.build(b.op("set-dimension-size", rows, size, dimensions=(0,)))
    branches = constant_of("f32[2]"), cut
    got = result_of("conditional", "s32[]", "s32[]", "s32[]", branch_computations=branches)
    assert got == "f32[<=2]"


def test_call_and_fusion_rules() -> None:
    assert_rejected("call_c1", "call", "s32[]", "s32[]", to_apply=plus(1))
    assert_rejected("call_c2", "call", "f32[]", to_apply=plus(1))
    assert_rejected("fusion_c1", "fusion", "s32[]", calls=plus(1), kind="kOther")
    assert_rejected("fusion_c2", "fusion", calls=plus(1), kind="kLoop")
    assert_rejected("fusion_c3", "fusion", "s32[1]", calls=plus(1), kind="kLoop")


def test_custom_call_rules() -> None:
    named = {"custom_call_target": "Sharding"}
    assert_rejected("custom_call_c1", "custom-call", "s32[]", to="s32[]", custom_call_target="")
    layouts = {"operand_layout_constraints": ()}
    assert_rejected("custom_call_c2", "custom-call", "s32[]", to="s32[]", **named, **layouts)
