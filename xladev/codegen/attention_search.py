"""Finds attention in a computation, however it is written (`attention`).

Reshapes and transposes may stand anywhere, so heads may be outside or inside, come in groups that
share keys and values, and either operand of a product may be the one with the queries. What is
found does not say how to compute it: backends take those that their kernels can, and say why not
the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xladev.codegen.attention import Attention, Values
from xladev.codegen.axes import Axes, Dims
from xladev.codegen.matrices import Side, merged_dims
from xladev.codegen.softmax import Softmax, softmax_of
from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.contraction_rules import DotDims

_VIEWS = frozenset({"reshape", "transpose"})


@dataclass(frozen=True, slots=True)
class NotTaken:
    """A softmax between two products that is no attention a kernel could be of.

    Attributes:
        reason: as a clause without a full stop.
    """

    reason: str


class _Stop(Exception):
    """Ends the search; its text is the reason."""


def attention_of(root: HloInstruction) -> Attention | None:
    """The attention that a kernel of this root computes; None if it computes none."""
    found = find_attention(root)
    return found if isinstance(found, Attention) else None


def attention_in_kernel(root: HloInstruction) -> Attention | None:
    """The attention of a kernel with this root, whose operands are in memory; None for another."""
    found = attention_of(root)
    if found is None or any(o.opcode != "parameter" for o in found.operands):
        return None
    return found


def find_attention(root: HloInstruction) -> Attention | NotTaken | None:
    """The attention of a root, why it is none though it looks like one, or None."""
    if root.opcode not in ("dot", "transpose"):
        return None
    *views, last = _through_views(root)
    if last.opcode != "dot" or len(last.operands) != 2:
        return None
    for number in (0, 1):
        softmax = softmax_of(last.operands[number])
        if softmax is None:
            continue
        try:
            return _Search(views, last, number, softmax).attention()
        except _Stop as stop:
            return NotTaken(str(stop))
    return None


def _through_views(i: HloInstruction) -> list[HloInstruction]:
    """An instruction, what it is a view of, and so on."""
    found = [i]
    while found[-1].opcode in _VIEWS:
        found.append(found[-1].operands[0])
    return found


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand of a dot, and the numbers of its dimensions by what the dot does with them."""

    array: HloInstruction
    batch: tuple[int, ...]
    summed: tuple[int, ...]
    kept: tuple[int, ...]

    def dims(self, batch: Dims, kept: Dims) -> Dims:
        """Its dimensions, by the axes that the result has for them; none for what is summed."""
        found: list[tuple[int, ...]] = [()] * self.array.shape.rank
        for d, axes in zip((*self.batch, *self.kept), (*batch, *kept), strict=True):
            found[d] = axes
        return tuple(found)


def _operands(dot: HloInstruction) -> tuple[_Operand, _Operand]:
    dims, (left, right) = DotDims.of(dot), dot.operands
    lhs, rhs = dims.lhs_free(left.shape.rank), dims.rhs_free(right.shape.rank)
    return (
        _Operand(left, dims.lhs_batch, dims.lhs_contracting, lhs),
        _Operand(right, dims.rhs_batch, dims.rhs_contracting, rhs),
    )


def _picked(dims: Dims, numbers: Sequence[int]) -> Dims:
    return tuple(dims[n] for n in numbers)


