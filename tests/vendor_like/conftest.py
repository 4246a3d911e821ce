"""A registry that knows the chip, which is closed when the test ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.async_npu.driver.library import c_compiler
from tests.vendor_like import plugin
from xladev.runtime.registry import Registry, using_registry


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    if c_compiler() is None:
        pytest.skip("there is no C compiler for the driver of async_npu")
    mistakes: list[str] = []
    for module in ("stream", "executor"):
        monkeypatch.setattr(f"tests.async_npu.{module}.MISTAKES", mistakes)
    monkeypatch.setenv("XLADEV_CPU_PEAK_FLOPS", "1e11")  # as stated, so that choices do not vary
    monkeypatch.setenv("XLADEV_CPU_BANDWIDTH", "2e10")
    made = Registry(environment={"XLADEV_PLUGINS": "-async_npu"})
    made.register(*plugin.xladev_platforms())
    with using_registry(made):
        yield made
    made.close()
