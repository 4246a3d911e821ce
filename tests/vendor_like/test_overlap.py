"""Two devices are busy at once, runs never lock each other up, and failures are told."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import xladev
from xladev.compiler.options import CompileOptions
from xladev.profiling.timeline import profile
from xladev.profiling.timeline.file import read_trace
from xladev.runtime.registry import Registry

SIZE = 512
WIDE = f"""HloModule wide
ENTRY e {{ x = f32[{SIZE},{SIZE}] parameter(0)
  a = f32[{SIZE},{SIZE}] dot(x, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  a2 = f32[{SIZE},{SIZE}] dot(a, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  b = f32[{SIZE},{SIZE}] dot(x, x), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  b2 = f32[{SIZE},{SIZE}] dot(b, b), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  ROOT r = f32[{SIZE},{SIZE}] add(a2, b2) }}"""
TWO = (("name:b*", "vendor_like:1"),)
HOST = (("name:b*", "cpu"),)


def busy(path: Path) -> list[list[tuple[float, float]]]:
    """The times at which kernels and regions ran, in microseconds, by row of the timeline."""
    found: dict[object, list[tuple[float, float]]] = {}
    for e in read_trace(path)["traceEvents"]:
        if e.get("ph") == "X" and e.get("cat") == "kernel":
            found.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
    return list(found.values())


def overlap(one: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> float:
    """The time that two rows share."""
    return sum(max(0.0, min(b, d) - max(a, c)) for a, b in one for c, d in other)


@pytest.mark.long
@pytest.mark.parametrize("rules", [TWO, HOST])
def test_two_devices_are_busy_at_once(
    rules: tuple[tuple[str, str], ...], registry: Registry, tmp_path: Path
) -> None:
    program = xladev.compile(WIDE.encode(), "vendor_like", CompileOptions(placement=rules))
    x = np.random.default_rng(0).random((SIZE, SIZE), np.float32) / SIZE
    a, b = x @ x, x.T @ x
    program(x).numpy()
    shares = []
    while len(shares) < 8 and max(shares, default=0) <= 0.1:  # others may have the processors
        with profile(tmp_path / f"{len(shares)}.json"):
            result = program(x).numpy()
        np.testing.assert_allclose(result, a @ a + b.T @ b, rtol=1e-3)
        rows = busy(tmp_path / f"{len(shares)}.json")
        assert len(rows) == 2
        shares.append(overlap(*rows) / min(sum(end - start for start, end in row) for row in rows))
    assert shares[-1] > 0.1, shares


SMALL = WIDE.replace(f"{SIZE},{SIZE}", "8,8")


@pytest.mark.long
def test_many_runs_from_several_threads_end(registry: Registry) -> None:
    placed = CompileOptions(placement=(("name:b*", "vendor_like:1"), ("name:r", "cpu")))
    program = xladev.compile(SMALL.encode(), "vendor_like", placed)
    x = np.random.default_rng(0).random((8, 8), np.float32)
    a, b = x @ x, x.T @ x
    want, wrong = a @ a + b.T @ b, list[int]()

    def work() -> None:
        for n in range(50):
            if not np.allclose(program(x).numpy(), want, rtol=1e-4):
                wrong.append(n)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


FAILING = """HloModule failing
ENTRY e { x = f32[4] parameter(0)
  y = f32[4] sine(x), frontend_attributes={xladev_device="vendor_like:1"}
  z = f32[4] cosine(x), frontend_attributes={xladev_device="vendor_like:0"}
  ROOT r = f32[4] add(y, z) }"""


def test_a_failure_is_that_of_its_run_alone(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.async_npu.kernels import AsyncKernel

    program = xladev.compile(FAILING.encode(), "vendor_like")
    whole = AsyncKernel.run
    x = np.linspace(0, 1, 4, dtype=np.float32)
    good = program(x).block_until_ready()

    def fails(self: AsyncKernel, buffers: Sequence[object]) -> None:
        if any(i.opcode == "sine" for i in self.module.entry.instructions):
            raise ValueError("a broken unit")
        whole(self, buffers)  # type: ignore[arg-type]

    monkeypatch.setattr(AsyncKernel, "run", fails)
    bad = program(x)
    with pytest.raises(xladev.XladevError, match="broke"):
        bad.numpy()
    monkeypatch.setattr(AsyncKernel, "run", whole)
    for result in (good, program(x)):
        np.testing.assert_allclose(result.numpy(), np.sin(x) + np.cos(x), rtol=1e-6)