class _Search:
    """Reads the axes of an attention, from the product up to the root."""

    def __init__(
        self, views: Sequence[HloInstruction], last: HloInstruction, number: int, softmax: Softmax
    ) -> None:
        self.views, self.last, self.softmax, self.axes = views, last, softmax, Axes()
        both = _operands(last)
        self.weights, self.values = both[number], both[1 - number]
        self.values_number = 1 - number
        self.product = _product_of(softmax.scores)
        self.read: dict[HloInstruction, Dims] = {}
        self.reduced: set[tuple[int, ...]] = set()
        self.apart: set[HloInstruction] = set()

    def attention(self) -> Attention:
        """All parts.

        Raises:
            _Stop: it is none.
        """
        product, axes = self.product, self.axes
        if not all(i.shape.size for i in (product, self.last, *product.operands)):
            raise _Stop("it has no elements")
        dims = tuple(axes.added(n) for n in product.shape.dims)
        self._read(dims)
        weights = self.read[self.weights.array]
        columns = tuple(axes.added(self.values.array.shape.dims[d]) for d in self.values.kept)
        root, root_dims = self._root(weights, columns)
        count = len(product["lhs_batch_dims"])
        both = _operands(product)
        cut = count + len(both[0].kept)
        sides = (dims[count:cut], dims[cut:])
        number, keys = self._keys(sides)
        if self._flat(_picked(weights, self.weights.summed)) != keys:
            raise _Stop("the last product does not sum over what the softmax is over")
        row = self._row(self._flat(sides[number]), self._flat(_picked(weights, self.weights.kept)))
        every = self._flat(dims)
        if sorted(self._flat(weights)) != sorted(every):
            raise _Stop("the last product takes other weights than there are scores")
        batch = tuple(a for a in every if a != row and a not in keys)
        queries, others = (both[n].dims(dims[:count], sides[n]) for n in (number, 1 - number))
        strides = axes.strides(root_dims, root.shape)
        value_dims = self.values.dims(_picked(weights, self.weights.batch), columns)
        merged = self._flat(columns)
        result = (
            tuple(strides[a] for a in batch),
            strides[row],
            self._merged(merged, strides, "a result"),
        )
        return Attention(
            root=root,
            last=self.last,
            product=product,
            softmax=self.softmax,
            factor=_factor_of(self.softmax.scores, product),
            queries=self._side(both[number], queries, batch, (row,), "queries"),
            keys=self._side(both[1 - number], others, batch, keys, "keys"),
            number=number,
            values=Values(
                self._side(self.values, value_dims, batch, merged, "values"),
                self.values_number,
                result,
            ),
            batch=tuple(axes.size(a) for a in batch),
            score_axes=self._score_axes(batch, row, keys),
            within=frozenset({*self.views, self.last, *self.softmax.within, *self.read}),
        )

    def _flat(self, dims: Sequence[Sequence[int]]) -> tuple[int, ...]:
        return tuple(a for each in dims for a in self.axes.expanded(each))

    # From the product to the weights

    def _read(self, product_dims: Dims) -> None:
        """The dimensions of all instructions from the product to the weights."""
        self.read[self.product] = product_dims
        seen, pending = {self.product}, [(self.weights.array, False)]
        while pending:
            i, is_ready = pending.pop()
            if i in seen:
                continue
            if not is_ready:
                pending += ((i, True), *((o, False) for o in self._followed(i)))
                continue
            seen.add(i)
            found = self._dims_of(i)
            if found is not None:
                self.read[i] = found

    def _followed(self, i: HloInstruction) -> Sequence[HloInstruction]:
        """Operands whose elements go where those of an instruction are."""
        if i.opcode == "reduce" and i in self.softmax.within:
            return i.operands[:1]
        if i.op.elementwise or i.opcode in _VIEWS or i in self.softmax.within:
            return i.operands
        if self._descends(i):
            raise _Stop(f"{i.name} uses products of other queries and keys than its own")
        return ()

    def _descends(self, i: HloInstruction) -> bool:
        """Whether an instruction is computed from the product."""
        pending = [i]
        while pending:
            i = pending.pop()
            if i is self.product:
                return True
            if i not in self.apart:
                self.apart.add(i)
                pending += i.operands
        return False

    def _dims_of(self, i: HloInstruction) -> Dims | None:
        """The axes of an instruction's dimensions; None if no product is in it."""
        own = [self.read[o] for o in i.operands if o in self.read]
        if not own:
            return None
        first = own[0]
        match i.opcode:
            case "reshape" | "transpose":
                return self._viewed(first, i)
            case "broadcast":
                found = [self.axes.added(n, loose=True) for n in i.shape.dims]
                for d, axes in zip(i["dimensions"], first, strict=True):
                    found[d] = axes
                return tuple(found)
            case "reduce":
                self.reduced.add(tuple(a for d in i["dimensions"] for a in first[d]))
                return tuple(a for d, a in enumerate(first) if d not in i["dimensions"])
        for other in own[1:]:
            united = self.axes.united(first, other)
            if united is None:
                raise _Stop(f"{i.name} combines scores of other queries and keys")
            first = united
        return first

    def _viewed(self, dims: Dims, view: HloInstruction) -> Dims:
        if view.opcode == "transpose":
            return _picked(dims, view["dimensions"])
        found = self.axes.reshaped(dims, view.shape.dims)
        if found is None:
            raise _Stop(f"{view.name} cuts across dimensions")
        return found

    # What the axes are

    def _root(
        self, weights: Dims, columns: Sequence[tuple[int, ...]]
    ) -> tuple[HloInstruction, Dims]:
        """The root, and its dimensions."""
        sides = [_picked(weights, self.weights.kept), columns]
        left, right = sides if self.values_number else sides[::-1]
        i, dims = self.last, (*_picked(weights, self.weights.batch), *left, *right)
        for view in reversed(self.views):
            i, dims = view, self._viewed(dims, view)
        return i, dims

    def _keys(self, sides: tuple[Dims, Dims]) -> tuple[int, tuple[int, ...]]:
        """Which operand of the product the queries are, and the axes of the keys."""
        reduced = {tuple(sorted(self.axes.expanded(axes))) for axes in self.reduced}
        if len(reduced) == 1 and reduced != {()}:
            (wanted,) = reduced
            for number in (0, 1):
                keys = self._flat(sides[1 - number])
                if tuple(sorted(keys)) == wanted:
                    return number, keys
        raise _Stop("the softmax is not over the keys")

    def _row(self, queries: tuple[int, ...], kept: tuple[int, ...]) -> int:
        """The axis that rows of a kernel go along: the largest of those that share values."""
        found = [a for a in queries if a in kept]
        if not found:
            raise _Stop("there is one query for all keys, or values for each query")
        return max(found, key=self.axes.size)

    def _side(
        self,
        operand: _Operand,
        dims: Dims,
        batch: Sequence[int],
        free: Sequence[int],
        name: str,
    ) -> Side:
        shape = operand.array.shape
        strides, summed = self.axes.strides(dims, shape), merged_dims(shape, operand.summed)
        if summed is None:
            raise _Stop(f"{name} are summed over dimensions that are not contiguous")
        extent = prod(self.axes.size(a) for a in free)
        line = self._merged(free, strides, name)
        return Side(tuple(strides.get(a, 0) for a in batch), line, extent, *summed)

    def _merged(self, axes: Sequence[int], strides: Mapping[int, int], name: str) -> int:
        """The stride of axes that are gone through as one."""
        step, size = 1, 1
        for axis in reversed(axes):
            if size == 1:
                step = strides[axis]
            elif strides[axis] != step * size:
                raise _Stop(f"{name} are not contiguous in memory")
            size *= self.axes.size(axis)
        return step

    def _score_axes(
        self, batch: Sequence[int], row: int, keys: Sequence[int]
    ) -> tuple[tuple[int, ...], ...]:
        if len(keys) > 1:
            raise _Stop("keys have several dimensions")
        places = {axis: n for n, axis in enumerate((*batch, row, *keys))}
        dims = self.read[self.softmax.scores]
        return tuple(tuple(places[a] for a in self.axes.expanded(each)) for each in dims)


