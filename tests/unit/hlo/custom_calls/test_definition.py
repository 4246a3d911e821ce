"""Every target, with operands and results that do not belong to it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tests.tools.rejections import of
from tests.tools.single_op import run
from xladev.errors import XladevError
from xladev.hlo.custom_calls.registry import BUILT_IN
from xladev.hlo.shape import Shape, tuple_of

OPERANDS = (
    "", "f32[]", "f32[4]", "f32[3,4]", "f32[2,4,4]", "f32[0]", "f32[] f32[]", "f32[4] f32[4]",
    "f32[4,4] f32[4,4]", "f32[4] f32[4] f32[] f32[]", "c64[4,4]", "pred[4,4]", "s32[4]",
    "s32[4,4]", "f32[4,4] f32[4] f32[3] s32[2] c64[2]",
)  # fmt: skip
RESULTS = (
    of("f32[]"), of("f32[4]"), of("s32[4]"), of("token"), tuple_of(),
    tuple_of(of("f32[]"), of("s32[]")), tuple_of(of("f32[2]"), of("s32[2]")),
    tuple_of(of("f32[9]"), of("s32[9]")), tuple_of(tuple_of(of("f32[2]")), of("s32[2]")),
    tuple_of(of("f32[4,4]"), of("f32[4]"), of("s32[]")),
    tuple_of(of("f32[4,4]"), of("f32[4,4]"), of("f32[4]"), of("s32[]")),
)  # fmt: skip


@pytest.mark.parametrize("target", sorted(BUILT_IN))
def test_strange_operands_and_results_are_refused_or_have_a_value(target: str) -> None:
    for texts, result in product(OPERANDS, RESULTS):
        operands = [np.ones(s.dims, s.element_type.np) for s in map(of, texts.split())]
        _evaluated_or_refused(target, operands, result)


def _evaluated_or_refused(target: str, operands: list[np.ndarray], result: Shape) -> None:
    try:
        value = run("custom-call", *operands, shape=result, custom_call_target=target)
    except XladevError as error:
        assert error.what and (error.why or error.hint or error.where), error
    else:
        assert isinstance(value, tuple) == result.is_tuple
