"""How long a kernel takes in one thread, by orders of magnitude: whether it is worth several."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.codegen.kernel_spec import KernelSpec
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape

NBYTES_PER_NS = 10.0
"""Bytes that one processor reads or writes, from memory or a far cache."""
PRODUCTS_PER_NS = 30.0
"""Products, and their sums, of one processor in register tiles of f32."""
SIMPLE_NS = 0.05
"""One element of an opcode that is one instruction, in vectors."""

_COPIED_NS = 0.5
"""One element that is read in one place and written in another."""

_ELEMENT_NS: Mapping[str, float] = MappingProxyType(
    {
        **dict.fromkeys(("parameter", "constant", "tuple", "bitcast", "broadcast", "iota"), 0.0),
        **dict.fromkeys(("exponential", "log", "tanh", "logistic", "erf", "rsqrt", "sqrt", "cbrt",
                         "cosine", "sine", "tan", "power", "atan2", "exponential-minus-one",
                         "log-plus-one", "divide", "remainder", "exp2", "log2", "acos", "asin",
                         "acosh", "asinh", "atanh", "cosh", "sinh"), 0.5),
        **dict.fromkeys(("gather", "dynamic-slice", "transpose", "pad", "concatenate"), _COPIED_NS),
    }
)  # fmt: skip
"""One element of the result of an opcode."""

_OPERAND_NS: Mapping[str, float] = MappingProxyType(
    {"reduce": 0.1, "map": 1.0, "sort": 50.0, "select-and-scatter": 1.0, "scatter": 0.5}
)
"""One element of the largest operand of an opcode."""


def estimated_ns(spec: KernelSpec) -> float:
    """Nanoseconds of one kernel in one thread."""
    if spec.computation.root.opcode == "dynamic-update-slice" and spec.in_place:
        return _size(spec.computation.root.operands[1].shape) * _COPIED_NS
    memory = sum(shape.nbytes for shape in (*spec.operands, *spec.results)) / NBYTES_PER_NS
    return max(memory, sum(map(_instruction_ns, spec.computation.instructions)))


def _size(shape: Shape) -> int:
    return sum(leaf.size for _, leaf in shape.leaves() if leaf.is_array)


def _instruction_ns(i: HloInstruction) -> float:
    if i.opcode in _OPERAND_NS:
        return max(_size(o.shape) for o in i.operands) * _OPERAND_NS[i.opcode]
    if i.op.cost is not None and not i.op.elementwise:
        work = i.op.cost(i.shape, tuple(o.shape for o in i.operands), i)
        return work.flops / 2 / PRODUCTS_PER_NS
    return _size(i.shape) * _ELEMENT_NS.get(i.opcode, SIMPLE_NS)
