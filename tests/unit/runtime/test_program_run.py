"""ProgramRun: memory that pending work uses outlives a run that fails."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tests.unit.compiler.subset_backend import Subset, SubsetLoaded, subset_registry
from xladev import client
from xladev.compiler.options import CompileOptions
from xladev.errors import ExecutionError
from xladev.hlo.text import parse_module

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
