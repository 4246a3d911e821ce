"""Opcodes that talk to the host and to other programs have rules, and no value."""

import pytest

from tests.tools.rejections import assert_rejected, of, result_of
from xladev.errors import EvaluationError
from xladev.hlo.builder import HloBuilder
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ops.transfer import OPS
from xladev.hlo.shape import TOKEN_SHAPE, tuple_of

DATA = tuple_of(of("f32[2]"), TOKEN_SHAPE)
PENDING = tuple_of(of("f32[2]"), of("u32[]"), TOKEN_SHAPE)


def test_results() -> None:
    assert result_of("send", "f32[<=2]", "token") == "(f32[<=2], u32[], token[])"
    b = HloBuilder("transfers")
    token = b.op("after-all")
    assert b.op("infeed", token, shape=DATA).shape == DATA
    data = b.parameter(of("f32[2]"))
    assert b.op("outfeed", data, token).shape.is_token
    pending = b.op("recv", token, shape=PENDING)
    assert b.op("recv-done", pending).shape == DATA
    assert b.op("send-done", b.op("send", data, token)).shape.is_token


def test_rules() -> None:
    assert_rejected("infeed_c1", "infeed", "f32[]")
    assert_rejected("infeed_c2", "infeed", "token", to="f32[2]")
    assert_rejected("infeed_shape", "infeed", "token")
    assert_rejected("outfeed_c1", "outfeed", "f32[2]", "f32[2]")
    assert_rejected("outfeed_c2", "outfeed", "f32[2]", "token", outfeed_shape=of("f32[3]"))
    assert_rejected("send_c1", "send", "f32[2]", "f32[2]")
    assert_rejected("recv_c1", "recv", "f32[2]")
    assert_rejected("recv_c2", "recv", "token", to="f32[2]")
    assert_rejected("send_done_c1", "send-done", DATA)
    assert_rejected("recv_done_c1", "recv-done", DATA)


def test_they_have_side_effects_and_no_value() -> None:
    assert all(op.side_effect and op.exempt for op in OPS)
    b = HloBuilder("receives")
    b.op("recv", b.op("after-all"), shape=PENDING)
    with pytest.raises(EvaluationError, match="no value"):
        HloEvaluator().run(b.module())
