"""Opcodes that name, group and pass values on."""

import numpy as np
import pytest

from tests.tools.rejections import assert_rejected, of, result_of
from tests.tools.single_op import run
from xladev.errors import LiteralError
from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.literal import Literal, literal_of
from xladev.hlo.shape import Layout, Shape, array, tuple_of


def evaluated(b: HloBuilder, *arguments: object) -> object:
    return HloEvaluator().run(b.module(), *arguments)


def test_constants() -> None:
    b = HloBuilder("constants")
    b.op("tuple", b.constant(2.5), b.constant((1, 2.0)))
    value = evaluated(b)
    assert value[0] == np.float32(2.5)
    assert value[1] == (1, 2.0)


def test_elided_constant_has_no_value() -> None:
    b = HloBuilder("elided")
    b.op("constant", literal=Literal(of("f32[2]"), elided=True))
    with pytest.raises(LiteralError):
        evaluated(b)


def test_tuples() -> None:
    b = HloBuilder("tuples")
    x, y = b.parameter(of("f32[2]")), b.parameter(of("s32[]"))
    pair = b.op("tuple", x, y)
    nested = b.op("tuple", pair, x)
    b.op("get-tuple-element", b.op("get-tuple-element", nested, index=0), index=1)
    assert evaluated(b, np.zeros(2, np.float32), np.int32(7) + np.zeros((), np.int32)) == 7


def test_values_pass_through() -> None:
    x = np.float32([1, 2])
    for opcode in ("copy", "opt-barrier"):
        np.testing.assert_array_equal(run(opcode, x), x)


def test_tokens() -> None:
    b = HloBuilder("tokens")
    x, token = b.parameter(of("f32[2]")), b.op("after-all")
    b.op("add-dependency", x, b.op("after-all", token))
    np.testing.assert_array_equal(evaluated(b, np.float32([1, 2])), [1, 2])


def _column_major(element_type: dt.PrimitiveType, *dims: int) -> Shape:
    return array(element_type, dims, layout=Layout(tuple(range(len(dims)))))


def test_bitcast_sees_bytes_under_their_layouts() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert run("bitcast", x, shape=of("f32[3,2]")).tolist() == x.reshape(3, 2).tolist()
    got = run("bitcast", x, shape=_column_major(dt.F32, 3, 2))
    assert got.tolist() == x.T.tolist()
    assert list(run("bitcast", np.float32([1]), shape=of("s32[1]"))) == [0x3F800000]


def test_rules() -> None:
    assert_rejected("parameter_c2", "parameter", to="f32[]", parameter_number=-1)
    assert_rejected("constant_c1", "constant", to="f32[3]", literal=literal_of([1.0, 2.0]))
    pair = tuple_of(of("f32[2]"), of("s32[]"))
    assert_rejected("get_tuple_element_c1", "get-tuple-element", "f32[2]", index=0)
    assert_rejected("get_tuple_element_c2", "get-tuple-element", pair, index=2)
    assert_rejected("get_tuple_element_c2", "get-tuple-element", pair, index=-1)
    assert_rejected("bitcast_c1", "bitcast", "token", to="f32[2]")
    assert_rejected("bitcast_c2", "bitcast", "f32[2]", to="token")
    assert_rejected("bitcast_c3", "bitcast", "f32[2]", to="f32[3]")
    assert_rejected("after_all_c1", "after-all", "token", "f32[]")
    assert_rejected("add_dependency_c1", "add-dependency", "f32[]", "f32[]")
    assert result_of("add-dependency", "f32[<=2]", "token") == "f32[<=2]"
