"""The device of an instruction in text and proto, which XLA carries along."""

from dataclasses import replace

import pytest

from tests.tools import oracle
from xladev.hlo.ir import HloComputation, HloModule
from xladev.hlo.proto import read_module, write_module
from xladev.hlo.text import parse_module, print_module

TEXT = 'f32[] negate(f32[] p), frontend_attributes={a="b",xladev_device="npu:0",z=""}'


def test_text_names_the_device() -> None:
    module = parse_module(TEXT)
    assert module.entry.root.note.device == "npu:0"
    assert module.entry.root.note.frontend_attributes == (("a", "b"), ("z", ""))
    assert 'frontend_attributes={a="b",xladev_device="npu:0",z=""}' in print_module(module)


def test_protos_name_the_device() -> None:
    module = parse_module(TEXT)
    assert read_module(write_module(module)).entry.root.note == module.entry.root.note


@pytest.mark.parametrize("device", [None, "", "npu:0", '"'])
def test_any_name_survives_both(device: str | None) -> None:
    module = parse_module("f32[] negate(f32[] p)")
    (parameter,) = module.entry.parameters
    root = replace(module.entry.root, note=replace(module.entry.root.note, device=device))
    placed = HloModule("m", HloComputation("e", (parameter, root), root))
    assert parse_module(print_module(placed)) == placed
    assert read_module(write_module(placed)).entry.root.note.device == device


def test_xla_keeps_the_device() -> None:
    (printed,) = oracle.reprinted([print_module(parse_module(TEXT))])
    assert parse_module(str(printed)).entry.root.note.device == "npu:0"
