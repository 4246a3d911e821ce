"""The CPU as a plugin: what the entry point names, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xladev.runtime.hookspecs import PlatformSpec, hookimpl

if TYPE_CHECKING:
    from xladev.compiler.contract import Compiler
    from xladev.runtime.platform import Platform


def _platform() -> Platform:
    from xladev.platforms.cpu.platform import CpuPlatform

    return CpuPlatform()


def _compiler() -> Compiler:
    from xladev.platforms.cpu.compiler import CpuCompiler

    return CpuCompiler()


@hookimpl
def xladev_platforms() -> PlatformSpec:
    """The platform ``cpu``, priority 50."""
    return PlatformSpec("cpu", _platform, kind="cpu", priority=50, compiler=_compiler)
