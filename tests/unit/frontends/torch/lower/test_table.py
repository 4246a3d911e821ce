"""What the table does with types and sizes around a lowering."""

import numpy as np
import pytest

from xladev.frontends.torch.lower.table import Family, Lowering, NotLowered
from xladev.frontends.torch.lower.value import TensorBuilder, Value
from xladev.hlo import dtype as dt
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.shape import Shape, array


def lowering(*, wide: bool) -> Lowering:
    family = Family("some", "Some.", wide=wide)

    @family.lowers("third.default")
    def third(b: TensorBuilder, out: Shape, x: Value) -> Value:
        """A third, and three times that."""
        return x / 3 * 3

    return family.lowerings["aten.third.default"]


def test_the_summary_and_the_sample_come_from_the_function() -> None:
    made = lowering(wide=True)
    assert (made.summary, made.sample) == ("A third, and three times that.", "third")


@pytest.mark.parametrize(("wide", "divisions"), [(True, "f32[4]"), (False, "bf16[4]")])
def test_wide_families_round_narrow_floats_once(wide: bool, divisions: str) -> None:
    b = TensorBuilder("t")
    x = Value(b, b.parameter(array(dt.BF16, (4,))))
    made = lowering(wide=wide)(b, array(dt.BF16, (4,)), (x,), {})
    assert made.dtype is dt.BF16
    module = b.module(made.node)
    (divide,) = [i for i in module.entry.instructions if i.opcode == "divide"]
    assert divide.shape.to_string(layout=False) == divisions


def test_results_take_the_type_that_is_wanted() -> None:
    b = TensorBuilder("t")
    x = Value(b, b.parameter(array(dt.F32, (2,))))
    made = lowering(wide=False)(b, array(dt.F64, (2,)), (x,), {})
    found = HloEvaluator().run(b.module(made.node), np.ones(2, np.float32))
    assert np.asarray(found).dtype == np.float64


def test_a_result_of_wrong_sizes_is_refused() -> None:
    b = TensorBuilder("t")
    x = Value(b, b.parameter(array(dt.F32, (2,))))
    with pytest.raises(NotLowered, match=r"gave f32\[2\], wanted f32\[3\]"):
        lowering(wide=False)(b, array(dt.F32, (3,)), (x,), {})


def test_results_without_elements_need_no_lowering() -> None:
    family = Family("some", "Some.")

    @family.lowers("first.default")
    def first(b: TensorBuilder, out: tuple[Shape, Shape], x: Value) -> list[Value]:
        """Reads an element, which an empty array does not have."""
        raise AssertionError("called")

    b = TensorBuilder("t")
    x = Value(b, b.parameter(array(dt.F32, (0,))))
    shapes = (array(dt.F32, (2, 0)), array(dt.S64, (0,)))
    made = family.lowerings["aten.first.default"](b, shapes, (x,), {})
    assert [each.node.shape.to_string(layout=False) for each in made] == ["f32[2,0]", "s64[0]"]
    with pytest.raises(AssertionError, match="called"):
        family.lowerings["aten.first.default"](b, (shapes[0], array(dt.S64, (1,))), (x,), {})
