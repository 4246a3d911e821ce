"""Memory spaces of parameters and results: where the device has them, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.unit.compiler.subset_backend import (
    Subset,
    SubsetCompiler,
    SubsetExecutor,
    subset_registry,
)
from xladev import client
from xladev.compiler.description import DeviceDescription, MemorySpace
from xladev.errors import UnsupportedError
from xladev.hlo.text import parse_module
from xladev.runtime.memory import DeviceMemory

X = np.arange(8, dtype=np.float32).reshape(2, 4)
IN_SHAPES = """HloModule m
ENTRY e { x = f32[2,4]{1,0:S(1)} parameter(0)  y = f32[2,4]{1,0} parameter(1)
  n = f32[2,4]{1,0:S(7)} negate(x)
  s = f32[2,4]{1,0:S(2)} add(n, y)
  ROOT t = (f32[2,4]{1,0:S(2)}, f32[2,4]{1,0}) tuple(s, y) }"""
INTERFACE = "(f32[2,4]{1,0:S(1)}, f32[2,4]{1,0})->(f32[2,4]{1,0:S(2)}, f32[2,4]{1,0})"
IN_HEADER = f"HloModule m, entry_computation_layout={{{INTERFACE}}}" + """
ENTRY e { x = f32[2,4] parameter(0)  y = f32[2,4] parameter(1)
  n = f32[2,4] negate(x)
  s = f32[2,4] add(n, y)
  ROOT t = (f32[2,4], f32[2,4]) tuple(s, y) }"""  # fmt: skip


@pytest.fixture
def three_memories(monkeypatch: pytest.MonkeyPatch) -> None:
    """The subset backend with a device of three memories."""
    spaces = (MemorySpace("device"), MemorySpace("pinned_host"), MemorySpace("scratch"))

    def describe(self: Any, target: str | None = None) -> DeviceDescription:
        return DeviceDescription(name="subset", target="subset-column-major", memory_spaces=spaces)

    def allocate(self: Any, nbytes: int, *, alignment: int, memory_space: int) -> DeviceMemory:
        return DeviceMemory(self, [np.full(nbytes, 0xAA, np.uint8)], 0, nbytes, memory_space)

    monkeypatch.setattr(SubsetCompiler, "describe", describe)
    monkeypatch.setattr(SubsetExecutor, "allocate", allocate)


@pytest.mark.usefixtures("three_memories")
@pytest.mark.parametrize("takes", [lambda _: True, lambda i: i.opcode == "add", lambda _: False])
@pytest.mark.parametrize("text", [IN_SHAPES, IN_HEADER], ids=["shapes", "header"])
def test_values_are_where_they_are_wanted(text: str, takes: Any) -> None:
    with subset_registry(Subset(takes)) as registry:
        program = client.compile(parse_module(text), "subset")
        first, second = program(X, X + 1)
        np.testing.assert_array_equal(first.numpy(), np.ones_like(X))
        np.testing.assert_array_equal(second.numpy(), X + 1)
        assert [_space(a) for a in (first, second)] == [2, 0]
        again = program(first, second)[0]  # an argument from another memory is brought over
        np.testing.assert_array_equal(again.numpy(), X)
        shapes = program.program.signature.parameters
        assert [s.layout.memory_space for s in shapes if s.layout] == [1, 0]
        del registry


def _space(array: Any) -> int:
    assert array.hlo_shape.layout.memory_space == array.buffer.memory.memory_space
    return int(array.buffer.memory.memory_space)


@pytest.mark.parametrize("platform", ["cpu", "interpreter", "template_npu"])
@pytest.mark.parametrize("text", [IN_SHAPES, IN_HEADER], ids=["shapes", "header"])
def test_a_memory_that_the_device_has_not_is_refused(text: str, platform: str) -> None:
    with pytest.raises(UnsupportedError, match="parameter 0 is wanted in memory space S") as caught:
        client.compile(parse_module(text), platform)
    assert f"{platform} has S(0)" in (caught.value.why or "")
    assert caught.value.code == "UNSUPPORTED"


def test_spaces_within_a_program_are_the_backends() -> None:
    text = IN_SHAPES.replace(":S(1)", "").replace(":S(2)", "")
    first, _ = client.compile(parse_module(text), "cpu")(X, X + 1)
    np.testing.assert_array_equal(first.numpy(), np.ones_like(X))
