"""Arrays in panels: what they hold, that HLO gives the array back, and who knows them."""

from dataclasses import replace

import numpy as np
import pytest

from xladev.hlo import dtype as dt
from xladev.hlo.builder import HloBuilder
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import array
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.products.panels import (
    PanelForm,
    panel_form,
    panels_of,
    with_plain_right,
)

FORMS = {
    "whole panels": PanelForm((6, 8), (), 6, 8, False, 4),
    "a part of one": PanelForm((6, 3), (), 6, 3, False, 4),
    "the last one in part": PanelForm((6, 9), (), 6, 9, False, 4),
    "batches": PanelForm((2, 3, 6, 9), (2, 3), 6, 9, False, 4),
    "several dimensions": PanelForm((2, 2, 3, 3, 5), (2,), 6, 15, False, 8),
    "pairs": PanelForm((2, 6, 9), (2,), 6, 9, False, 4, 2),
    "quads": PanelForm((8, 5), (), 8, 5, False, 2, 4),
    "groups": PanelForm((3, 3, 4, 10), (2,), 36, 5, True, 4),
}
CONVOLUTION = """HloModule m
ENTRY e {{ x = f32[1,8,8,4] parameter(0)  w = f32[{shape}] parameter(1)
  ROOT c = f32[1,6,6,10] convolution(x, w), window={{size=3x3}}, dim_labels=b01f_{labels}->b01f }}
"""


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def product(text: str) -> HloInstruction:
    return parse_module(text).entry.root


def dot(right: str, attributes: str, result: str) -> HloInstruction:
    return product(f"""HloModule m
    ENTRY e {{ x = f32[2,7,6] parameter(0)  y = f32[{right}] parameter(1)
      ROOT d = f32[{result}] dot(x, y), {attributes} }}""")


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_hlo_gives_the_array_back(form: PanelForm, rng: np.random.Generator) -> None:
    values = rng.standard_normal(form.dims).astype(np.float32)
    packed = form.packed(values)
    assert packed.shape == form.panels
    b = HloBuilder("unpacked")
    parameter = b.parameter(array(dt.F32, form.panels).row_major())
    root = form.unpacked(parameter)
    module = b.module(parameter)
    known, chain = {parameter: packed}, [root]
    while chain[-1].operands[0] is not parameter:
        chain.append(chain[-1].operands[0])
    for i in reversed(chain):
        known[i] = HloEvaluator().instruction(i, known, ())
    assert module.entry.root is not root
    np.testing.assert_array_equal(known[root], values)


def test_a_panel_is_what_packing_leaves() -> None:
    values = np.arange(12, dtype=np.float32).reshape(4, 3)
    packed = PanelForm((4, 3), (), 4, 3, False, 2).packed(values)
    assert packed.tolist() == [[[0, 1], [3, 4], [6, 7], [9, 10]], [[2, 0], [5, 0], [8, 0], [11, 0]]]
    pairs = PanelForm((4, 3), (), 4, 3, False, 2, 2).packed(values)
    assert pairs[0].tolist() == [[[0, 3], [1, 4]], [[6, 9], [7, 10]]]


@pytest.mark.parametrize(
    ("right", "attributes", "result", "order"),
    [
        ("6,5", "lhs_contracting_dims={2}, rhs_contracting_dims={0}", "2,7,5", (0, 1)),
        ("5,6", "lhs_contracting_dims={2}, rhs_contracting_dims={1}", "2,7,5", (1, 0)),
        ("5,6,2", "lhs_batch_dims={0}, rhs_batch_dims={2}, lhs_contracting_dims={2}, "
         "rhs_contracting_dims={1}", "2,7,5", (2, 1, 0)),
        ("4,6,5,7", "lhs_contracting_dims={2,1}, rhs_contracting_dims={1,3}", "2,4,5",
         (1, 3, 0, 2)),
    ],
)  # fmt: skip
def test_a_dot_of_its_operand_in_panels_is_known(
    right: str, attributes: str, result: str, order: tuple[int, ...]
) -> None:
    found = dot(right, attributes, result)
    assert_known(found, order)


@pytest.mark.parametrize(
    ("shape", "labels", "order"),
    [("3,3,4,10", "01io", (0, 1, 2, 3)), ("10,4,3,3", "oi01", (2, 3, 1, 0)),
     ("3,10,3,4", "1o0i", (0, 2, 3, 1))],
)  # fmt: skip
def test_a_convolution_of_filters_in_panels_is_known(
    shape: str, labels: str, order: tuple[int, ...]
) -> None:
    assert_known(product(CONVOLUTION.format(shape=shape, labels=labels)), order)


def assert_known(found: HloInstruction, want: tuple[int, ...]) -> None:
    order, attrs = with_plain_right(found)
    assert order == want
    left, right = found.operands
    assert panels_of(found) is None
    dims = tuple(right.shape.dims[d] for d in order)
    plain = replace(right, shape=array(dt.F32, dims).row_major())
    turned = replace(found, operands=(left, plain), attrs={**found.attrs, **attrs})
    form = panel_form(turned, 4)
    assert form is not None
    panels = replace(right, shape=array(dt.F32, form.panels).row_major())
    root = replace(turned, operands=(left, form.unpacked(panels)))
    seen = panels_of(root)
    assert seen is not None
    assert (seen.parameter, seen.form) == (panels, form)


def test_other_movement_is_no_panel() -> None:
    text = """HloModule m
    ENTRY e {{ x = f32[7,6] parameter(0)  y = f32[2,6,4] parameter(1)
      t = f32[{moved}] transpose(y), dimensions={{{order}}}  r = f32[6,8] reshape(t)
      ROOT d = f32[7,8] dot(x, r), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"""
    assert panels_of(product(text.format(moved="6,2,4", order="1,0,2"))) is not None
    assert panels_of(product(text.format(moved="6,4,2", order="1,2,0"))) is None
    assert panels_of(product(text.format(moved="2,6,4", order="0,1,2"))) is None
