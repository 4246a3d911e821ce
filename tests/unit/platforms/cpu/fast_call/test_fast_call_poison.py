"""Results that the fast call hands out are filled too, where memory is poisoned."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from tests.unit.platforms.cpu.fast_call.samples import ADD, X, Y, opened, went_through
from xladev.platforms.cpu import executor as cpu_executor
from xladev.platforms.cpu.fast_call import make_fast_call
from xladev.runtime.buffers.poison import poisoning
from xladev.runtime.host_executor import host_address

_ENTRY = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)


@pytest.mark.parametrize("poisoned", [False, True])
def test_a_block_is_filled_each_time(monkeypatch: pytest.MonkeyPatch, poisoned: bool) -> None:
    nothing = _ENTRY(lambda *_: 0)
    address = ctypes.cast(nothing, ctypes.c_void_p).value or 0

    def with_nothing(native: Any, pool: Any, spec: Any, _: int, loaded: Any) -> Any:
        return make_fast_call(native, pool, spec, address, loaded)

    monkeypatch.setattr(cpu_executor, "make_fast_call", with_nothing)
    program = opened(ADD, X, Y)
    result = program(X, Y)
    assert went_through(result)
    ctypes.memset(host_address(result.buffer.memory), 1, result.nbytes)
    del result
    if poisoned:
        with poisoning():
            assert np.isnan(program(X, Y).numpy()).all()
    else:
        assert set(program(X, Y).numpy().tobytes()) == {1}
