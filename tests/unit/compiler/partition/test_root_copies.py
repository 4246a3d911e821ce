"""Programs that compute nothing copy what they pass on."""

from collections.abc import Callable

import xladev
from tests.unit.compiler.subset_backend import Subset, SubsetCompiler
from tests.unit.passes.checks import assert_becomes, assert_same_values, assert_unchanged, run
from xladev.compiler.description import DeviceDescription
from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.partition.root_copies import RootCopies
from xladev.hlo.ir import HloInstruction
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify


def target(takes: Callable[[HloInstruction], bool]) -> CompileTarget:
    return CompileTarget("subset", SubsetCompiler(Subset(takes)), DeviceDescription())


PASS = RootCopies(target(lambda i: True))


def test_a_parameter() -> None:
    assert_becomes(
        PASS,
        "HloModule m ENTRY e { ROOT x = f32[4] parameter(0) }",
        "HloModule m ENTRY e { x = f32[4] parameter(0)  ROOT x.copy = f32[4] copy(x) }",
    )


def test_parts_of_a_tuple() -> None:
    text = """HloModule m ENTRY e { x = f32[4] parameter(0)  c = f32[0,3] constant({})
      ROOT t = (f32[4], f32[0,3], f32[4]) tuple(x, c, x) }"""
    after = run(PASS, text)
    verify(after)
    assert [o.opcode for o in after.entry.root.operands] == ["copy"] * 3
    assert_same_values(parse_module(text), after, 1)


def test_programs_that_compute_stay() -> None:
    assert_unchanged(
        PASS,
        """HloModule m ENTRY e { x = f32[4] parameter(0)  y = f32[4] add(x, x)
        ROOT t = (f32[4], f32[4]) tuple(x, y) }""",
    )


def test_other_results_stay() -> None:
    assert_unchanged(PASS, "HloModule m ENTRY e { ROOT t = () tuple() }")
    assert_unchanged(PASS, "HloModule m ENTRY e { ROOT x = (f32[4]) parameter(0) }")
    assert_unchanged(PASS, "HloModule m ENTRY e { ROOT x = f32[<=4] parameter(0) }")


def test_what_the_target_refuses_stays() -> None:
    text = "HloModule m ENTRY e { ROOT x = f32[4] parameter(0) }"
    assert_unchanged(RootCopies(target(lambda i: i.opcode != "copy")), text)
    assert_unchanged(RootCopies(), text)


def test_such_programs_have_code() -> None:
    compiled = xladev.compile(
        parse_module("HloModule m ENTRY e { ROOT x = f32[4] parameter(0) }"), "cpu"
    )
    assert len(compiled.program.executables) == 1
