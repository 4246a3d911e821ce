"""Patches of a convolution's input, as the rows of a matrix product.

A custom call of `PATCHES` has the window, dimension labels and groups of its convolution, and the
dimensions group (if there are several), batch, spatial output dimensions, window dimensions,
feature. What is in the padding, or between dilated elements, is zero. Features that are side by
side are moved 16 bytes at once.
"""

from __future__ import annotations

from xladev.codegen.elemental.choose import choose_many
from xladev.codegen.elemental.emitter import ElementalEmitter
from xladev.codegen.elemental.reduction import base_index
from xladev.codegen.elemental.rules import ELEMENT_RULES
from xladev.codegen.elemental.vectors import VECTOR_RULES, VectorEmitter
from xladev.codegen.index import Index, IndexValue
from xladev.codegen.scalar.constants import constant_element
from xladev.codegen.scalar.elements import Element, splat
from xladev.errors import UnsupportedError
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.convolution_dims import ConvolutionDims

PATCHES = "xladev.cuda.patches"
"""Target of the custom call."""


def _custom_call(e: ElementalEmitter, i: HloInstruction, index: Index) -> Element:
    if i["custom_call_target"] != PATCHES:
        raise UnsupportedError(f"no kernel for custom call {i['custom_call_target']}")
    dims = ConvolutionDims.of(i)
    d, window = dims.labels, dims.window
    operand, count = i.operands[0], len(window)
    group, (batch, *positions) = (index[0], index[1:]) if dims.feature_groups > 1 else (0, index)
    spatial, at_window, feature = positions[:count], positions[count:-1], positions[-1]
    sizes = [operand.shape.dims[n] for n in d.input_spatial]
    inside, base = base_index(e, window, sizes, tuple(spatial), tuple(at_window))
    at: list[IndexValue] = [0] * operand.shape.rank
    at[d.input_batch] = batch
    at[d.input_feature] = e.at.add(e.at.mul(group, i.shape.dims[-1]), feature)
    for n, x in zip(d.input_spatial, base, strict=True):
        at[n] = x
    zero = constant_element(operand.shape.element_type, 0)
    if isinstance(e, VectorEmitter):
        zero = splat(e.b, zero, e.lanes)
    (found,) = choose_many(e, inside, lambda: (e.element(operand, tuple(at)),), lambda: (zero,))
    return found


CUDA_VECTOR_RULES = {**VECTOR_RULES, "custom-call": _custom_call}
CUDA_RULES = {**ELEMENT_RULES, "custom-call": _custom_call}
"""Code by opcode: the shared rules, and what only this platform makes."""
