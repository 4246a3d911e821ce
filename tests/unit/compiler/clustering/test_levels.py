"""Levels of compilation: what is compiled together, and that results stay the same."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import xladev
from xladev.client import CompiledModule
from xladev.compiler.options import CompileOptions
from xladev.hlo.builder import HloBuilder
from xladev.hlo.dtype import F32
from xladev.hlo.ir import HloModule
from xladev.hlo.shape import array
from xladev.hlo.text import parse_module
from xladev.instrument import collect_decisions

AS_WRITTEN = CompileOptions(optimization_level=0)


def layers() -> HloModule:
    """Five instructions, then two of scope s, then one alone."""
    b = HloBuilder("layers")
    x = b.parameter(array(F32, (4,)))
    for opcode in ("sine", "cosine", "tanh", "exponential", "negate"):
        x = b.op(opcode, x)
    with xladev.jit_scope("s"):
        x = b.op("tanh", b.op("sine", x))
    with xladev.jit_scope(compile=False):
        x = b.op("negate", x)
    return b.module(x)


def compiled(options: CompileOptions, module: HloModule | None = None) -> CompiledModule:
    return xladev.compile(module or layers(), "cpu", options)


def sizes(options: CompileOptions, module: HloModule | None = None) -> list[int]:
    """How many instructions each executable has, in the order in which they run."""
    with collect_decisions() as decisions:
        count = len(compiled(options, module).program.executables)
    large = [int(d.why.split()[0]) for d in decisions if d.step == "clusters"]
    return sorted(large, reverse=True) + [1] * (count - len(large))


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"compilation_level": 0}, [2] + [1] * 6),
        ({"op_by_op": True}, [2] + [1] * 6),
        ({"compilation_level": 1}, [5, 2, 1]),
        ({"compilation_level": 1, "min_cluster_size": 6}, [2] + [1] * 6),
        ({"compilation_level": 2}, [1]),
        ({"compilation_level": 0, "scopes": (("opcode:*n*", "n"),)}, [5, 2, 1]),
        ({"compilation_level": 1, "scopes": (("opcode:tanh", "-"),)}, [2, 1, 1, 1, 1, 1, 1]),
    ],
)  # fmt: skip
def test_what_is_compiled_together(change: dict[str, object], wanted: list[int]) -> None:
    options = CompileOptions(**{"optimization_level": 0, **change})  # type: ignore[arg-type]
    assert sizes(options) == wanted
    x = np.linspace(-1, 1, 4, dtype=np.float32)
    np.testing.assert_allclose(compiled(options)(x).numpy(), compiled(AS_WRITTEN)(x).numpy(), 1e-6)


SCOPED = """HloModule scoped
ENTRY e { x = f32[4] parameter(0)
  a = f32[4] sine(x), metadata={op_name="jit(f)/encoder/sin"}
  b = f32[4] cosine(a), metadata={op_name="jit(f)/encoder/cos"}
  c = f32[4] tanh(b), metadata={op_name="jit(f)/decoder/tanh"}
  ROOT d = f32[4] exponential(c), metadata={op_name="jit(f)/decoder/exp"} }"""


def test_named_scopes_of_a_framework_by_rules() -> None:
    options = AS_WRITTEN.with_option("compilation_level=0")
    module = parse_module(SCOPED)
    assert sizes(options, module) == [1, 1, 1, 1]
    assert sizes(options.with_option("scopes=op:*/encoder/*=enc"), module) == [2, 1, 1]
    both = options.with_option("scopes=op:*/encoder/*=enc,op:*/decoder/*=dec")
    assert sizes(both, module) == [2, 2]
    assert sizes(options.with_option("scopes=op:jit(f)/*=f"), module) == [4]


def test_a_way_through_another_device_is_no_cycle() -> None:
    text = """ENTRY e { x = f32[4] parameter(0)
  a = f32[4] sine(x)
  h = f32[4] cosine(a), frontend_attributes={xladev_device="interpreter"}
  c = f32[4] tanh(a)
  ROOT d = f32[4] add(c, h) }"""
    for level in range(3):
        made = compiled(AS_WRITTEN.with_option(f"compilation_level={level}"), parse_module(text))
        x = np.arange(4, dtype=np.float32)
        found = made(x).numpy()
        np.testing.assert_allclose(found, np.tanh(np.sin(x)) + np.cos(np.sin(x)), rtol=1e-5)


def test_clusters_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="xladev.compile"):
        compiled(AS_WRITTEN.with_option("compilation_level=1"))
    assert "level 1: 2 clusters (5, 2), 1 instructions alone" in caplog.text
