"""Announces the asynchronous test device, as a vendor's plugin would be."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.compiler.contract import Compiler
from xladev.runtime.executor import Executor
from xladev.runtime.hookspecs import PlatformSpec, hookimpl
from xladev.runtime.platform import Platform
from xladev.runtime.virtual_devices import provided_device_count, virtual_device_count


class AsyncPlatform(Platform):
    """As many devices as a program wants."""

    def visible_device_count(self) -> int:
        return virtual_device_count("async_npu")

    def provide_devices(self, count: int) -> int:
        return provided_device_count("async_npu", count)

    def create_executor(self, ordinal: int) -> Executor:
        from tests.async_npu.executor import AsyncExecutor

        return AsyncExecutor(ordinal)

    def version(self) -> str:
        return "async_npu driver 1"


def _compiler() -> Compiler:
    from tests.async_npu.compiler import AsyncCompiler

    return AsyncCompiler()


@hookimpl
def xladev_platforms() -> Sequence[PlatformSpec]:
    """The platform ``async_npu``."""
    return (PlatformSpec("async_npu", AsyncPlatform, priority=5, compiler=_compiler),)
