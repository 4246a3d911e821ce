"""What the device runs: one answer for each instruction, with a reason where it is no.

What a vendor replaces: the checks, by their own; the reasons are what users read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from xladev.compiler.support import YES, Support, no
from xladev.hlo.dtype import PRED
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.platforms.template_npu.codegen.movement import is_known_combiner
from xladev.platforms.template_npu.codegen.opcodes import elementwise_refusal, type_number

MAX_WINDOW = 1024
"""Most elements of a reduce-window's window: each is an instruction."""

MAX_BYTES = 1 << 30
MAX_ELEMENTS = (1 << 31) - 1
"""Indices are s32."""

_STRUCTURE = frozenset({
    "parameter", "constant", "tuple", "get-tuple-element", "after-all", "add-dependency",
    "opt-barrier",
})  # fmt: skip
_MOVEMENT = frozenset({
    "broadcast", "transpose", "reshape", "slice", "reverse", "pad", "concatenate", "iota",
    "dynamic-slice", "dynamic-update-slice", "gather", "copy",
})  # fmt: skip


def npu_supports(i: HloInstruction) -> Support:
    """Whether command lists can be made of an instruction and all that it calls."""
    reason = _shape_refusal(i)
    if reason:
        return no(reason)
    if i.opcode in _STRUCTURE or i.opcode in _MOVEMENT:
        return YES
    if i.opcode in ("while", "conditional", "call", "fusion"):
        return _whole_program(i)
    rule = _RULES.get(i.opcode)
    reason = rule(i) if rule else _elementwise(i)
    return no(reason) if reason else YES


def _shape_refusal(i: HloInstruction) -> str:
    for shape in (i.shape, *(o.shape for o in i.operands)):
        for _, leaf in shape.leaves():
            if leaf.is_token:
                continue
            if not leaf.is_array or type_number(leaf.element_type) is None:
                return f"{leaf.element_type} is not in hardware"
            if leaf.is_dynamic:
                return "a dynamic dimension must be padded away first"
            if leaf.size > MAX_ELEMENTS or leaf.nbytes > MAX_BYTES:
                return f"{leaf} is larger than the device's memory"
    return ""


def _whole_program(i: HloInstruction) -> Support:
    for computation in i.called:
        for inner in computation.instructions:
            answer = npu_supports(inner)
            if not answer:
                return no(f"{inner.name} within it: {answer.reason}")
    return YES


def _elementwise(i: HloInstruction) -> str:
    if not i.op.elementwise:
        return f"no kernel for {i.opcode}"
    return elementwise_refusal(i)


def _bitcast_convert(i: HloInstruction) -> str:
    source, target = i.operands[0].shape.element_type, i.shape.element_type
    if PRED in (source, target) and source is not target:
        return f"no bitcast between {source.name} and {target.name}, whose widths differ"
    return ""


def _bitcast(i: HloInstruction) -> str:
    source = i.operands[0].shape
    plain = all(s == s.without_layout().with_default_layout() or s == s.without_layout()
                for s in (source, i.shape))  # fmt: skip
    return _bitcast_convert(i) if plain else "no bitcast between layouts"


def _scalar_computation(computation: HloComputation) -> str:
    """Why a reducer cannot be applied to tiles; empty if it can."""
    for inner in computation.instructions:
        if inner.opcode in ("parameter", "tuple"):
            continue
        if not inner.shape.is_array or inner.shape.size != 1:
            return f"{inner.name} in {computation.name} is no scalar"
        if inner.opcode in ("constant", "reshape", "broadcast"):
            continue
        if type_number(inner.shape.element_type) is None:
            return f"{inner.name} in {computation.name} is {inner.shape.element_type}"
        reason = _elementwise(inner)
        if reason:
            return f"{reason}, which {computation.name} needs"
    return ""


def _reduce(i: HloInstruction) -> str:
    return _scalar_computation(i["to_apply"])


def _reduce_window(i: HloInstruction) -> str:
    if len(i.operands) != 2:
        return "reduce-window of several arrays"
    count = 1
    for w in i["window"]:
        count *= w.size
    if count > MAX_WINDOW:
        return f"a window of {count} elements is larger than {MAX_WINDOW}"
    return _scalar_computation(i["to_apply"])


def _scatter(i: HloInstruction) -> str:
    if len(i.operands) != 3:
        return "scatter of several arrays"
    if not is_known_combiner(i):
        return "the DMA engine combines by add, multiply, maximum and minimum only"
    return ""


def _dot(i: HloInstruction) -> str:
    if len(i.operands) != 2:
        return "sparse dot"
    for o in i.operands:
        if o.shape.element_type.name in ("u32",) and i.shape.element_type.is_float:
            return "dot of u32 into floats"
    return ""


def _convolution(i: HloInstruction) -> str:
    if i.operands[0].shape.element_type.name == "pred":
        return "convolution of pred"
    return _dot(i)


_RULES: Mapping[str, Callable[[HloInstruction], str]] = MappingProxyType(
    {
        "bitcast": _bitcast,
        "bitcast-convert": _bitcast_convert,
        "reduce": _reduce,
        "reduce-window": _reduce_window,
        "scatter": _scatter,
        "dot": _dot,
        "convolution": _convolution,
    }
)
"""Why not, by opcode; empty for yes."""
