"""batch-norm-training, -inference and -grad as sums over each feature and elementwise arithmetic.

The formulas, and the two passes for the variance, are those of `hlo/ops/normalization.py`.
"""

from __future__ import annotations

from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.passes.expansions.emit import Emitter, begin
from xladev.passes.expansions.precision import wider_float


class _Features:
    """Sums over, and broadcasts along, all dimensions but the feature's."""

    def __init__(self, e: Emitter, instruction: HloInstruction) -> None:
        operand = instruction.operands[0].shape
        self.e = e
        self.axis: int = instruction["feature_index"]
        self.dims = operand.dims
        self.others = tuple(d for d in range(operand.rank) if d != self.axis)
        self.count = operand.size // max(operand.dims[self.axis], 1)
        self.type: PrimitiveType = wider_float(operand.element_type)
        self.epsilon: float = instruction["epsilon"]

    def wide(self, x: HloInstruction) -> HloInstruction:
        return self.e.convert(x, self.type)

    def spread(self, vector: HloInstruction) -> HloInstruction:
        return self.e.broadcast(vector, self.dims, (self.axis,))

    def total(self, x: HloInstruction) -> HloInstruction:
        return self.e.reduce(x, self.others)

    def mean(self, x: HloInstruction) -> HloInstruction:
        return self.e.divide(self.total(x), float(self.count))

    def inverse_deviation(self, variance: HloInstruction) -> HloInstruction:
        return self.e.op("rsqrt", self.e.add(variance, self.epsilon))

    def normalised(
        self,
        centred: HloInstruction,
        variance: HloInstruction,
        scale: HloInstruction,
        offset: HloInstruction,
    ) -> HloInstruction:
        factor = self.e.multiply(self.inverse_deviation(variance), scale)
        return self.e.add(self.e.multiply(centred, self.spread(factor)), self.spread(offset))


def _result(e: Emitter, instruction: HloInstruction, *parts: HloInstruction) -> HloComputation:
    """The parts as a tuple, in the result's element types."""
    types = [s.element_type for s in instruction.shape.tuple_shapes]
    return e.build(e.op("tuple", *map(e.convert, parts, types)))


def expand_batch_norm_training(instruction: HloInstruction) -> HloComputation:
    """Normalised operand, mean and biased variance."""
    e, operands = begin(instruction)
    f = _Features(e, instruction)
    x, scale, offset = map(f.wide, operands)
    mean = f.mean(x)
    centred = e.subtract(x, f.spread(mean))
    variance = f.mean(e.multiply(centred, centred))
    return _result(e, instruction, f.normalised(centred, variance, scale, offset), mean, variance)


def expand_batch_norm_inference(instruction: HloInstruction) -> HloComputation:
    """Operand normalised by given mean and variance."""
    e, operands = begin(instruction)
    f = _Features(e, instruction)
    x, scale, offset, mean, variance = map(f.wide, operands)
    made = f.normalised(e.subtract(x, f.spread(mean)), variance, scale, offset)
    return e.build(e.convert(made, instruction.shape.element_type))


def expand_batch_norm_grad(instruction: HloInstruction) -> HloComputation:
    """Gradients of operand, scale and offset."""
    e, operands = begin(instruction)
    f = _Features(e, instruction)
    x, scale, mean, variance, grad = map(f.wide, operands)
    inverse = f.inverse_deviation(variance)
    centred = e.subtract(x, f.spread(mean))
    total, product = f.total(grad), f.total(e.multiply(grad, centred))
    weight = e.divide(e.multiply(e.multiply(inverse, inverse), product), float(f.count))
    rest = e.subtract(grad, f.spread(e.divide(total, float(f.count))))
    rest = e.subtract(rest, e.multiply(centred, f.spread(weight)))
    d_operand = e.multiply(rest, f.spread(e.multiply(scale, inverse)))
    return _result(e, instruction, d_operand, e.multiply(product, inverse), total)
