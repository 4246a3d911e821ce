"""What a function of TensorFlow's is compiled to, where our device is the default.

`tf.function(...).experimental_get_compiler_ir` asks the device for a compiler of XLA's, which
devices of plugins have not. TensorFlow lowers a function for them as for its CPU, so the CPU is
asked, with copies of the variables; the optimized program is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from xladev.compiler.options import CompileOptions
from xladev.compiler.prepare import prepare
from xladev.frontends.tensorflow.adapter import copied_to_host
from xladev.frontends.tensorflow.environment import platform_name
from xladev.hlo.dot import module_to_dot
from xladev.hlo.ir import HloModule
from xladev.hlo.proto import read_module, write_module
from xladev.hlo.text import print_module
from xladev.runtime.registry import current_registry

HOST = "/job:localhost/replica:0/task:0/device:CPU:0"
_OPTIMIZED: Mapping[str, Callable[[HloModule], bytes]] = MappingProxyType(
    {
        "optimized_hlo": lambda module: print_module(module).encode(),
        "optimized_hlo_serialized": write_module,
        "optimized_hlo_proto_serialized": write_module,
        "optimized_hlo_dot": lambda module: module_to_dot(module).encode(),
    }
)
"""Stages of TensorFlow's that come after its compiler's passes, and how each is written."""


def compiler_ir(
    ask: Callable[..., bytes], function: str, arguments: Sequence[Any], captured: Sequence[Any],
    stage: str,
) -> bytes:  # fmt: skip
    """A function of TensorFlow's at a stage of its compilation.

    Args:
        ask: `Context.get_compiler_ir` of TensorFlow's.
        function: its name.
        arguments: tensors, or what says their shapes.
        captured: tensors, and handles of variables.
        stage: TensorFlow's name of the stage.

    Raises:
        UnsupportedError: an optimized program of which our platform runs nothing.
    """
    write = _OPTIMIZED.get(stage)
    kept: list[Any] = []
    given = [[copied_to_host(v, HOST, kept) for v in values] for values in (arguments, captured)]
    found = ask(HOST, None, function, *given, "hlo_serialized" if write else stage)
    return found if write is None else write(_optimized(found))


def _optimized(code: bytes) -> HloModule:
    """The module after the passes that our platform's compilations run first.

    Raises:
        UnsupportedError: nobody runs one of its instructions.
    """
    options = CompileOptions.from_environment()
    target = current_registry().platform(platform_name()).compile_target(options.target)
    return prepare(read_module(code), target, options)
