"""Collectives run beside kernels that do not need them: by order of events, not by times."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.async_npu.kernels import AsyncKernel
from xladev.client import CompiledModule, compile
from xladev.compiler.options import CompileOptions
from xladev.compiler.program.thunks import CollectiveDone, CollectiveStart, RunExecutable
from xladev.errors import ExecutionError, XladevError
from xladev.hlo.multi_device import evaluate_replicated
from xladev.hlo.physical import pack
from xladev.hlo.shape import Shape
from xladev.hlo.text import parse_module
from xladev.profiling.timeline import profile
from xladev.profiling.timeline.file import read_trace
from xladev.profiling.timeline.questions import QUESTIONS
from xladev.profiling.timeline.tables import ask, open_tables
from xladev.runtime.collectives.host_communicator import HostCommunicator
from xladev.runtime.communicator import Participant
from xladev.runtime.launch.beside_kernels import BesideKernels
from xladev.runtime.memory import DeviceMemory, HostBytes
from xladev.runtime.registry import Registry

SUM = """sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }"""
DOT = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
BACKWARD = f"""HloModule backward, replica_count=2
{SUM}
ENTRY e {{ x = f32[8,8] parameter(0)
  w = f32[8,8] parameter(1)
  first = f32[8,8] dot(x, w), {DOT}
  g1 = f32[8,8] all-reduce(first), to_apply=sum
  t = f32[8,8] tanh(first)
  second = f32[8,8] dot(t, w), {DOT}
  g2 = f32[8,8] all-reduce(second), to_apply=sum
  s1 = f32[8,8] subtract(w, g1)
  s2 = f32[8,8] subtract(w, g2)
  ROOT r = (f32[8,8], f32[8,8]) tuple(s1, s2) }}"""
SINGLE = CompileOptions(all_reduce_bucket=0)


@pytest.fixture
def two(registry: Registry) -> Iterator[Registry]:
    registry.platform("async_npu").provide_devices(2)
    yield registry


def arguments(count: int = 2) -> list[list[Any]]:
    rng = np.random.default_rng(0)
    w = rng.standard_normal((8, 8), np.float32)
    return [[rng.standard_normal((8, 8), np.float32), w] for _ in range(count)]


def check(program: CompiledModule, text: str, rows: Sequence[Sequence[Any]]) -> None:
    want = evaluate_replicated(parse_module(text), rows)
    for mine, right in zip(program.run_on_devices(rows), want, strict=True):
        for got, value in zip(mine, right, strict=True):
            np.testing.assert_allclose(got.numpy(), value, rtol=1e-4, atol=1e-4)


class Gate:
    """Lets a kernel begin once a collective has on both devices, and that end once both ran it."""

    def __init__(self, patch: pytest.MonkeyPatch, collective: str, opcode: str) -> None:
        self._changed = threading.Condition()
        self._counts: Counter[str] = Counter()
        whole, exchange = AsyncKernel.run, HostCommunicator.run

        def run(kernel: AsyncKernel, buffers: Sequence[HostBytes]) -> None:
            is_beside = any(i.opcode == opcode for i in kernel.module.entry.instructions)
            if is_beside:
                self._wait_for(collective)
            whole(kernel, buffers)
            if is_beside:
                self._count(opcode)

        def held(
            group: HostCommunicator, who: Participant, a: DeviceMemory, b: DeviceMemory, call: Any
        ) -> None:
            if who.name.startswith(collective):
                who.stream.synchronize()  # the device may be before what the collective waits for
                self._count(collective)
                self._wait_for(opcode)
            exchange(group, who, a, b, call)

        patch.setattr(AsyncKernel, "run", run)
        patch.setattr(HostCommunicator, "run", held)

    def _count(self, what: str) -> None:
        with self._changed:
            self._counts[what] += 1
            self._changed.notify_all()

    def _wait_for(self, what: str) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: self._counts[what] >= 2, timeout=20):
                raise ExecutionError(f"{what} does not come on both devices")


def test_what_does_not_need_a_sum_runs_while_it_is_under_way(
    two: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = compile(BACKWARD.encode(), "async_npu", SINGLE)
    Gate(monkeypatch, "g1", "tanh")
    rows = arguments()
    with profile(tmp_path / "t.json"):
        check(program, BACKWARD, rows)
    sql = QUESTIONS["collectives"].sql.replace(":limit", "10")
    names, found = ask(open_tables(read_trace(tmp_path / "t.json")), sql)
    hidden = {row[names.index("collective")]: row[names.index("hidden_us")] for row in found}
    assert set(hidden) == {"g1", "g2"}
    assert hidden["g1"] > 0  # the kernel is within it


def test_without_the_option_they_run_in_order(two: Registry) -> None:
    options = CompileOptions(all_reduce_bucket=0, overlap_collectives=False)
    program = compile(BACKWARD.encode(), "async_npu", options)
    kinds = {type(t) for t in program.program.entry.thunks}
    assert not kinds & {CollectiveStart, CollectiveDone}
    check(program, BACKWARD, arguments())


def test_a_second_sum_is_begun_before_the_first_one_ends(two: Registry) -> None:
    program = compile(BACKWARD.encode(), "async_npu", SINGLE).program
    shown = [
        thunk.name if isinstance(thunk, (CollectiveStart, CollectiveDone)) else "kernels"
        for thunk in program.entry.thunks
        if isinstance(thunk, (CollectiveStart, CollectiveDone, RunExecutable))
    ]
    assert shown[:4] == ["kernels", "g1", "kernels", "g2"]


def test_a_collective_that_fails_is_told_and_nobody_waits_for_it(
    two: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = compile(BACKWARD.encode(), "async_npu", SINGLE)
    whole = HostCommunicator.run

    def fails(group: HostCommunicator, who: Participant, *rest: Any) -> None:
        if who.name.startswith("g1") and who.rank:
            raise ExecutionError("the link broke")
        whole(group, who, *rest)

    rows = arguments()
    with monkeypatch.context() as patch:
        patch.setattr(HostCommunicator, "run", fails)
        with pytest.raises(XladevError, match="link broke"):
            for row in program.run_on_devices(rows):
                row[0].numpy()
    check(program, BACKWARD, rows)


def random_step(chance: random.Random) -> str:
    """A program of products and sums over the devices, each reading what came before."""
    lines, values = [], ["x", "w"]
    for n in range(chance.randrange(4, 16)):
        a, b = chance.choice(values[-5:]), chance.choice(values)
        kind = chance.choice(["dot", "sum", "tanh", "add", "permute"])
        lines.append(f"  v{n} = f32[8,8] " + {
            "dot": f"dot({a}, {b}), {DOT}",
            "sum": f"all-reduce({a}), to_apply=sum",
            "tanh": f"tanh({a})",
            "add": f"subtract({a}, {b})",
            "permute": f"collective-permute({a}), source_target_pairs={{{{0,1}},{{1,0}}}}",
        }[kind])  # fmt: skip
        lines.append(f"  s{n} = f32[8,8] sine(v{n})")
        values.append(f"s{n}")
    kept = values[-3:]
    shape = ", ".join(["f32[8,8]"] * len(kept))
    lines.append(f"  ROOT r = ({shape}) tuple({', '.join(kept)})")
    head = "  x = f32[8,8] parameter(0)\n  w = f32[8,8] parameter(1)\n"
    return f"HloModule step, replica_count=2\n{SUM}\nENTRY e {{\n{head}" + "\n".join(lines) + " }"


@pytest.mark.parametrize("round", range(12))
def test_random_programs_give_what_the_evaluator_gives(
    two: Registry, round: int, seed: int
) -> None:
    text = random_step(random.Random(f"{seed} {round}"))
    program = compile(text.encode(), "async_npu", SINGLE)
    for _ in range(3):
        check(program, text, arguments())


@pytest.fixture
def only_enqueues(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A communicator whose calls return before the results are written, as those of links do."""
    kept: list[object] = []

    def write(who: Participant, memory: DeviceMemory, array: Any, shape: Shape) -> None:
        data = pack(array, shape)
        kept.append(data)
        who.stream.copy(memory.slice(0, data.nbytes), data)

    monkeypatch.setattr("xladev.runtime.collectives.host_communicator._write", write)
    yield


@pytest.mark.usefixtures("only_enqueues")
def test_a_communicator_may_only_enqueue(two: Registry) -> None:
    program = compile(BACKWARD.encode(), "async_npu", SINGLE)
    for _ in range(5):
        check(program, BACKWARD, arguments())


@pytest.mark.usefixtures("only_enqueues")
@pytest.mark.parametrize("left_out", ["_wait", "_wait_for_operands"])
def test_the_device_finds_a_missing_wait(
    two: Registry, monkeypatch: pytest.MonkeyPatch, left_out: str
) -> None:
    monkeypatch.setattr(BesideKernels, left_out, lambda *_: None)
    program = compile(BACKWARD.encode(), "async_npu", SINGLE)
    with pytest.raises(XladevError, match="async_npu"):
        for _ in range(50):  # who is late is a matter of chance
            check(program, BACKWARD, arguments())
