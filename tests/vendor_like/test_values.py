"""Values of one run: each is waited for alone, copied beside kernels, and fails alone."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xladev
from tests.async_npu.executor import AsyncExecutor
from tests.async_npu.kernels import AsyncKernel
from tests.async_npu.stream import AsyncStream
from xladev.instrument import collect_counters
from xladev.profiling.timeline import profile
from xladev.profiling.timeline.file import read_trace
from xladev.profiling.timeline.questions import QUESTIONS
from xladev.profiling.timeline.tables import ask, open_tables
from xladev.runtime.array import put
from xladev.runtime.event import Event
from xladev.runtime.memory import DeviceMemory
from xladev.runtime.registry import Registry
from xladev.runtime.transfer_queue import TransferQueue

Hook = Callable[[str], None]

TWO = """HloModule two
ENTRY e { x = f32[65536] parameter(0)
  a = f32[65536] sine(x), frontend_attributes={xladev_device="vendor_like:0"}
  a2 = f32[65536] tanh(a), frontend_attributes={xladev_device="vendor_like:0"}
  b = f32[65536] cosine(x), frontend_attributes={xladev_device="vendor_like:1"}
  b2 = f32[65536] exponential(b), frontend_attributes={xladev_device="vendor_like:1"}
  ROOT r = f32[65536] add(a2, b2), frontend_attributes={xladev_device="vendor_like:0"} }"""

APART = """HloModule apart
ENTRY e { x = f32[65536] parameter(0)
  y = f32[65536] parameter(1)
  a = f32[65536] sine(x), frontend_attributes={xladev_device="vendor_like:1"}
  a2 = f32[65536] negate(a), frontend_attributes={xladev_device="DEPENDS"}
  b = f32[65536] cosine(y), frontend_attributes={xladev_device="vendor_like:2"}
  b2 = f32[65536] abs(b), frontend_attributes={xladev_device="cpu"}
  ROOT t = (f32[65536], f32[65536], f32[65536]) tuple(a2, b2, b) }"""

X = np.linspace(0, 1, 1 << 16, dtype=np.float32)
PATIENCE_S = 20.0


@contextmanager
def kernels_call(monkeypatch: pytest.MonkeyPatch, hook: Hook) -> Iterator[None]:
    """Each kernel calls ``hook`` with each of its opcodes before it computes, on its queue."""
    whole = AsyncKernel.run

    def run(self: AsyncKernel, buffers: Sequence[Any]) -> None:
        for i in self.module.entry.instructions:
            hook(i.opcode)
        whole(self, buffers)

    with monkeypatch.context() as patched:
        patched.setattr(AsyncKernel, "run", run)
        yield


def devices_with(registry: Registry, count: int) -> None:
    """Makes that many devices of the chip."""
    registry.platform("vendor_like").provide_devices(count)


def test_a_value_is_copied_under_a_kernel_while_two_devices_work(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first device's kernel ends after the other's result has come, which began after it."""
    program = xladev.compile(TWO.encode(), "vendor_like")
    program(X).numpy()
    begun, come, late = threading.Event(), threading.Event(), list[str]()
    whole = TransferQueue.copy

    def copy(self: TransferQueue, *ends: Any) -> Event:
        event = whole(self, *ends)
        if ends[-1] == "from vendor_like:1":
            event.on_ready(lambda _: come.set())
        return event

    def hook(opcode: str) -> None:
        if opcode == "tanh":
            begun.set()
        awaited = {"tanh": come, "exponential": begun}.get(opcode)
        if awaited is not None and not awaited.wait(PATIENCE_S):
            late.append(opcode)

    monkeypatch.setattr(TransferQueue, "copy", copy)
    with kernels_call(monkeypatch, hook), profile(tmp_path / "t.json"):
        result = program(X).numpy()
    np.testing.assert_allclose(result, np.tanh(np.sin(X)) + np.exp(np.cos(X)), rtol=1e-6)
    assert late == []
    sql = QUESTIONS["overlap"].sql.replace(":limit", "100")
    columns, rows = ask(open_tables(read_trace(tmp_path / "t.json")), sql)
    found = {(row[0], row[1]): row[columns.index("times")] for row in rows}
    assert found["vendor_like:0/stream", "vendor_like:1/stream"] >= 1
    assert found["vendor_like:0/stream", "vendor_like:0/transfers"] >= 1


