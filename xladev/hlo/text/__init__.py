"""HLO text: reading and printing.

`parse_module` and `print_module` are inverse to each other: with the default options nothing is
lost, down to the payloads of NaNs.
"""

from __future__ import annotations

from xladev.hlo.text.parser import parse_module, parse_shape
from xladev.hlo.text.printer import (
    LONG,
    SHORT,
    PrintOptions,
    print_computation,
    print_instruction,
    print_module,
)

__all__ = [
    "LONG",
    "SHORT",
    "PrintOptions",
    "parse_module",
    "parse_shape",
    "print_computation",
    "print_instruction",
    "print_module",
]