def _product_of(scores: HloInstruction) -> HloInstruction:
    """The one product that scores are computed from, element by element."""
    found = [i for i in _computed_from(scores) if i.opcode == "dot"]
    if len(found) != 1:
        raise _Stop(f"scores are computed from {len(found) or 'no'} products")
    return found[0]


def _computed_from(scores: HloInstruction) -> Iterator[HloInstruction]:
    """Instructions with an element for each score that scores are computed from."""
    seen, pending = {scores}, [scores]
    while pending:
        i = pending.pop()
        yield i
        if not i.op.elementwise and i.opcode not in _VIEWS:
            continue
        for operand in i.operands:
            if operand not in seen and operand.shape.size == scores.shape.size:
                seen.add(operand)
                pending.append(operand)


def _factor_of(scores: HloInstruction, product: HloInstruction) -> float | None:
    """What scores are the product times, if that is a positive constant."""
    if scores is product:
        return 1.0
    if scores.opcode != "multiply":
        return None
    for one, other in (scores.operands, scores.operands[::-1]):
        if _through_views(one)[-1] is product and other.opcode == "broadcast":
            scalar = other.operands[0]
            if scalar.opcode == "constant" and scalar.shape.is_scalar:
                factor = float(scalar["literal"].array)
                return factor if 0 < factor < float("inf") else None
    return None