def test_peers_copy_without_the_host(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    program = xladev.compile(TWO.encode(), "vendor_like")
    x = put(registry.devices("vendor_like")[0], X)
    whole, by_host = AsyncStream.copy, list[str]()

    def copy(self: AsyncStream, destination: Any, source: Any) -> None:
        if not isinstance(destination, DeviceMemory) or not isinstance(source, DeviceMemory):
            by_host.append("Stream.copy")
        whole(self, destination, source)

    with monkeypatch.context() as patched, collect_counters() as counts:
        patched.setattr(AsyncStream, "copy", copy)
        for name in ("copy_to_host", "copy_to_device"):
            patched.setattr(AsyncExecutor, name, lambda *_, n=name: by_host.append(n))
        result = program(x).block_until_ready()
    assert by_host == []
    assert counts["program.nbytes_from_peers"] == 2 * X.nbytes
    np.testing.assert_allclose(result.numpy(), np.tanh(np.sin(X)) + np.exp(np.cos(X)), rtol=1e-6)


def break_sine(opcode: str) -> None:
    if opcode == "sine":
        raise ValueError("a broken unit")


@pytest.mark.parametrize("depends", ["vendor_like:1", "vendor_like:0", "cpu"])
def test_a_failure_is_that_of_the_values_that_depend_on_it(
    depends: str, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices_with(registry, 3)
    program = xladev.compile(APART.replace("DEPENDS", depends).encode(), "vendor_like")
    for _ in range(3):
        with kernels_call(monkeypatch, break_sine):
            poisoned, *others = program(X, X)
            with pytest.raises(xladev.XladevError, match="broke") as caught:
                poisoned.numpy()
            error = caught.value
            assert "broken unit" in (error.why or "") and error.code and error.hint
            assert "vendor_like:1" in (error.where or "") and "kernel" in (error.where or "")
        for result in others:
            np.testing.assert_allclose(result.numpy(), np.cos(X), rtol=1e-6)
        a, b, _ = program(X, X)
        np.testing.assert_allclose(a.numpy(), -np.sin(X), rtol=1e-6)
        np.testing.assert_allclose(b.numpy(), np.cos(X), rtol=1e-6)


def test_failures_keep_no_memory_and_end_what_was_donated(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    devices_with(registry, 3)
    program = xladev.compile(APART.replace("DEPENDS", "vendor_like:0").encode(), "vendor_like")
    devices = registry.devices("vendor_like")

    def in_use() -> list[int]:
        gc.collect()
        for device in devices:
            device.synchronize()
        return [device.memory_stats().nbytes_in_use for device in devices]

    def once() -> None:
        x, y = put(devices[0], X), put(devices[0], X)
        poisoned, b2, b = program(x, y, donate=(0, 1))
        with pytest.raises(xladev.XladevError, match="broke"):
            poisoned.numpy()
        np.testing.assert_allclose(b2.numpy(), np.cos(X), rtol=1e-6)
        np.testing.assert_allclose(b.numpy(), np.cos(X), rtol=1e-6)
        for given in (x, y):
            with pytest.raises(xladev.XladevError, match="donated"):
                given.numpy()

    with kernels_call(monkeypatch, break_sine):
        once()
        before = in_use()
        for _ in range(10):
            once()
        assert in_use() == before


def test_threads_are_told_their_own_failures(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four threads two run a program that breaks, and two one that does not."""
    devices_with(registry, 3)
    text = APART.replace("DEPENDS", "vendor_like:0")
    texts = text, text.replace(" sine(", " tanh(")
    bad, good = (xladev.compile(t.encode(), "vendor_like") for t in texts)
    wrong = list[str]()

    def runs_bad() -> None:
        for _ in range(20):
            poisoned, b2, _ = bad(X, X)
            try:
                poisoned.numpy()
                wrong.append("a poisoned result was read")
            except xladev.XladevError as e:
                if "broke" not in str(e):
                    wrong.append(str(e))
            if not np.allclose(b2.numpy(), np.cos(X), rtol=1e-5):
                wrong.append("b2")

    def runs_good() -> None:
        for _ in range(20):
            a, b2, b = (r.numpy() for r in good(X, X))
            if not (np.allclose(a, -np.tanh(X), rtol=1e-5) and np.allclose(b, b2)):
                wrong.append("good")

    with kernels_call(monkeypatch, break_sine):
        threads = [threading.Thread(target=w, daemon=True) for w in (runs_bad, runs_good) * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []
