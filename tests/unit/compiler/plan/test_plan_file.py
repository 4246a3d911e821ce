"""Kernel plans as files: every step names what is there, whatever the file says."""

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.tools.fork_programs import TWO, forks_of
from tests.unit.compiler.evaluating_backend import EvaluatingCompiler
from tests.unit.compiler.plan.test_kernel_plan import ROTATING_LOOP
from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.executable import Executable
from xladev.compiler.kernel_code import KernelCode, LaunchDimensions
from xladev.compiler.options import CompileOptions
from xladev.compiler.plan.kernel_plan import Loop
from xladev.compiler.plan.plan_file import MAGIC, read_plan
from xladev.compiler.streams.forks import ForkSpread
from xladev.errors import FormatError
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module

START = len(MAGIC) + 8
BRANCHING = """
same { x = f32[4] parameter(0)
  ROOT r = f32[4] reverse(x), dimensions={0} }
other { x = f32[4] parameter(0)
  ROOT r = f32[4] negate(x) }
ENTRY e { i = s32[] parameter(0)
  x = f32[4] parameter(1)
  ROOT r = f32[4] conditional(i, x, x), branch_computations={same, other} }"""

Change = Callable[[dict[str, Any]], object]


def executable(text: str = ROTATING_LOOP) -> Executable:
    return EvaluatingCompiler().compile(parse_module(text), CompileOptions(optimization_level=0))


def changed(made: Executable, change: Change) -> Executable:
    (length,) = struct.unpack_from("<Q", made.payload, len(MAGIC))
    described = json.loads(made.payload[START : START + length])
    change(described)
    return with_json(made, json.dumps(described).encode())


def with_json(made: Executable, data: bytes) -> Executable:
    (length,) = struct.unpack_from("<Q", made.payload, len(MAGIC))
    rest = made.payload[START + length :]
    return Executable(made.signature, MAGIC + struct.pack("<Q", len(data)) + data + rest)


def found(steps: list[Any], kind: str) -> Any:
    """The first step of a kind, in loops too."""
    for step in steps:
        if step[0] == kind:
            return step
        inner = step[1] + step[3] if step[0] == "loop" else []
        deeper = found(inner, kind)
        if deeper is not None:
            return deeper
    return None


def put(kind: str, *path: int, value: Any) -> Change:
    """Replaces what is at a path within the first step of a kind."""

    def change(described: dict[str, Any]) -> None:
        at = found(described["steps"], kind)
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value

    return change


DAMAGES: dict[str, tuple[Change, str]] = {
    "kernel": (put("run", 1, value=99), "kernel 99 is run"),
    "kernel no number": (put("run", 1, value="0"), "no number"),
    "kernel true": (put("run", 1, value=True), "no number"),
    "space": (put("run", 2, 0, 0, value="heap"), "heap"),
    "index": (put("run", 2, 0, 1, value=7), "is used"),
    "offset": (put("run", 2, 0, 2, value=2**40), "is used"),
    "negative offset": (put("run", 2, 0, 2, value=-4), "no number"),
    "length": (put("run", 2, 0, 3, value=2**62), "is used"),
    "copy": (put("copy", 1, 3, value=1), "lengths differ"),
    "predicate": (put("loop", 2, 3, value=0), "decides"),
    "predicate elsewhere": (put("loop", 2, value=["scratch", 3, 0, 1]), "is used"),
    "step": (put("run", 0, value="jump"), "no such step"),
    "blob": (lambda d: d["kernels"][0][0].update(nbytes=2**50), "beyond the file"),
    "grid": (lambda d: d["kernels"][0][0].update(grid=[1, 1]), "unpack"),
    "entry": (lambda d: d["kernels"][0][0].update(entry=None), "no text"),
    "no launch": (lambda d: d["kernels"][0].clear(), "unpack"),
    "constants": (lambda d: d.update(constants={}), "no list"),
    "kernels": (lambda d: d.pop("kernels"), "kernels"),
    "steps": (lambda d: d.update(steps=3), "iterable"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named(name: str) -> None:
    change, message = DAMAGES[name]
    with pytest.raises(FormatError) as caught:
        read_plan(changed(executable(), change))
    assert message in str(caught.value)
    assert caught.value.where == "executable 'rotate'"


class TwoLaunches(EvaluatingCompiler):
    """Every kernel is launched, and then launched again in another grid."""

    def lower(self, spec: KernelSpec, options: CompileOptions) -> KernelCode:
        code = super().lower(spec, options)
        return replace(code, then=(replace(code, dimensions=LaunchDimensions((3, 1, 1))),))


def test_what_follows_a_kernel_is_kept() -> None:
    made = TwoLaunches().compile(parse_module(ROTATING_LOOP), CompileOptions(optimization_level=0))
    for code in read_plan(made).kernels:
        first, second = code.launches
        assert (second.entry, second.code) == (first.entry, first.code)
        assert (first.dimensions.grid, second.dimensions.grid) == ((1, 1, 1), (3, 1, 1))


def test_branches_are_checked() -> None:
    made = executable(BRANCHING)
    read_plan(made)
    for value in ([], [["run", 5, []]], [[]] * 2):
        if value == [[]] * 2:
            read_plan(changed(made, put("branch", 3, value=value)))
            continue
        with pytest.raises(FormatError, match="damaged kernel plan"):
            read_plan(changed(made, put("branch", 3, value=value)))
    with pytest.raises(FormatError, match="what decides has 1 bytes"):
        change = put("branch", 2, value=True)
        read_plan(changed(made, change))


@pytest.mark.parametrize("depth", [200, 100_000])
def test_deep_steps_are_refused(depth: int) -> None:
    made = executable()
    opened, closed = b'["loop",[],["scratch",0,0,1],[' * depth, b"]]" * depth
    data = b'{"constants":[],"kernels":[],"steps":[' + opened + closed + b"]}"
    with pytest.raises(FormatError, match="damaged kernel plan") as caught:
        read_plan(with_json(made, data))
    assert len(str(caught.value)) < 1000


class ForkingCompiler(EvaluatingCompiler):
    """Runs loops at once, as far as plans go."""

    def forks(self, module: HloModule, options: CompileOptions) -> ForkSpread:
        return ForkSpread(2, lambda spec, threads: 1e-3)


def test_forks_are_kept_and_checked() -> None:
    made = ForkingCompiler().compile(parse_module(TWO), CompileOptions())
    (fork,) = forks_of(read_plan(made).steps)
    assert [sum(isinstance(step, Loop) for step in part) for part in fork.parts] == [1, 1]

    def elsewhere(described: dict[str, Any]) -> None:
        found(found(described["steps"], "fork")[1][1], "loop")[2][1] = 99

    with pytest.raises(FormatError, match="damaged kernel plan"):
        read_plan(changed(made, elsewhere))
