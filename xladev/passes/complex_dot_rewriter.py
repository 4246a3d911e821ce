"""Complex dot rewriter: products of complex numbers as products or sums of real numbers."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xladev.hlo.attributes import SliceDim
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.ops.contraction_rules import DotDims
from xladev.passes import pattern as m
from xladev.passes.pass_ import HloModulePass
from xladev.passes.rewrite import Rewriter, RewriteRule, RuleSet, rewrite


def _is_complex(dot: HloInstruction) -> bool:
    types = {value.shape.element_type for value in (dot, *dot.operands)}
    return len(dot.operands) == 2 and len(types) == 1 and dot.shape.element_type.is_complex


def _rule(least_products: int, least_row: int) -> RewriteRule:
    @rewrite(m.Opcode("dot").where(_is_complex, "a dense dot of complex numbers"))
    def rewrite_complex_dot(r: Rewriter, root: HloInstruction) -> HloInstruction | None:
        """[x, -y; y, x] . [u; v] = [xu - yv; yu + xv], of (x + iy) . (u + iv)."""
        dims, shapes = DotDims.of(root), [o.shape for o in root.operands]
        contracting = (dims.lhs_contracting, dims.rhs_contracting)
        free = (dims.lhs_free(shapes[0].rank), dims.rhs_free(shapes[1].rank))
        rows, columns = (
            prod(shape.dims[d] for d in kept) for shape, kept in zip(shapes, free, strict=True)
        )
        if not contracting[0] or not root.shape.size:
            return None
        depth = prod(shapes[0].dims[d] for d in contracting[0])
        if root.shape.size * depth < least_products:
            return None
        if min(rows, columns) < 2:
            is_left = columns < 2
            last = shapes[0 if is_left else 1].rank - 1
            is_row = last in contracting[0 if is_left else 1]
            if is_row and depth < least_row:
                return None
            return _by_vector(r, root, is_left=is_left)
        doubled = 0 if rows <= columns else 1
        factors = [_along(r, x, c[0]) for x, c in zip(root.operands, contracting, strict=True)]
        along = free[doubled][0]
        factors[doubled] = _twice(r, root.operands[doubled], contracting[doubled][0], along)
        product = r.op("dot", *factors, **root.attrs)
        first = len(dims.lhs_batch) + (len(free[0]) if doubled else 0)
        return r.op("complex", *_halves(r, product, first))

    return rewrite_complex_dot


def _by_vector(r: Rewriter, root: HloInstruction, *, is_left: bool) -> HloInstruction:
    """Two sums of products with a vector, of real numbers: real(d) and imag(d), d = sum(x * v)."""
    dims, (lhs, rhs) = DotDims.of(root), root.operands
    matrix, vector = (lhs, rhs) if is_left else (rhs, lhs)
    left = (*dims.lhs_batch, *dims.lhs_contracting)
    right = (*dims.rhs_batch, *dims.rhs_contracting)
    pairs = sorted(zip(left, right, strict=True) if is_left else zip(right, left, strict=True))
    single = [d for d in range(vector.shape.rank) if d not in {y for _, y in pairs}]
    turned = r.transpose(vector, (*(y for _, y in pairs), *single))
    kept = r.reshape(turned, [vector.shape.dims[y] for _, y in pairs])
    spread = [
        r.broadcast(r.op(part, kept), matrix.shape.dims, [x for x, _ in pairs])
        for part in ("real", "imag")
    ]
    x, y = r.op("real", matrix), r.op("imag", matrix)
    u, v = spread
    summed = dims.lhs_contracting if is_left else dims.rhs_contracting
    batch = dims.lhs_batch if is_left else dims.rhs_batch
    sums = [
        r.reduce(r.op(opcode, r.multiply(x, one), r.multiply(y, other)), sorted(summed))
        for opcode, one, other in (("subtract", u, v), ("add", v, u))
    ]
    left_over = [d for d in range(matrix.shape.rank) if d not in summed]
    order = [*batch, *(d for d in left_over if d not in batch)]
    found = r.op("complex", *(r.transpose(s, [left_over.index(d) for d in order]) for s in sums))
    return r.reshape(found, root.shape.dims)


def _along(r: Rewriter, x: HloInstruction, dimension: int) -> HloInstruction:
    """Real parts, and imaginary parts behind them."""
    return r.op("concatenate", r.op("real", x), r.op("imag", x), dimensions=(dimension,))


def _twice(r: Rewriter, x: HloInstruction, dimension: int, along: int) -> HloInstruction:
    """What makes real parts of the result, and what makes imaginary ones behind it."""
    real, imag = r.op("real", x), r.op("imag", x)
    first = r.op("concatenate", real, r.op("negate", imag), dimensions=(dimension,))
    second = r.op("concatenate", imag, real, dimensions=(dimension,))
    return r.op("concatenate", first, second, dimensions=(along,))


def _halves(
    r: Rewriter, x: HloInstruction, dimension: int
) -> tuple[HloInstruction, HloInstruction]:
    spans = [SliceDim(0, size) for size in x.shape.dims]
    half = x.shape.dims[dimension] // 2
    made = []
    for start in (0, half):
        spans[dimension] = SliceDim(start, start + half)
        made.append(r.op("slice", x, slice=tuple(spans)))
    return made[0], made[1]


@dataclass(frozen=True, slots=True)
class ComplexDotRewriter(HloModulePass):
    """Computes products of complex numbers by one product of real numbers each, or by two sums.

    For backends whose products of real numbers are fast, or are all they have. The smaller operand
    takes twice its memory meanwhile, the other one as much again as it has.

    A matrix times a vector becomes two sums of elementwise products, which read the matrix as it
    is: its parts would be written and read for one use.

    Attributes:
        least_products: a dot with fewer multiplications of complex numbers stays.
        least_row: so does a matrix times a vector whose sums go along rows of fewer elements.
    """

    name = "complex-dot-rewriter"
    only_for = frozenset({"dot"})
    least_products: int = 0
    least_row: int = 0

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        return RuleSet([_rule(self.least_products, self.least_row)], only_static=True).run(module)
