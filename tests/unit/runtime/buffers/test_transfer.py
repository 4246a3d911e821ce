"""What a plugin gives for an array of the host is checked."""

from __future__ import annotations

import numpy as np
import pytest

from xladev.errors import PluginError
from xladev.platforms.cpu.executor import CpuExecutor
from xladev.runtime.array import put
from xladev.runtime.registry import Registry


def test_memory_that_is_none_is_refused_when_an_array_is_wrapped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CpuExecutor, "wrap_host", lambda *_: 5)
    with pytest.raises(PluginError, match="returned int from Executor.wrap_host"):
        put(Registry().device("cpu:0"), np.zeros(4096, np.float32), alias=True)
