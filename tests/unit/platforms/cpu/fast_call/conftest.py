"""Devices of each test alone, and fast calls that open or do not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from xladev.platforms.cpu import executor as cpu_executor
from xladev.platforms.cpu.native_fast_call import native_fast_call
from xladev.runtime.registry import Registry, using_registry


@pytest.fixture(autouse=True, scope="session")
def native() -> None:
    """The package of native code, which is compiled for tests."""
    if native_fast_call() is None:
        pytest.skip("needs xladev-calls, or a C compiler")


@pytest.fixture(autouse=True)
def registry() -> Iterator[Registry]:
    """Devices of this test alone."""
    found = Registry()
    with using_registry(found):
        yield found
    found.close()


@pytest.fixture(params=["fast_call", "long way"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether fast calls are made."""
    if request.param == "long way":
        monkeypatch.setattr(cpu_executor, "native_fast_call", lambda: None)
    return request.param
