"""CUDA as a plugin: what the entry point names, and nothing else.

Nothing here opens a driver or imports CuPy or LLVM; the functions are called when somebody asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xladev.runtime.hookspecs import PlatformSpec, hookimpl

if TYPE_CHECKING:
    from xladev.compiler.contract import Compiler
    from xladev.runtime.platform import Platform


def _platform() -> Platform:
    from xladev.platforms.cuda.platform import CudaPlatform

    return CudaPlatform()


def _emulation() -> Platform:
    from xladev.platforms.cuda.platform import CudaEmulationPlatform

    return CudaEmulationPlatform()


def _compiler() -> Compiler:
    from xladev.platforms.cuda.compiler import CudaCompiler

    return CudaCompiler()


def _emulation_compiler() -> Compiler:
    from xladev.platforms.cuda.compiler import CudaEmulationCompiler

    return CudaEmulationCompiler()


@hookimpl
def xladev_platforms() -> tuple[PlatformSpec, PlatformSpec]:
    """``cuda`` of kind ``gpu``, priority 100; ``cuda_emu``, priority 20, only on request."""
    return (
        PlatformSpec(
            "cuda", _platform, kind="gpu", priority=100, compiler=_compiler, may_be_host=False
        ),
        PlatformSpec(
            "cuda_emu",
            _emulation,
            kind="gpu",
            priority=20,
            compiler=_emulation_compiler,
            may_be_host=False,
        ),
    )
