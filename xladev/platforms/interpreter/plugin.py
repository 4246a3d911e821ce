"""Announces the interpreter: correct, slow, always there."""

from __future__ import annotations

from xladev.platforms.interpreter.compiler import InterpreterCompiler
from xladev.platforms.interpreter.platform import InterpreterPlatform
from xladev.runtime.hookspecs import PlatformSpec, hookimpl


@hookimpl
def xladev_platforms() -> PlatformSpec:
    """The platform of this plugin."""
    return PlatformSpec(
        "interpreter",
        priority=10,
        factory=InterpreterPlatform,
        compiler=InterpreterCompiler,
    )
