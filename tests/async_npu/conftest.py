"""A registry that knows the asynchronous device, which is closed when the test ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.async_npu import plugin
from tests.async_npu.driver.library import c_compiler
from xladev.runtime.device import Device
from xladev.runtime.registry import Registry, using_registry


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    if c_compiler() is None:
        pytest.skip("there is no C compiler for the driver of async_npu")
    mistakes: list[str] = []
    for module in ("stream", "executor"):
        monkeypatch.setattr(f"tests.async_npu.{module}.MISTAKES", mistakes)
    made = Registry(environment={"XLADEV_PLUGINS": "-async_npu"})  # it may be installed as well
    made.register(*plugin.xladev_platforms())
    with using_registry(made):
        yield made
    made.close()


@pytest.fixture
def device(registry: Registry) -> Device:
    return registry.device("async_npu:0")
