"""What a plugin gives while a plan is loaded is checked there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.compiler.evaluating_backend import EvaluatingCompiler, EvaluatingExecutor
from xladev.compiler.options import CompileOptions
from xladev.errors import PluginError
from xladev.hlo.text import parse_module
from xladev.runtime.buffers.allocator import Allocator
from xladev.runtime.launch.plan_executable import load_plan_or_program

TEXT = """HloModule m
ENTRY e { x = f32[4] parameter(0)
  y = f32[4] negate(x)
  ROOT z = f32[4] sine(y) }"""


def load(function: str, value: Any) -> str:
    """What is told of an executor with a fault in one function."""
    executor = EvaluatingExecutor()
    setattr(executor, function, lambda *_: value)
    executable = EvaluatingCompiler().compile(parse_module(TEXT), CompileOptions(fusion=False))
    with pytest.raises(PluginError) as caught:
        allocator = Allocator(executor, "acme", lambda: None)
        load_plan_or_program(executor, executable, allocator, alignment=64)
    return str(caught.value)


def test_a_kernel_that_is_none_is_refused_when_it_is_loaded() -> None:
    told = load("load_kernel", 5)
    assert "plugin 'acme' returned int from Executor.load_kernel" in told
    assert "where: kernel k0.y" in told
    assert "the contract says Kernel" in told


def test_launch_graphs_that_are_none_are_refused_when_a_program_is_loaded() -> None:
    told = load("create_launch_graphs", True)
    assert "plugin 'acme' returned bool from Executor.create_launch_graphs" in told
