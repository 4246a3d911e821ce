"""The table of mathematical functions by HLO opcode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from xladev.codegen.llvm import FunctionBuilder, Value

MathEmitter = Callable[[FunctionBuilder, Sequence[Value]], Value]

MATH: Mapping[str, MathEmitter] = MappingProxyType({})
