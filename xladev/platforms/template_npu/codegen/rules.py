"""Which opcodes are read through maps, indices or windows, without a stage of their own.

What a vendor replaces: the opcodes that get nodes here, if their hardware has more.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.platforms.template_npu.codegen import indexing, reducers, views
from xladev.platforms.template_npu.codegen.expression import Rule

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "constant": views.view_constant,
        "broadcast": views.view_broadcast,
        "transpose": views.view_transpose,
        "reshape": views.view_reshape,
        "bitcast": views.view_bytes,
        "copy": views.view_same,
        "opt-barrier": views.view_same,
        "slice": views.view_slice,
        "reverse": views.view_reverse,
        "iota": views.view_iota,
        "bitcast-convert": views.view_bitcast,
        "dynamic-slice": indexing.read_dynamic_slice,
        "gather": indexing.read_gather,
        "reduce-window": reducers.reduce_window,
    }
)
"""By opcode."""
