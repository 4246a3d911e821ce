"""Announces the chip, as a vendor's plugin would."""

from __future__ import annotations

from collections.abc import Sequence

from xladev.compiler.contract import Compiler
from xladev.runtime.executor import Executor
from xladev.runtime.hookspecs import PlatformSpec, hookimpl
from xladev.runtime.platform import Platform
from xladev.runtime.virtual_devices import provided_device_count, virtual_device_count


class VendorLikePlatform(Platform):
    """As many devices as a program wants."""

    def visible_device_count(self) -> int:
        return virtual_device_count("vendor_like")

    def provide_devices(self, count: int) -> int:
        return provided_device_count("vendor_like", count)

    def create_executor(self, ordinal: int) -> Executor:
        from tests.async_npu.executor import AsyncExecutor

        return AsyncExecutor(ordinal)

    def version(self) -> str:
        return "vendor-like driver 1"


def _compiler() -> Compiler:
    from tests.vendor_like.compiler import VendorLikeCompiler

    return VendorLikeCompiler()


@hookimpl
def xladev_platforms() -> Sequence[PlatformSpec]:
    """The platform ``vendor_like``."""
    return (PlatformSpec("vendor_like", VendorLikePlatform, priority=4, compiler=_compiler),)
