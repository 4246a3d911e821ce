"""Weights of few bits whose numbers are looked up in a table, made once for each group.

Where all but a weight's own bits is the same for neighbours along the depth, such as a scale, those
neighbours have as many numbers as their bits have patterns. What makes a number of its bits may be
anything then: each number of the table is rounded as the program says.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod

from xladev.codegen.elemental.pieces import WORD_NBITS
from xladev.codegen.elemental.vectors import VectorEmitter
from xladev.codegen.index import Index
from xladev.codegen.llvm import integer
from xladev.codegen.scalar.elements import Element, splat
from xladev.codegen.scalar.storage import from_bits
from xladev.hlo import dtype as dt
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.contraction_rules import DotDims
from xladev.platforms.cpu.codegen.build import KernelBuild
from xladev.platforms.cpu.codegen.products.narrow_weights import NarrowWeights

LANES = 16
"""Numbers of a table."""
MOST_NBITS = 4
"""Bits of a weight, so that there are no more patterns than numbers."""
_MOST_NBYTES = 64
"""Bytes of weights that are looked up in one table at once: a vector."""


@dataclass(frozen=True, slots=True)
class WeightTables:
    """How the right operand of a dot is looked up.

    Attributes:
        code: the `bitcast-convert` that takes weights of few bits out of wider elements.
        chunk: neighbours along the depth that are looked up at once; a power of two, of which
            all have the same table.
        is_reversed: true if the first weight of a wider element has its highest bits.
    """

    code: HloInstruction
    chunk: int
    is_reversed: bool = False

    @property
    def bits(self) -> int:
        """Of a weight."""
        return self.code.shape.element_type.bits

    @property
    def per_word(self) -> int:
        """Weights in a word of 32 bits."""
        return WORD_NBITS // self.bits

    @property
    def words(self) -> int:
        """Words of a chunk."""
        return self.chunk // self.per_word

    def place(self, number: int) -> int:
        """Where in a word a weight is, in bits, of those in the order along the depth."""
        element, piece = divmod(number, self.per_element)
        piece = self.per_element - 1 - piece if self.is_reversed else piece
        return (element * self.per_element + piece) * self.bits

    @property
    def source(self) -> HloInstruction:
        """What has the wider elements."""
        return self.code.operands[0]

    @property
    def per_element(self) -> int:
        """Weights in an element of these."""
        return self.source.shape.element_type.bits // self.bits


def tables_of(plan: NarrowWeights) -> WeightTables | None:
    """How the weights of a dot are looked up; None if they are not."""
    operand, depth = plan.dot.operands[1], plan.matrices.left.depth
    if not plan.is_along_depth or plan.matrices.total is not dt.F32 or not _is_in_order(plan.dot):
        return None
    codes: set[tuple[HloInstruction, bool]] = set()
    same = gcd(_same_neighbours(operand, codes, {}), depth)
    if len(codes) != 1:
        return None
    ((code, is_reversed),) = codes
    bits, wide = code.shape.element_type.bits, code.operands[0].shape.element_type
    chunk = min(same & -same, _MOST_NBYTES * 8 // bits)
    if same == depth:  # what is left of a column at its end is made one by one
        chunk = max(chunk, min(_MOST_NBYTES * 8 // bits, 1 << depth.bit_length() - 1))
    per_element = wide.bits // bits
    if depth % per_element or chunk < max(LANES, 2 * per_element, 2 * WORD_NBITS // bits):
        return None
    return WeightTables(code, chunk, is_reversed)


def _is_in_order(dot: HloInstruction) -> bool:
    """True if the right operand's dimensions are those of batches, free ones, and summed ones."""
    shape, dims = dot.operands[1].shape, DotDims.of(dot)
    ours = (*dims.rhs_batch, *dims.rhs_free(shape.rank), *dims.rhs_contracting)
    is_row_major = shape.minor_to_major == tuple(range(shape.rank - 1, -1, -1))
    return is_row_major and ours == tuple(range(shape.rank))


def _same_neighbours(
    value: HloInstruction,
    codes: set[tuple[HloInstruction, bool]],
    known: dict[HloInstruction, int],
) -> int:
    """How many neighbours in row-major order have all but their own bits in common.

    Those that begin at multiples of the number; 0 is any number. Collects what has the bits, and
    looks at each value once.
    """
    if value not in known:
        known[value] = _same_neighbours_of(value, codes, known)
    return known[value]


def _same_neighbours_of(
    value: HloInstruction,
    codes: set[tuple[HloInstruction, bool]],
    known: dict[HloInstruction, int],
) -> int:
    shape = value.shape
    if shape.is_scalar:
        return 0
    is_reversed = value.opcode == "reverse" and value["dimensions"] == (shape.rank - 1,)
    code = value.operands[0] if is_reversed else value
    if _is_code(code):
        codes.add((code, is_reversed))
        return 0
    if value.opcode == "broadcast":
        last = max((d for d in value["dimensions"] if shape.dims[d] > 1), default=-1)
        return prod(shape.dims[last + 1 :])
    if value.opcode in ("reshape", "copy"):
        return _same_neighbours(value.operands[0], codes, known)
    if not value.op.elementwise or value.opcode == "parameter":
        return 1
    return gcd(*(_same_neighbours(o, codes, known) for o in value.operands))


def _is_code(value: HloInstruction) -> bool:
    if value.opcode != "bitcast-convert":
        return False
    wide, kept = value.operands[0].shape.element_type, value.shape.element_type
    return kept.bits in (2, MOST_NBITS) and kept.bits < wide.bits <= WORD_NBITS


class TableEmitter(VectorEmitter):
    """The numbers of all patterns of bits, one in each lane, at the index of any of a chunk.

    Args:
        k: the kernel.
        tables: what is looked up.
    """

    def __init__(self, k: KernelBuild, tables: WeightTables) -> None:
        super().__init__(k.e, LANES, k.e.rules)
        self._code, self._bits = tables.code, tables.bits
        self._of_code = {tables.code: True}

    def _emit(self, instruction: HloInstruction, index: Index) -> Element:
        if instruction is self._code:
            numbers = self.b.lane_numbers(self.lanes)
            patterns = self.b.resize(numbers, integer(self._bits), signed=False)
            return from_bits(self.b, patterns, instruction.shape.element_type)
        if not self._is_of_code(instruction):
            return splat(self.b, self.single_emitter.element(instruction, index), self.lanes)
        rule = self.rules.get(instruction.opcode)
        return rule(self, instruction, index) if rule else self._elementwise(instruction, index)

    def _is_of_code(self, value: HloInstruction) -> bool:
        if value not in self._of_code:
            is_made = value not in self.arrays
            self._of_code[value] = is_made and any(self._is_of_code(o) for o in value.operands)
        return self._of_code[value]
