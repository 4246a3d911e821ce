"""Who waits for a loop's predicate lets other threads launch meanwhile."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tests.async_npu.stream import AsyncEvent
from tests.async_npu.test_failing_calls import LOOP, X
from tests.async_npu.test_runtime import WIDE, program
from xladev.runtime.registry import Registry


def test_another_thread_launches_while_a_loop_is_decided(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, wide = program(LOOP), program(WIDE)
    want, alone = np.asarray(loop(X)[1]), np.asarray(wide(X))
    looping, wait = threading.current_thread(), AsyncEvent.wait
    launched: list[np.ndarray] = []
    others: list[threading.Thread] = []

    def waits(self: AsyncEvent, timeout_s: float | None = None) -> bool:
        if threading.current_thread() is looping and not others:
            others.append(threading.Thread(target=lambda: launched.append(np.asarray(wide(X)))))
            others[0].start()
            others[0].join(30)
        return wait(self, timeout_s)

    monkeypatch.setattr(AsyncEvent, "wait", waits)
    result = loop(X)
    assert len(launched) == 1, "it was launched before the loop went on"
    np.testing.assert_array_equal(launched[0], alone)
    np.testing.assert_array_equal(np.asarray(result[1]), want)
