"""Promotion of element types, compared with torch's."""

import itertools

import pytest

from xladev.frontends.torch.lower.promotion import result_type
from xladev.frontends.torch.lower.value import Number, TensorBuilder, Value
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.shape import array

TYPES = (dt.PRED, dt.U8, dt.S8, dt.S32, dt.S64, dt.F16, dt.BF16, dt.F32, dt.F64, dt.C64, dt.C128)


def operand(builder: TensorBuilder, to: PrimitiveType, rank: int) -> Value:
    return Value(builder, builder.parameter(array(to, (1,) * rank)))


def test_arrays_meet_where_torch_says() -> None:
    torch = pytest.importorskip("torch")
    from xladev.frontends.torch.element_types import DTYPE_OF, type_of

    b = TensorBuilder("t")
    for left, right, ranks in itertools.product(TYPES, TYPES, [(1, 1), (1, 0), (0, 0)]):
        tensors = [
            torch.empty((1,) * rank, dtype=DTYPE_OF[to])
            for to, rank in zip((left, right), ranks, strict=True)
        ]
        dtype = torch.result_type(*tensors)
        if dtype is torch.complex32:  # HLO has none
            continue
        wanted = type_of(dtype)
        found = result_type(operand(b, left, ranks[0]), operand(b, right, ranks[1]))
        assert found is wanted, (left, right, ranks)


@pytest.mark.parametrize("number", [True, 2, 2.5, 2j])
def test_numbers_count_last(number: Number) -> None:
    torch = pytest.importorskip("torch")
    from xladev.frontends.torch.element_types import DTYPE_OF, type_of

    b = TensorBuilder("t")
    for to, rank in itertools.product(TYPES, (0, 1)):
        dtype = torch.result_type(torch.empty((1,) * rank, dtype=DTYPE_OF[to]), number)
        if dtype is torch.complex32:  # HLO has none
            continue
        wanted = type_of(dtype)
        assert result_type(operand(b, to, rank), number) is wanted, (to, rank)
