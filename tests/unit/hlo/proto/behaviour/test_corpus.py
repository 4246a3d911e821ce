"""Every opcode and every attribute: read from XLA's proto, written, and accepted by XLA."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.unit.hlo.proto.case import Case
from tests.unit.hlo.proto.corpus import CASES, frozen
from tests.unit.hlo.proto.printed import differences
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.literal import Literal
from xladev.hlo.opset import OPSET
from xladev.hlo.proto import read_module, write_module
from xladev.hlo.shape import Shape
from xladev.hlo.text import parse_module
from xladev.hlo.text.printer import print_module

NOT_IN_XLA_TODAY = {
    ("bitcast", "result_layout"),
    ("call", "output_to_operand_aliasing"),
    ("collective-permute-done", "channel_id"),
    ("copy", "cross_program_prefetch_index"),
    ("custom-call", "to_apply"),
}
"""Attributes that jaxlib 0.12 does not take, or reads as another: custom-call's to_apply becomes
its called_computations."""

PROTOS = frozen()


def by_text(value: Any) -> Any:
    """Values that cases name in words: computations, shapes, literals."""
    if isinstance(value, HloComputation):
        return value.name
    if isinstance(value, Shape):
        return str(value)
    if isinstance(value, Literal):
        return value.array.tolist() if value.array is not None else list(map(by_text, value.parts))
    if isinstance(value, tuple) and value and isinstance(value[0], HloComputation | Shape):
        return tuple(map(by_text, value))
    return value


def root_attrs(root: HloInstruction) -> Mapping[str, Any]:
    return {name: by_text(value) for name, value in root.attrs.items()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_attributes_are_read(case: Case) -> None:
    root = read_module(PROTOS[case.name]).entry.root
    assert f" {root.opcode}(" in case.root
    assert root_attrs(root) == case.attrs
    assert root.note.sharding == case.sharding
    if case.shape is not None:
        assert root.shape == case.shape


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_written_modules_read_back_equal(case: Case) -> None:
    module = read_module(PROTOS[case.name])
    assert read_module(write_module(module)) == module


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_proto_and_text_have_the_same_attributes(case: Case) -> None:
    assert root_attrs(parse_module(case.text).entry.root) == case.attrs


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_text_holds_what_the_proto_says(case: Case) -> None:
    module = read_module(PROTOS[case.name])
    assert parse_module(print_module(module)) == module


def test_every_opcode_has_a_case() -> None:
    covered = {i.opcode for p in PROTOS.values() for i in read_module(p).entry.instructions}
    assert set(OPSET) - covered == {"constant"}, "constants have tests of their own"


def test_every_attribute_has_a_case() -> None:
    declared = {(op.name, attr.name) for op in OPSET.values() for attr in op.attrs}
    covered = {
        (i.opcode, name)
        for proto in PROTOS.values()
        for i in read_module(proto).entry.instructions
        for name in i.attrs
    }
    required_zero = {("get-tuple-element", "index"), ("parameter", "parameter_number")}
    missing = declared - covered - required_zero - {("constant", "literal")} - NOT_IN_XLA_TODAY
    assert missing <= unusual(declared), missing - unusual(declared)


def unusual(declared: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Attributes covered on another opcode, which shares the codec and the field."""
    by_name = {
        name
        for proto in PROTOS.values()
        for i in read_module(proto).entry.instructions
        for name in i.attrs
    }
    return {(op, name) for op, name in declared if name in by_name}


def test_xla_accepts_what_is_written_and_prints_the_same() -> None:
    assert differences(PROTOS) == {}
