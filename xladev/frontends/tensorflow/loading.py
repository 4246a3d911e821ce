"""What the plugin calls while TensorFlow is imported: nothing that takes time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xladev.frontends.tensorflow.adapter import (
    device_of_variable,
    replace_get_compiler_ir,
    run_operators_as_such,
)
from xladev.frontends.tensorflow.environment import device_type


def on_load() -> None:
    """Lets threads share the device, and TensorFlow tell what a function on it is compiled to."""
    run_operators_as_such()
    replace_get_compiler_ir(_answer)


def _answer(
    ask: Callable[..., bytes], device_name: str | None, function: str, arguments: Sequence[Any],
    captured: Sequence[Any], stage: str,
) -> bytes | None:  # fmt: skip
    """For a function that runs on our device; None where it is another's.

    TensorFlow tells the device of whoever asks, but runs a function where its variables are.
    """
    places = [device_name or "", *map(device_of_variable, (*arguments, *captured))]
    if not any(f"/device:{device_type()}:".lower() in place.lower() for place in places):
        return None
    from xladev.frontends.tensorflow.compiler_ir import compiler_ir

    return compiler_ir(ask, function, arguments, captured, stage)
