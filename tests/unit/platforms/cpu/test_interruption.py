"""Native loops end when a signal's handler raises, go on when it does not, and cost little."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import xladev
from tests.tools.ended_work import call_in_ended_work
from xladev.compiler.options import CompileOptions
from xladev.errors import InterruptionError
from xladev.instrument.interruption import INTERRUPTED
from xladev.platforms.cpu import interruption
from xladev.platforms.cpu.interruption import POLL
from xladev.platforms.cpu.payload import CpuPayload

ENDLESS = 10**11
COUNT = """
b { s = (s64[], f32[]) parameter(0)  i = s64[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1  one = s64[] constant(1)  j = s64[] add(i, one)
  y = f32[] sine(x)  ROOT t = (s64[], f32[]) tuple(j, y) }
c { s = (s64[], f32[]) parameter(0)  i = s64[] get-tuple-element(s), index=0
  n = s64[] constant(ITERATIONS)  ROOT r = pred[] compare(i, n), direction=LT }
loop { x = f32[] parameter(0)  z = s64[] constant(0)  t = (s64[], f32[]) tuple(z, x)
  w = (s64[], f32[]) while(t), condition=c, body=b  ROOT r = f32[] get-tuple-element(w), index=1 }
"""
PLAIN = """ENTRY e { x = f32[] parameter(0)  ROOT r = f32[] call(x), to_apply=loop }"""
NESTED = """
b2 { s = (s64[], f32[]) parameter(0)  i = s64[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1  one = s64[] constant(1)  j = s64[] add(i, one)
  y = f32[] call(x), to_apply=loop  ROOT t = (s64[], f32[]) tuple(j, y) }
c2 { s = (s64[], f32[]) parameter(0)  i = s64[] get-tuple-element(s), index=0
  n = s64[] constant(100000000000)  ROOT r = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[] parameter(0)  z = s64[] constant(0)  t = (s64[], f32[]) tuple(z, x)
  w = (s64[], f32[]) while(t), condition=c2, body=b2  ROOT r = f32[] get-tuple-element(w), index=1 }
"""
CONDITIONAL = """
other { x = f32[] parameter(0)  ROOT r = f32[] negate(x) }
ENTRY e { x = f32[] parameter(0)  z = f32[] constant(0)  p = pred[] compare(x, z), direction=GT
  ROOT r = f32[] conditional(p, x, x), true_computation=loop, false_computation=other }"""

FORK = """
b3 { s = (s64[], f32[]) parameter(0)  i = s64[] get-tuple-element(s), index=0
  x = f32[] get-tuple-element(s), index=1  one = s64[] constant(1)  j = s64[] add(i, one)
  y = f32[] cosine(x)  ROOT t = (s64[], f32[]) tuple(j, y) }
c3 { s = (s64[], f32[]) parameter(0)  i = s64[] get-tuple-element(s), index=0
  n = s64[] constant(OTHERS)  ROOT r = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[] parameter(0)  y = f32[] call(x), to_apply=loop  z = s64[] constant(0)
  t = (s64[], f32[]) tuple(z, x)  w = (s64[], f32[]) while(t), condition=c3, body=b3
  v = f32[] get-tuple-element(w), index=1  ROOT r = f32[] add(v, y) }"""
"""Two loops that run at once, where there are two threads."""


def text(entry: str, iterations: int = ENDLESS) -> str:
    return f"HloModule m\n{COUNT.replace('ITERATIONS', str(iterations))}{entry}"


def _many_steps(iterations: int) -> str:
    """Loops among so many steps that the entry has parts."""
    lines = ["ENTRY e { x = f32[] parameter(0)", "  v0 = f32[300] broadcast(x), dimensions={}"]
    lines += [f"  v{i + 1} = f32[300] sort(v{i}), dimensions={{0}}, to_apply=lt" for i in range(70)]
    lines += ["  y = f32[1] slice(v70), slice={[0:1]}", "  z = f32[] reshape(y)"]
    lines += ["  ROOT r = f32[] call(z), to_apply=loop }"]
    less = "lt { a = f32[] parameter(0)  b = f32[] parameter(1)\n"
    less += "  ROOT r = pred[] compare(a, b), direction=LT }\n"
    return text(less + "\n".join(lines), iterations)


PROGRAMS = {
    "plain": text(PLAIN),
    "nested": text(NESTED),
    "nested in short ones": text(NESTED, 3),
    "in a conditional": text(CONDITIONAL),
    "among many steps": _many_steps(ENDLESS),
    "in a fork": text(FORK.replace("OTHERS", str(ENDLESS))),
    "in a fork whose caller waits": text(FORK.replace("OTHERS", str(ENDLESS)), 100_000),
    "in a fork whose caller works": text(FORK.replace("OTHERS", "100000")),
}

ALARMS = """
import os, signal, sys, threading
import numpy as np
import xladev
from tests.unit.platforms.cpu.test_interruption import PLAIN, PROGRAMS, text

threading.Timer(100, os._exit, [7]).start()
seen = []

def handler(number, frame):
    seen.append(number)
    if len(seen) == 3:
        signal.setitimer(signal.ITIMER_REAL, 0)
        raise TimeoutError("the third")

signal.signal(signal.SIGALRM, handler)
x = np.full((), 0.5, np.float32)

def interrupt(run, *arguments):
    seen.clear()
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    try:
        run(*arguments)
    except TimeoutError as error:
        return str(error), len(seen)

for name, program in PROGRAMS.items():
    print(name, *interrupt(xladev.compile(program.encode(), "cpu"), x), flush=True)

argument = text("ENTRY e { n = s64[] parameter(0)  x = f32[] parameter(1)"
    "  t = (s64[], f32[]) tuple(n, x)  w = (s64[], f32[]) while(t), condition=c, body=b"
    "  ROOT r = f32[] get-tuple-element(w), index=1 }", 10**11)
run = xladev.compile(argument.encode(), "cpu")
last = np.array(10**11 - 3)
expected = [float(run(last, x)) for _ in range(4)]
assert run._fast_call is not None
print("by the fast call", *interrupt(run, np.array(0), x), flush=True)
assert float(run(last, x)) == expected[0]
before = xladev.devices("cpu")[0].memory_stats().nbytes_in_use
y = xladev.compile(b"ENTRY e { p = f32[] parameter(0)  ROOT r = f32[] add(p, p) }", "cpu")(x)
print("donated", *interrupt(lambda: run(np.array(0), y, donate=[1])), flush=True)
try:
    y.numpy()
except xladev.XladevError as error:
    print(error.code, "donated" in str(error), flush=True)
assert xladev.devices("cpu")[0].memory_stats().nbytes_in_use == before
assert float(run(last, x)) == expected[0]
os._exit(0)
"""


@pytest.mark.long
def test_a_handler_that_raises_ends_loops_and_others_do_not() -> None:
    """An alarm comes thrice before it raises; what was going on is then over, and no more."""
    done = subprocess.run(
        [sys.executable, "-c", ALARMS], capture_output=True, text=True, timeout=150, check=False,
        cwd=Path(__file__).parents[4],
    )  # fmt: skip
    names = [*PROGRAMS, "by the fast call", "donated"]
    expected = [f"{name} the third 3" for name in names] + ["ARGUMENT True"]
    assert done.stdout.splitlines() == expected, done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_loops_of_work_that_nobody_waits_for_end(name: str) -> None:
    run = xladev.compile(PROGRAMS[name].encode(), "cpu")
    result = call_in_ended_work(lambda: run(np.float32(0.5)))
    with pytest.raises(InterruptionError, match="a compiled loop was interrupted"):
        np.asarray(result)


def _payload(program: str) -> CpuPayload:
    (executable,) = xladev.compile(program.encode(), "cpu").program.executables
    payload = CpuPayload.from_bytes(executable.payload)
    assert CpuPayload.from_bytes(payload.to_bytes()) == payload
    return payload


def test_only_programs_with_loops_look() -> None:
    payload = _payload(PROGRAMS["plain"])
    assert payload.has_loops
    assert not payload.is_parallel
    assert any(POLL.encode() in code for code in payload.codes)
    straight = _payload("ENTRY e { p = f32[4] parameter(0)  ROOT r = f32[4] sine(p) }")
    assert not straight.has_loops
    assert not any(POLL.encode() in code for code in straight.codes)


def test_programs_that_are_shipped_without_python_do_not_look() -> None:
    from xladev.compiler.compile import compile_module
    from xladev.compiler.partition.assignment import CompileTarget
    from xladev.hlo.text import parse_module
    from xladev.platforms.cpu.compiler import CpuCompiler
    from xladev.platforms.cpu.object_symbols import undefined_symbols

    compiler = CpuCompiler()
    target = "x86_64-linux-gnu"
    device = CompileTarget("cpu", compiler, compiler.describe(target))
    program = compile_module(parse_module(PROGRAMS["plain"]), device, CompileOptions(target=target))
    exported = compiler.export(program.executables[0], "object")
    assert POLL not in undefined_symbols(exported.data)


def test_values_are_those_of_loops_that_never_look() -> None:
    """Looking after each iteration changes no bits."""
    program = text(PLAIN, 1000).encode()
    x = np.float32(0.5)
    expected = xladev.compile(program, "cpu")(x).numpy()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interruption, "BETWEEN_POLLS_NS", 0)
        made = xladev.compile(program, "cpu")(x).numpy()
    assert made.tobytes() == expected.tobytes()


def test_the_fast_call_knows_the_status() -> None:
    native = pytest.importorskip("xladev_calls._native", reason="needs a C compiler")
    assert native.INTERRUPTED == INTERRUPTED
