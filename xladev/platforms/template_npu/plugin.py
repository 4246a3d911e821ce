"""Announces the template NPU: what the entry point names, and nothing else.

What a vendor replaces: name, kind and priority (real hardware: 100 and up, 500 is usual). Nothing
here may open the driver; both functions are called when somebody asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xladev.runtime.hookspecs import PlatformSpec, hookimpl

if TYPE_CHECKING:
    from xladev.compiler.contract import Compiler
    from xladev.runtime.platform import Platform


def _platform() -> Platform:
    from xladev.platforms.template_npu.platform import TemplateNpuPlatform

    return TemplateNpuPlatform()


def _compiler() -> Compiler:
    from xladev.platforms.template_npu.compiler import TemplateNpuCompiler

    return TemplateNpuCompiler()


@hookimpl
def xladev_platforms() -> PlatformSpec:
    """The platform ``template_npu`` of kind ``npu``, priority 40: below the CPU's 50."""
    return PlatformSpec(
        "template_npu",
        _platform,
        kind="npu",
        priority=40,
        compiler=_compiler,
        may_be_host=False,
    )
