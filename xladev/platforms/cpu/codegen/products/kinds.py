"""What distinguishes one set of product functions from another: types and the target's vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from xladev.codegen.llvm import FunctionBuilder, IrType, TargetTraits, Value, vector
from xladev.codegen.scalar.convert import emit_convert
from xladev.codegen.scalar.elements import compute_type, real_of
from xladev.codegen.scalar.storage import decode_stored, storage_type
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType
from xladev.platforms.cpu.codegen.products.bfloat_products import (
    multiply_add_exact_pairs,
    multiply_add_pairs,
    spread_pair,
)
from xladev.platforms.cpu.codegen.products.byte_products import multiply_add_quads, spread_quad
from xladev.platforms.cpu.codegen.tactics import Tactic

WIDEST_NBYTES = 64
"""Bytes of the longest vectors that tiles are made of."""
CACHE_LINE_NBYTES = 64
VECTORS = 2
"""Vectors of columns in a tile."""
PANEL_NBYTES = 32 << 10
"""Bytes of a panel of packed columns: as much as stays in the L1 cache, or comes from the next
one faster than it is used."""
EDGED_PANEL_NBYTES = 64 << 10
"""Likewise for windows that see padding, whose tiles take longer to begin and to end."""


def vector_length(nbytes: int, total: PrimitiveType) -> int:
    """Bytes of the vectors of sums, on a machine whose own have ``nbytes``; at least one sum."""
    return max(min(nbytes, WIDEST_NBYTES), total.host_nbytes)


class ReductionStep(Enum):
    """What of a row is multiplied at once: neighbours in memory, summed in one lane."""

    ELEMENT = 1
    PAIR = 2
    """Two bf16, by an instruction that takes denormals for zeros."""
    EXACT_PAIR = -2
    """The same sums of the same packed columns, denormals included."""
    QUAD = 4
    """Four bytes."""

    @property
    def elements(self) -> int:
        """How many elements of a row."""
        return abs(self.value)

    @property
    def packed_name(self) -> str:
        """Distinguishes how columns are packed."""
        return ("", "", ".pairs", "", ".quads")[self.elements]


@dataclass(frozen=True, slots=True)
class ProductKind:
    """A set of functions that compute products.

    Attributes:
        left: type of the elements of the rows, as they are in memory.
        right: likewise of the columns.
        total: type of the sums.
        nbytes: length of a vector.
        step: what of a row is multiplied at once.
        tile: rows and vectors of a tile; None for those that fill the registers.
        panel_nbytes: of a panel of packed columns.
        has_edges: true if tables say where the rows of a tile see padding; see `WindowKind`.
    """

    left: PrimitiveType
    right: PrimitiveType
    total: PrimitiveType
    nbytes: int
    step: ReductionStep = ReductionStep.ELEMENT
    tile: tuple[int, int] | None = None
    panel_nbytes: int = PANEL_NBYTES
    has_edges: bool = False

    @staticmethod
    def of(
        target: TargetTraits, left: PrimitiveType, right: PrimitiveType, total: PrimitiveType
    ) -> ProductKind:
        """The one for a target."""
        return ProductKind(left, right, total, vector_length(target.vector_nbytes, total))

    def in_quads(self, target: TargetTraits) -> ProductKind | None:
        """The same with four bytes a step; None if there is no instruction for that."""
        types = (self.left, self.right, self.total)
        if types != (dt.S8, dt.S8, dt.S32) or not target.has_byte_products:
            return None
        return replace(self, step=ReductionStep.QUAD) if self.nbytes == WIDEST_NBYTES else None

    def in_pairs(self, target: TargetTraits) -> ProductKind | None:
        """The same with two bf16 a step; None if there is no instruction for that."""
        types = (self.left, self.right, self.total)
        if types != (dt.BF16, dt.BF16, dt.F32) or not target.has_bfloat_products:
            return None
        return replace(self, step=ReductionStep.PAIR) if self.nbytes == WIDEST_NBYTES else None

    def by(self, tactic: Tactic) -> ProductKind:
        """The same with the tile and the panel that a tactic wants."""
        panel_nbytes = tactic.panel_nbytes or self.panel_nbytes
        return replace(self, tile=tactic.tile or self.tile, panel_nbytes=panel_nbytes)

    def with_edges(self, in_sevens: bool, panel_nbytes: int = EDGED_PANEL_NBYTES) -> ProductKind:
        """The same for windows that see padding, in tiles of 7 rows where 8 fit the registers."""
        has_eights = self.tile is None and self.rows == 8
        tile = (7, self.vectors) if in_sevens and has_eights else self.tile
        return replace(self, has_edges=True, tile=tile, panel_nbytes=panel_nbytes)

    @property
    def exact(self) -> ProductKind:
        """For pairs, the kind whose functions keep denormals."""
        return replace(self, step=ReductionStep.EXACT_PAIR)

    @property
    def has_quads(self) -> bool:
        """True if a step is four bytes."""
        return self.step is ReductionStep.QUAD

    @property
    def has_pairs(self) -> bool:
        """True if a step is two bf16."""
        return self.step.elements == ReductionStep.PAIR.elements

    def name(self, what: str) -> str:
        """Name of a function of this kind."""
        exact = ".exact" if self.step is ReductionStep.EXACT_PAIR else ""
        edges = ".edges" if self.has_edges else ""
        return f"{self.packed_name(what)}{exact}{edges}{self._chosen_name}"

    @property
    def _chosen_name(self) -> str:
        """Distinguishes tiles that a tactic wants; those of this module have none."""
        return "" if self.tile is None else f".{self.rows}x{self.vectors}"

    def packed_name(self, what: str) -> str:
        """Name of a function that sees packed columns only."""
        types = f"{self.left.name}.{self.right.name}.{self.total.name}"
        return f"{what}.{types}.{self.nbytes}{self.step.packed_name}"

    @property
    def size(self) -> int:
        """Bytes of a sum."""
        return self.total.host_nbytes

    @property
    def lanes(self) -> int:
        """Sums in a vector."""
        return max(self.nbytes // self.size, 1)

    @property
    def has_halves(self) -> bool:
        """True if the last vector of a tile may be half as long: it then takes half the time."""
        return (
            self.nbytes == WIDEST_NBYTES and self.step is ReductionStep.ELEMENT and self.size == 4
        )

    @property
    def half(self) -> IrType:
        """Half a vector of sums."""
        return vector(self.element, self.lanes // 2)

    @property
    def width(self) -> int:
        """Columns of a tile."""
        return self.vectors * self.lanes

    @property
    def vectors(self) -> int:
        """Vectors of columns in a tile."""
        return VECTORS if self.tile is None else self.tile[1]

    @property
    def rows(self) -> int:
        """Rows of a tile: with 64-byte vectors, 16 registers of 32 hold sums; else 12 of 16."""
        if self.tile is not None:
            return self.tile[0]
        return 8 if self.nbytes == WIDEST_NBYTES else 6

    @property
    def depth(self) -> int:
        """Rows of a packed panel; another one, that comes first in panels of quads, apart."""
        return self.panel_nbytes // (self.width * self.size) - self.has_quads

    @property
    def keeps_columns(self) -> bool:
        """True if packed columns are the elements as they are in memory, and nothing else."""
        return self.has_pairs or (self.right is self.total and not self.has_quads)

    @property
    def element(self) -> IrType:
        """One sum."""
        return compute_type(self.total)

    @property
    def vector(self) -> IrType:
        """A vector of sums."""
        return vector(self.element, self.lanes)

    def read(self, b: FunctionBuilder, address: Value, dtype: PrimitiveType, lanes: int) -> Value:
        """``lanes`` neighbours in memory, in the type of the sums."""
        loaded = b.load(vector(storage_type(dtype), lanes), address)
        return self._converted(b, loaded, dtype)

    def spread(self, b: FunctionBuilder, address: Value) -> Value:
        """One element of a row in all lanes: spread as it is in memory, and then converted."""
        if self.has_quads:
            return spread_quad(b, address)
        if self.has_pairs:
            return spread_pair(b, address)
        loaded = b.load(storage_type(self.left), address)
        return self._converted(b, b.splat(loaded, self.lanes), self.left)

    def _converted(self, b: FunctionBuilder, loaded: Value, dtype: PrimitiveType) -> Value:
        value = decode_stored(b, loaded, dtype)
        if dtype is not self.total:
            value = real_of(emit_convert(b, value, dtype, self.total), "a product")
        return value

    def multiply_add(self, b: FunctionBuilder, left: Value, right: Value, total: Value) -> Value:
        """The sum with one more product, which is not rounded where the processor can do that."""
        special = _MULTIPLY_ADD.get(self.step)
        if special is not None:
            return special(b, left, right, total)
        if self.element.is_float:
            return b.multiply_add(left, right, total)
        return b.add(total, b.mul(left, right))


_MULTIPLY_ADD = {
    ReductionStep.PAIR: multiply_add_pairs,
    ReductionStep.EXACT_PAIR: multiply_add_exact_pairs,
    ReductionStep.QUAD: multiply_add_quads,
}
