"""Forks of native code: the bits of one thread, several callers at once, and what ran where."""

import random
import threading
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

import xladev
from tests.tools.fork_programs import TWO, loop, random_program, run_loop
from xladev.client import CompiledModule
from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.instrument import tracing
from xladev.platforms.cpu.compiler import CpuCompiler
from xladev.platforms.cpu.fork import FORK, fork_text, kernel_s
from xladev.platforms.cpu.payload import CpuPayload

MANY = 8
EIGHT = (
    "HloModule eight\n"
    + "".join(loop(n, ("tanh", "sine")[n % 2], 2000 + 1000 * n) for n in range(MANY))
    + "ENTRY e {\n  a = f32[64] parameter(0)\n  b = f32[64] parameter(1)\n"
    + "".join(run_loop(n, f"u{n}", "ab"[n % 2], "ba"[n % 2]) for n in range(MANY))
    + f"  ROOT r = ({', '.join(['f32[64]'] * MANY)}) "
    + f"tuple({', '.join(f'u{n}' for n in range(MANY))})\n}}\n"
)


def arguments() -> list[np.ndarray]:
    draw = np.random.default_rng(7)
    return [draw.standard_normal(64).astype(np.float32) for _ in range(2)]


def compiled(text: str, threads: int) -> CompiledModule:
    return xladev.compile(text.encode(), "cpu", CompileOptions(threads=threads))


def payload_of(run: CompiledModule) -> CpuPayload:
    (executable,) = run.program.executables
    return CpuPayload.from_bytes(executable.payload)


def bits(result: object) -> list[bytes]:
    parts = result if isinstance(result, tuple | list) else [result]
    return [np.asarray(part).tobytes() for part in parts]


@pytest.mark.parametrize("threads", [2, 3, 7])
@pytest.mark.parametrize("text", [TWO, EIGHT], ids=["two", "eight"])
def test_values_are_those_of_one_thread(text: str, threads: int) -> None:
    alone, forked = compiled(text, 1), compiled(text, threads)
    assert payload_of(forked).has_forks
    assert not payload_of(alone).has_forks
    expected = bits(alone(*arguments()))
    for _ in range(20):
        assert bits(forked(*arguments())) == expected


def test_values_of_random_programs(seed: int) -> None:
    draw = random.Random(f"{seed} native forks")
    forked = 0
    for _ in range(12):
        text = random_program(draw)
        alone, several = compiled(text, 1), compiled(text, 2)
        forked += payload_of(several).has_forks
        assert bits(several(*arguments())) == bits(alone(*arguments())), text
    assert forked


def test_callers_in_several_threads_have_forks_of_their_own() -> None:
    run = compiled(EIGHT, 2)
    expected = bits(run(*arguments()))
    wrong: list[int] = []

    def call() -> None:
        for n in range(50):
            if bits(run(*arguments())) != expected:
                wrong.append(n)

    callers = [threading.Thread(target=call) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def test_parts_have_their_events_whichever_thread_ran_them() -> None:
    run = compiled(TWO, 2)
    run(*arguments())
    with tracing() as session:
        run(*arguments())
    kernels = [e for e in session.events if e.category == "kernel"]
    ran = Counter(e.args["hlo_op"] for e in kernels)
    assert sum(ran.values()) == len(kernels) > 200
    (whole,) = [e for e in session.events if e.category == "cluster" and e.name == "two"]
    end = whole.start_ns + whole.duration_ns
    assert all(whole.start_ns <= e.start_ns and e.start_ns + e.duration_ns <= end for e in kernels)
    for track in {e.track for e in kernels}:
        times = sorted((e.start_ns, e.duration_ns) for e in kernels if e.track == track)
        assert all(a + n <= b for (a, n), (b, _) in pairwise(times)), track


def test_code_for_other_machines_has_none() -> None:
    options = CompileOptions(target="x86_64-linux-gnu", threads=2)
    assert CpuCompiler().forks(parse_module(TWO), options) is None


def test_kernels_that_threads_share_take_a_part_of_the_time() -> None:
    text = "ENTRY e { p = f32[SIZE] parameter(0)  ROOT r = f32[SIZE] sine(p) }"
    modules = (parse_module(text.replace("SIZE", size)) for size in ("4000000", "40"))
    large, small = (KernelSpec("sine", module.entry) for module in modules)
    assert kernel_s(large, 2) < 0.6 * kernel_s(large, 1)
    assert kernel_s(small, 2) == kernel_s(small, 1) < 1e-6


def test_systems_without_futexes_wait_too() -> None:
    for triple in ("x86_64-unknown-linux-gnu", "aarch64-apple-darwin"):
        text = fork_text(triple)
        assert f"@{FORK}(" in text
        assert "define internal i64 @sleep(" in text
        assert ("@syscall" in text) == ("linux" in triple)


def test_a_payload_says_so() -> None:
    payload = CpuPayload((b"code",), is_parallel=True, has_loops=True, has_forks=True)
    assert CpuPayload.from_bytes(payload.to_bytes()) == payload
