"""ProgramRun: memory lives as long as pending work uses it."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from tests.unit.compiler.subset_backend import (
    Subset,
    SubsetExecutor,
    SubsetLoaded,
    WorkerStream,
    subset_registry,
)
from xladev import client
from xladev.compiler.options import CompileOptions
from xladev.errors import ExecutionError
from xladev.hlo.text import parse_module
from xladev.platforms.interpreter.executor import InterpreterExecutor
from xladev.runtime.host_executor import host_bytes
from xladev.runtime.launch.program_run import ProgramRun
from xladev.runtime.launch.run_queue import RunQueue

TWO_REGIONS = """HloModule m
inner { p = f32[4] parameter(0)
  ROOT r = f32[4] cosine(p) }
ENTRY e { x = f32[4] parameter(0)
  n = f32[4] negate(x)
  ROOT c = f32[4] call(n), to_apply=inner }
"""


def test_pending_work_keeps_its_memory_when_a_later_launch_raises(monkeypatch):
    gate, problems = threading.Event(), []
    run, launch = SubsetLoaded.run, SubsetLoaded.launch

    def late_run(self, context):
        gate.wait(10)
        try:
            run(self, context)
        except Exception as e:  # noqa: BLE001
            problems.append(e)

    def launch_but_cosine(self, stream, context):
        if any(i.opcode == "cosine" for i in self.module.entry.instructions):
            threading.Timer(0.05, gate.set).start()
            raise ExecutionError("no cosine today")
        launch(self, stream, context)

    monkeypatch.setattr(SubsetLoaded, "run", late_run)
    monkeypatch.setattr(SubsetLoaded, "launch", launch_but_cosine)
    subset = Subset(lambda i: i.opcode in ("negate", "cosine"), asynchronous=True)
    with subset_registry(subset):
        module = parse_module(TWO_REGIONS)
        executable = client.compile(module, "subset", CompileOptions(optimization_level=0))
        result = executable(np.arange(4, dtype=np.float32))
        with pytest.raises(ExecutionError, match="no cosine today"):
            result.numpy()
        result.device.synchronize()
    assert subset.launches == 1
    assert problems == []


class LazyStream(WorkerStream):
    """Does nothing before the host waits for it: as late as an asynchronous device may be."""

    def __init__(self):
        super().__init__()
        self.pending = []

    def submit(self, job):
        self.pending.append(job)

    def record(self):
        event = super().record()
        self.synchronize()
        return event

    def synchronize(self):
        for job in self.pending:
            super().submit(job)
        self.pending.clear()
        done = threading.Event()
        super().submit(done.set)
        done.wait()


TWO_HOST_REGIONS = """HloModule m
ENTRY e { x = f32[64] parameter(0)
  c = f32[64] cosine(x)
  n = f32[64] negate(c)
  s = f32[64] sine(x), control-predecessors={n}
  ROOT r = (f32[64], f32[64]) tuple(n, s) }
"""


def test_a_host_value_outlives_its_pending_upload(monkeypatch):
    monkeypatch.setattr(SubsetExecutor, "create_stream", lambda self: LazyStream())
    monkeypatch.setattr(
        InterpreterExecutor, "deallocate", lambda self, memory: host_bytes(memory).fill(0xDD)
    )
    x = np.linspace(0, 1, 64, dtype=np.float32)
    with subset_registry(Subset(lambda i: i.opcode == "negate", asynchronous=True)):
        module = parse_module(TWO_HOST_REGIONS)
        executable = client.compile(module, "subset", CompileOptions(optimization_level=0))
        n, s = (result.numpy() for result in executable(x))
    np.testing.assert_allclose(n, -np.cos(x), rtol=1e-6)
    np.testing.assert_allclose(s, np.sin(x), rtol=1e-6)


@pytest.mark.parametrize("breaks", ["", "cosine", "negate"])
def test_a_run_goes_with_its_last_event_and_not_with_the_garbage(breaks):
    """What it refers to, streams among them, must not outlive the device that is closed."""
    subset = Subset(lambda i: i.opcode in ("negate", "cosine"), asynchronous=True, fail_on=breaks)
    with subset_registry(subset):
        module = parse_module(TWO_REGIONS)
        executable = client.compile(module, "subset", CompileOptions(optimization_level=0))
        gc.collect()
        gc.disable()
        try:
            result = executable(np.arange(4, dtype=np.float32))
            result.event.wait()
            result.device.synchronize()
            left = [o for o in gc.get_objects() if isinstance(o, ProgramRun | RunQueue)]
        finally:
            gc.enable()
        failed = result.event.error()
    assert left == []
    assert (failed is not None) == bool(breaks)
