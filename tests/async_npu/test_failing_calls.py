"""Whichever call of the device fails, nothing that pending work uses is let go of.

Each test runs some work again and again; the first call of the device fails in the first run, the
second one in the second run, until none is left. The device itself tells what was done too early.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.async_npu import stream as device_stream
from tests.async_npu.compiler import REFUSES
from tests.async_npu.executor import AsyncExecutor
from tests.async_npu.stream import AsyncStream
from tests.async_npu.test_collectives import BACKWARD, arguments
from tests.async_npu.test_runtime import DONATED, SIZE, WIDE
from xladev.client import compile
from xladev.compiler.options import CompileOptions
from xladev.errors import XladevError
from xladev.runtime.array import put, to_device
from xladev.runtime.registry import Registry

LOOP = """HloModule loop
body { p = (s32[], f32[40,40]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[40,40] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  a = f32[40,40] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[40,40] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={1}
  y = f32[40,40] add(a, b)
  z = f32[40,40] tanh(y)
  ROOT t = (s32[], f32[40,40]) tuple(j, z) }
on { p = (s32[], f32[40,40]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(2)
  ROOT less = pred[] compare(i, n), direction=LT }
ENTRY e { x = f32[40,40] parameter(0)
  zero = s32[] constant(0)
  start = (s32[], f32[40,40]) tuple(zero, x)
  ROOT end = (s32[], f32[40,40]) while(start), condition=on, body=body }"""
EXCHANGE = """HloModule exchange, replica_count=2
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[50] parameter(0)
  y = f32[50] negate(x)
  s = f32[50] all-reduce(y), replica_groups={{0,1}}, to_apply=add
  t = f32[100] all-gather(s), replica_groups={{0,1}}, dimensions={0}
  u = f32[50] collective-permute(y), source_target_pairs={{0,1}}
  ROOT z = (f32[50], f32[100], f32[50]) tuple(s, t, u) }"""
X = np.random.default_rng(0).standard_normal((40, 40)).astype(np.float32)
ROW = np.ones(SIZE, np.float32)

Work = Callable[[], None]


def program(text: str, **options: Any) -> Any:
    return compile(text.encode(), "async_npu", CompileOptions(**options))


def read(value: Any) -> None:
    if isinstance(value, (tuple, list)):
        for part in value:
            read(part)
    else:
        np.asarray(value)


def launches(registry: Registry) -> Work:
    wide = program(WIDE, streams=4)
    return lambda: read(wide(wide(X)))


def donations(registry: Registry) -> Work:
    device, negate = registry.device("async_npu:0"), program(DONATED)

    def work() -> None:
        x, y, z = (put(device, ROW) for _ in range(3))
        read(negate(x, x))
        read(negate(y, z, donate=True))

    return work


def loops(registry: Registry) -> Work:
    loop = program(LOOP, streams=4)
    return lambda: read(loop(X))


def fallbacks(registry: Registry) -> Work:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(REFUSES, "tanh")
        wide, loop = program(WIDE), program(LOOP)
    return lambda: read([wide(X), loop(X)])


def copies_between_devices(registry: Registry) -> Work:
    registry.platform("async_npu").provide_devices(2)
    wide, other = program(WIDE), registry.device("async_npu:1")

    def work() -> None:
        value = wide(X)
        read([to_device(value, other), value])

    return work


def exchanges(registry: Registry) -> Work:
    registry.platform("async_npu").provide_devices(2)
    exchange = program(EXCHANGE, num_replicas=2)
    return lambda: read(exchange.run_on_devices([[ROW[:50]], [ROW[50:100]]]))


def collectives_beside_kernels(registry: Registry) -> Work:
    registry.platform("async_npu").provide_devices(2)
    backward = program(BACKWARD, all_reduce_bucket=0)
    return lambda: read(backward.run_on_devices(arguments()))


class Calls:
    """Counts calls of the device, one of which fails."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._count = 0
        self._failing = 0
        self.failed = ""
        names = {
            AsyncStream: ("copy", "record", "wait", "mark", "synchronize"),
            AsyncExecutor: ("launch_kernel", "allocate", "copy_to_device", "copy_to_host"),
        }
        for owner, functions in names.items():
            for name in functions:
                patch.setattr(owner, name, self._counted(f"{owner.__name__}.{name}", owner, name))

    def start(self, failing: int) -> None:
        """Counts anew; that call will fail, or none if it is 0."""
        self._count, self._failing, self.failed = 0, failing, ""

    def _counted(self, what: str, owner: type, name: str) -> Callable[..., Any]:
        right = getattr(owner, name)

        def call(*args: Any, **more: Any) -> Any:
            self._count += 1
            if self._count == self._failing:
                self.failed = what
                raise XladevError("this call fails")
            return right(*args, **more)

        return call


@pytest.mark.long
@pytest.mark.rotating
@pytest.mark.parametrize(
    "make",
    [
        launches,
        donations,
        loops,
        fallbacks,
        copies_between_devices,
        exchanges,
        collectives_beside_kernels,
    ],
)
def test_no_call_that_fails_does_harm(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, make: Callable[[Registry], Work]
) -> None:
    work, calls = make(registry), Calls(monkeypatch)
    work()
    for number in range(1, 10_000):
        calls.start(failing=number)
        try:
            work()
        except XladevError as error:
            assert "this call fails" in str(error), f"call {number}, {calls.failed}"
        failed = calls.failed
        if not failed:
            break
        calls.start(failing=0)
        gc.collect()
        for device in registry.platform("async_npu").devices():
            device.synchronize()
        assert device_stream.MISTAKES == [], f"call {number}, {failed}"
        work()
    assert number > 10
