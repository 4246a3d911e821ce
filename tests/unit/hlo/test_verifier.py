"""The verifier finds each broken rule, and says where and which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from xladev.errors import VerifyError
from xladev.hlo import dtype as dt
from xladev.hlo.attributes import Metadata, ModuleAlias
from xladev.hlo.ir import (
    HloComputation,
    HloInstruction,
    HloModule,
    ModuleHeader,
    ProgramShape,
    StackFrames,
)
from xladev.hlo.opset import opdef
from xladev.hlo.proto import read_module
from xladev.hlo.rebuild import rebuild
from xladev.hlo.shape import Layout, Shape, array
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify

GOOD = """
HloModule m
cond { c = (s32[], f32[2]) parameter(0)  i = s32[] get-tuple-element(c), index=0
       n = s32[] constant(3)  ROOT l = pred[] compare(i, n), direction=LT }
body { b = (s32[], f32[2]) parameter(0)  j = s32[] get-tuple-element(b), index=0
       one = s32[] constant(1)  k = s32[] add(j, one)
       v = f32[2] get-tuple-element(b), index=1  w = f32[2] negate(v)
       ROOT t = (s32[], f32[2]) tuple(k, w) }
ENTRY main { x = f32[2] parameter(0)  z = s32[] constant(0)
  s = (s32[], f32[2]) tuple(z, x)
  r = (s32[], f32[2]) while(s), condition=cond, body=body
  ROOT o = f32[2] get-tuple-element(r), index=1 }
"""


def test_a_good_module_passes() -> None:
    verify(parse_module(GOOD))


F2 = array(dt.F32, (2,))
F3 = array(dt.F32, (3,))
TURNED = Shape(dt.F32, (2,), Layout((0, 1)))
X = HloInstruction(opdef("parameter"), F2, (), {"parameter_number": 0}, "x")


def op(name: str, *operands: HloInstruction, shape: Shape = F2, label: str = "") -> HloInstruction:
    return HloInstruction(opdef(name), shape, operands, {}, label or name)


ELSEWHERE = op("negate", X, label="elsewhere")
LATER = op("negate", X, label="later")


def module(*instructions: HloInstruction, root: HloInstruction | None = None) -> HloModule:
    return HloModule("m", HloComputation("main", instructions, root or instructions[-1]))


def with_header(**fields: Any) -> HloModule:
    return replace(module(X, op("negate", X)), header=ModuleHeader(**fields))


def entry(body: str) -> HloModule:
    return parse_module("HloModule m\nENTRY e { x = f32[4] parameter(0)\n" + body + " }")


BROKEN: dict[str, Callable[[], HloModule]] = {
    "instruction_c1": lambda: module(X, op("negate", X, label="x")),
    "computation_c1": lambda: module(X, op("abs", LATER), LATER),
    "computation_c2": lambda: module(
        X, replace(op("abs", X), note=replace(X.note, control_predecessors=(ELSEWHERE,)))
    ),
    "computation_c3": lambda: module(X, root=ELSEWHERE),
    "negate_shape": lambda: module(X, op("negate", X, shape=F3)),
    "add_arity": lambda: module(X, op("add", X)),
    "get-tuple-element_index": lambda: module(X, op("get-tuple-element", X)),
    "shape_c3": lambda: module(X, op("negate", X, shape=TURNED)),
    "module_c2": lambda: twice_named(),
    "module_c3": lambda: with_header(entry_layout=ProgramShape((), F2)),
    "module_c4": lambda: with_header(entry_layout=ProgramShape((F3,), F2)),
    "module_c5": lambda: with_header(aliases=(ModuleAlias((), 1, ()),)),
    "module_c6": lambda: with_header(buffer_donors=((0, (3,)),)),
    "copy_done_start": lambda: entry(
        "u = u32[] constant(0)  t = (f32[4], f32[4], u32[]) tuple(x, x, u)\n"
        "ROOT d = f32[4] copy-done(t)"
    ),
    "sharding_c1": lambda: entry("ROOT t = (f32[4], f32[4]) tuple(x, x), sharding={{replicated}}"),
    "sharding_c2": lambda: entry("ROOT n = f32[4] negate(x), sharding={devices=[2,2]<=[4]}"),
    "sharding_c3": lambda: entry("ROOT n = f32[4] negate(x), sharding={devices=[2]0,0}"),
}


def twice_named() -> HloModule:
    good = parse_module(GOOD)
    loop = next(i for i in good.entry.instructions if i.opcode == "while")
    body = loop["body"]
    twin = HloComputation("cond", body.instructions, body.root)
    changed = replace(loop, attrs={**loop.attrs, "body": twin})
    return replace(good, entry=rebuild(good.entry, {loop: changed}))


@pytest.mark.parametrize("constraint", BROKEN)
def test_each_broken_rule_is_cited(constraint: str) -> None:
    with pytest.raises(VerifyError) as caught:
        verify(BROKEN[constraint]())
    assert caught.value.why is not None
    assert constraint in caught.value.why
    assert caught.value.where


def test_the_source_line_is_named() -> None:
    wrong = replace(op("negate", X, shape=F3), note=replace(X.note, metadata=LINE))
    with pytest.raises(VerifyError, match="negate") as caught:
        verify(module(X, wrong))
    assert "model.py:7" in str(caught.value)


LINE = Metadata(source_file="model.py", source_line=7)


def test_the_source_line_is_found_through_stack_frames() -> None:
    frames = StackFrames(("net.py",), ("f",), ((1, 1, 12, 12, 0, 0),), ((1, 0),))
    wrong = op("negate", X, shape=F3)
    wrong = replace(wrong, note=replace(X.note, metadata=Metadata(stack_frame_id=1)))
    with pytest.raises(VerifyError) as caught:
        verify(replace(module(X, wrong), header=ModuleHeader(stack_frames=frames)))
    assert "net.py:12" in (caught.value.where or "")


def test_every_exported_program_passes(programs_dir: Path) -> None:
    for path in sorted(programs_dir.glob("*.pb")):
        verify(read_module(path.read_bytes()))


def test_a_long_chain_is_no_problem() -> None:
    lines = ["v0 = f32[] parameter(0)"]
    lines += [f"v{n} = f32[] negate(v{n - 1})" for n in range(1, 5000)]
    verify(parse_module("HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}"))


@pytest.mark.parametrize("declared", ["f32[<=2]", "(f32[<=2])"])
def test_a_static_value_is_not_called_dynamic(declared: str) -> None:
    opcode = "tuple" if declared.startswith("(") else "negate"
    body = f"x = f32[2] parameter(0)\n ROOT y = {declared} {opcode}(x)"
    with pytest.raises(VerifyError, match="f32") as caught:
        verify(parse_module(f"HloModule m\nENTRY e {{\n {body}\n}}"))
    assert f"{opcode}_" in (caught.value.why or "")


def test_an_entry_layout_without_layouts_is_the_default_one() -> None:
    plain = with_header(entry_layout=ProgramShape((F2,), F2))
    assert plain == with_header()
    assert plain.header.entry_layout is None
