"""The runtime on a device that finds missing waits and early frees for certain."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.async_npu.compiler import REFUSES
from tests.async_npu.stream import AsyncStream
from xladev.client import CompiledModule, compile
from xladev.compiler.options import CompileOptions
from xladev.errors import XladevError
from xladev.runtime.array import put, to_device
from xladev.runtime.device import Device
from xladev.runtime.event import Event
from xladev.runtime.registry import Registry
from xladev.runtime.stream_order import StreamOrder

ROOT = Path(__file__).parents[2]
SIZE = 50_000
ALIASES = "{0}: (0, {}, may-alias), {1}: (1, {}, may-alias)"
DONATED = f"""HloModule negate, input_output_alias={{ {ALIASES} }}
ENTRY e {{ x = f32[{SIZE}] parameter(0)
  y = f32[{SIZE}] parameter(1)
  a = f32[{SIZE}] negate(x)
  b = f32[{SIZE}] negate(y)
  ROOT t = (f32[{SIZE}], f32[{SIZE}]) tuple(a, b) }}"""
WIDE = """HloModule wide
ENTRY e { x = f32[40,40] parameter(0)
  a = f32[40,40] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[40,40] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={1}
  c = f32[40,40] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  d = f32[40,40] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[40,40] tanh(d)
  ROOT f = f32[40,40] dot(e, c), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""


STARTS = ("tanh", "sine", "cosine", "negate")


def program(text: str, **options: Any) -> CompiledModule:
    return compile(text.encode(), "async_npu", CompileOptions(**options))


def row(value: float) -> np.ndarray:
    return np.full(SIZE, value, np.float32)


def test_a_launch_and_those_after_it(registry: Registry) -> None:
    wide, x = program(WIDE), np.random.default_rng(0).standard_normal((40, 40), np.float32)
    results = [wide(x) for _ in range(20)]
    want = np.tanh((x @ x) @ (x.T @ x.T)) @ (x @ x.T)
    for result in results:
        np.testing.assert_allclose(result.numpy(), want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("count", [1, 2])
def test_a_program_of_more_streams_than_there_are_shares_them(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    whole, asked = AsyncStream.branches, list[int]()

    def branches(self: AsyncStream, wanted: int) -> Sequence[AsyncStream]:
        asked.append(wanted)
        return whole(self, min(wanted, count))

    used = set[AsyncStream]()
    wait = AsyncStream.wait

    def noted(self: AsyncStream, event: Event) -> None:
        used.add(self)
        wait(self, event)

    monkeypatch.setattr(AsyncStream, "branches", branches)
    monkeypatch.setattr(AsyncStream, "wait", noted)
    x = np.random.default_rng(0).standard_normal((40, 40), np.float32)
    # four chains that each need two of the others
    lines = [f"v{k} = f32[40,40] {opcode}(x)" for k, opcode in enumerate(STARTS)]
    for step in range(5):
        for k in range(4):
            a, b = 4 * step + k, 4 * step + (k + 1) % 4
            lines.append(
                f"v{4 * step + 4 + k} = f32[40,40] dot(v{a}, v{b}), "
                "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
            )
    body = "\n  ".join(lines)
    text = f"HloModule m\nENTRY e {{ x = f32[40,40] parameter(0)\n  {body}\n"
    text += (
        "  ROOT r = (f32[40,40], f32[40,40], f32[40,40], f32[40,40]) tuple(v20, v21, v22, v23) }"
    )
    found = [each.numpy() for each in program(text, streams=4)(x)]
    right = [each.numpy() for each in program(text, streams=1)(x)]
    assert max(asked) > count
    assert len(used) == count + 1
    for one, other in zip(found, right, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("left_out", ["join", "before"])
def test_a_wait_that_the_runtime_leaves_out_is_found(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, left_out: str
) -> None:
    def stream_of(self: StreamOrder, number: int) -> object:
        return self._streams[self._step.streams[number]]

    wrong = {"join": lambda self: None, "before": stream_of}
    monkeypatch.setattr(StreamOrder, left_out, wrong[left_out])
    tail = "\n  ROOT t = (f32[40,40], f32[40,40]) tuple(f, c) }"
    text = WIDE.replace("ROOT f", "f").replace(" }", tail)
    wide, x = program(text, streams=4), np.zeros((40, 40), np.float32)
    with pytest.raises(XladevError, match="nothing orders the two"):
        for _ in range(3):
            for value in wide(x):
                value.numpy()


def test_a_donated_array_is_not_written_while_another_device_copies_it(registry: Registry) -> None:
    registry.platform("async_npu").provide_devices(2)
    first, second = (registry.device(f"async_npu:{n}") for n in range(2))
    negate, large = program(DONATED), np.zeros(1 << 22, np.uint8)
    busy = second.allocate_nbytes(large.nbytes, "busy")
    x, y = put(first, row(1)), put(first, row(-1))
    for _ in range(40):
        second.stream.copy(busy.memory, large)
    copied = to_device(x, second)
    results = negate(x, y, donate=True)
    assert [float(r.numpy().max()) for r in results] == [-1, 1]
    assert copied.numpy().min() == 1 == copied.numpy().max()


def test_copies_of_a_launch_that_fails_end_before_their_memory_goes(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two arguments are not donated, so that both are copied; the second copy is refused."""
    negate, copy, count = program(DONATED), AsyncStream.copy, [0]
    x = put(device, row(1))

    def refused(self: AsyncStream, destination: Any, source: Any) -> None:
        count[0] += 1
        if count[0] == 2:
            raise XladevError("no copy today")
        copy(self, destination, source)

    monkeypatch.setattr(AsyncStream, "copy", refused)
    with pytest.raises(XladevError, match="no copy today"):
        negate(x, x)
    assert [r.numpy().max() for r in negate(x, x)] == [-1, -1]


@pytest.mark.parametrize("refused", ["dot", "tanh"])
def test_programs_go_to_the_host_and_back(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    monkeypatch.setenv(REFUSES, refused)
    wide, x = program(WIDE), np.random.default_rng(1).standard_normal((40, 40), np.float32)
    assert wide.program.fallbacks
    want = np.tanh((x @ x) @ (x.T @ x.T)) @ (x @ x.T)
    for result in [wide(x) for _ in range(5)]:
        np.testing.assert_allclose(result.numpy(), want, rtol=1e-3, atol=1e-3)


def test_a_process_ends_with_work_under_way(registry: Registry) -> None:
    source = f"""
import numpy as np, xladev
wide = xladev.compile({WIDE.encode()!r}, "async_npu")
kept = [wide(np.ones((40, 40), np.float32)) for _ in range(30)]
"""
    search = os.pathsep.join(map(str, (ROOT, ROOT / "tests" / "async_npu" / "metadata")))
    environment = {**os.environ, "PYTHONPATH": search}
    command = [sys.executable, "-c", source]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
