"""Shapes and layouts: the type of every HLO value.

A shape is an array (element type, dimensions, layout), a tuple of shapes, a buffer around one
array, or one of the two types without data (token, opaque). Text spelling follows XLA's
``shape_util``; see `docs/reference/hlo.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import TypeVar

from xladev.errors import ShapeError
from xladev.hlo import dtype as dt
from xladev.hlo.dtype import PrimitiveType

T = TypeVar("T")
R = TypeVar("R")

UNBOUNDED = -1
"""Size of a dimension spelled ``?``: dynamic, without a bound."""

MAX_RANK = 254
MAX_TUPLE_DEPTH = 64
MAX_ELEMENTS = 2**62
"""Most elements, and bytes, that one array may have."""

ShapeIndex = tuple[int, ...]
"""Path to a part of a shape: ``()`` is all of it, ``(1, 0)`` part 0 of part 1."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile of a layout, such as ``(8,128)``; ``*`` (combine with next) is -2**63."""

    dims: tuple[int, ...]

    def __str__(self) -> str:
        return "(" + ",".join("*" if d == COMBINE_DIMENSION else str(d) for d in self.dims) + ")"


COMBINE_DIMENSION = -(2**63)


@dataclass(frozen=True, slots=True)
class SplitConfig:
    """How one dimension is split over memories: text ``SC(dimension:index,...)``."""

    dimension: int
    indices: tuple[int, ...]

    def __str__(self) -> str:
        return f"({self.dimension}:{','.join(map(str, self.indices))})"


@dataclass(frozen=True, slots=True)
class Layout:
    """How the elements of an array are laid out in memory, minor dimension first.

    Attributes follow ``LayoutProto``; all but ``minor_to_major`` are usually empty.
    """

    minor_to_major: tuple[int, ...] = ()
    dim_level_types: tuple[str, ...] = ()
    tiles: tuple[Tile, ...] = ()
    tail_padding_alignment: int = 1
    index_type: PrimitiveType | None = None
    pointer_type: PrimitiveType | None = None
    element_bits: int = 0
    memory_space: int = 0
    split_configs: tuple[SplitConfig, ...] = ()
    physical_shape: Shape | None = None
    metadata_prefix_bytes: int = 0

    def __str__(self) -> str:
        from_dims = ",".join(map(str, self.minor_to_major))
        extras = "".join(self._extras())
        return "{" + from_dims + (":" + extras if extras else "") + "}"

    def _extras(self) -> Iterator[str]:
        if self.dim_level_types:
            yield "D(" + ",".join(self.dim_level_types) + ")"
        if self.tiles:
            yield "T" + "".join(map(str, self.tiles))
        if self.tail_padding_alignment != 1:
            yield f"L({self.tail_padding_alignment})"
        if self.index_type is not None:
            yield f"#({self.index_type})"
        if self.pointer_type is not None:
            yield f"*({self.pointer_type})"
        if self.element_bits:
            yield f"E({self.element_bits})"
        if self.memory_space:
            yield f"S({self.memory_space})"
        if self.split_configs:
            yield "SC" + "".join(map(str, self.split_configs))
        if self.physical_shape is not None:
            yield f"P({self.physical_shape})"
        if self.metadata_prefix_bytes:
            yield f"M({self.metadata_prefix_bytes})"


@lru_cache(maxsize=MAX_RANK + 2)
def row_major(rank: int) -> Layout:
    """The layout whose last dimension is minor (C order)."""
    return Layout(tuple(range(rank - 1, -1, -1)))


_SCALAR_LAYOUT = Layout()


@dataclass(frozen=True, slots=True)
class Shape:
    """The type of one HLO value.

    Attributes:
        element_type: element type of an array; TUPLE, TOKEN, OPAQUE or BUFFER otherwise.
        dims: sizes of an array's dimensions, outermost first; bounds where dynamic.
        layout: how an array is laid out in memory; None means not chosen (row-major where it
            matters).
            Scalars always have a layout, as nothing is left to choose.
        dynamic: one flag per dimension, or empty when no dimension is dynamic.
        tuple_shapes: parts of a tuple; the one array inside a buffer.
    """

    element_type: PrimitiveType
    dims: tuple[int, ...] = ()
    layout: Layout | None = None
    dynamic: tuple[bool, ...] = ()
    tuple_shapes: tuple[Shape, ...] = ()

    def __post_init__(self) -> None:
        if not self.dims and self.layout is None and self.element_type.is_array:
            object.__setattr__(self, "layout", _SCALAR_LAYOUT)

    @property
    def is_array(self) -> bool:
        """True for arrays, scalars included."""
        return self.element_type.is_array

    @property
    def is_tuple(self) -> bool:
        """True for tuples, the empty one included."""
        return self.element_type is dt.TUPLE

    @property
    def is_token(self) -> bool:
        """True for tokens."""
        return self.element_type is dt.TOKEN

    @property
    def is_scalar(self) -> bool:
        """True for arrays of rank 0."""
        return self.is_array and not self.dims

    @property
    def is_dynamic(self) -> bool:
        """True if some dimension of this array is dynamic."""
        return True in self.dynamic

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dims)

    @property
    def size(self) -> int:
        """Number of elements of an array (of its bound, where dynamic)."""
        return prod(self.dims)

    @property
    def nbytes(self) -> int:
        """Bytes of an array on the host, one byte or more per element; parts summed for tuples."""
        if self.is_tuple:
            return sum(s.nbytes for s in self.tuple_shapes)
        return self.size * self.element_type.host_nbytes if self.is_array else 0

    def is_dynamic_dimension(self, dimension: int) -> bool:
        """True if that dimension is dynamic."""
        return bool(self.dynamic) and self.dynamic[dimension]

    @property
    def minor_to_major(self) -> tuple[int, ...]:
        """Dimensions from minor to major; row-major where no layout was chosen."""
        return (self.layout or row_major(self.rank)).minor_to_major

    def fits(self, dims: Sequence[int]) -> bool:
        """True if an array of these sizes is one of this shape: smaller only where dynamic."""
        return len(dims) == self.rank and all(
            n == d or (self.is_dynamic_dimension(i) and (n <= d or d == UNBOUNDED))
            for i, (n, d) in enumerate(zip(dims, self.dims, strict=True))
        )

    def with_layout(self, layout: Layout | None) -> Shape:
        """This array with another layout."""
        return Shape(self.element_type, self.dims, layout, self.dynamic, self.tuple_shapes)

    def with_element_type(self, element_type: PrimitiveType) -> Shape:
        """This array with another element type."""
        return replace(self, element_type=element_type)

    def without_layout(self) -> Shape:
        """This shape, and all its parts, with no layout chosen."""
        if self.tuple_shapes:
            return replace(self, tuple_shapes=of_each(self.tuple_shapes, Shape.without_layout))
        return self if self.layout is None else self.with_layout(None)

    def with_default_layout(self) -> Shape:
        """This shape, with row-major layouts where none was chosen."""
        if self.tuple_shapes:
            parts = of_each(self.tuple_shapes, Shape.with_default_layout)
            return replace(self, tuple_shapes=parts)
        if not self.is_array or self.layout is not None:
            return self
        return replace(self, layout=row_major(self.rank))

    def row_major(self) -> Shape:
        """This shape with every array row-major, whatever layout it had."""
        if self.tuple_shapes:
            return replace(self, tuple_shapes=of_each(self.tuple_shapes, Shape.row_major))
        return self.with_layout(row_major(self.rank)) if self.is_array else self

    def static(self) -> Shape:
        """This shape with every dynamic dimension made static at its bound."""
        if self.tuple_shapes:
            return replace(self, tuple_shapes=of_each(self.tuple_shapes, Shape.static))
        return replace(self, dynamic=()) if self.dynamic else self

    def subshape(self, index: ShapeIndex) -> Shape:
        """The part at ``index``; a ShapeError if there is none."""
        found = self
        for i in index:
            if not found.is_tuple or not 0 <= i < len(found.tuple_shapes):
                raise ShapeError(f"shape {self} has no part {list(index)}")
            found = found.tuple_shapes[i]
        return found

    def leaves(self) -> Iterator[tuple[ShapeIndex, Shape]]:
        """Yields every part that is not a tuple, with its index, in order."""
        if not self.is_tuple:
            yield (), self
            return
        for i, part in enumerate(self.tuple_shapes):
            for index, leaf in part.leaves():
                yield (i, *index), leaf

    def equal_ignoring_layout(self, other: Shape) -> bool:
        """True if both are the same type, whatever their layouts."""
        return self.without_layout() == other.without_layout()

    def __str__(self) -> str:
        return self.to_string()

    def to_string(self, *, layout: bool = True) -> str:
        """HLO text of this shape, with or without layouts."""
        if self.is_tuple:
            return (
                "(" + _join_commented(s.to_string(layout=layout) for s in self.tuple_shapes) + ")"
            )
        if self.element_type is dt.BUFFER:
            return f"b({self.tuple_shapes[0].to_string(layout=layout)})"
        if not self.is_array:
            return f"{self.element_type}[]"
        text = f"{self.element_type}[{','.join(self._dim_text(i) for i in range(self.rank))}]"
        shown = layout and self.layout is not None and (self.dims or self.layout != Layout())
        return text + str(self.layout) if shown else text

    def _dim_text(self, i: int) -> str:
        if self.dims[i] == UNBOUNDED:
            return "?"
        return ("<=" if self.is_dynamic_dimension(i) else "") + str(self.dims[i])


def _join_commented(parts: Iterator[str]) -> str:
    """Joins with commas and marks every fifth part, as XLA prints tuples."""
    texts = [f"/*index={i}*/{p}" if i and i % 5 == 0 else p for i, p in enumerate(parts)]
    return ", ".join(texts)


def array(
    element_type: PrimitiveType,
    dims: Sequence[int] = (),
    *,
    layout: Layout | None = None,
    dynamic: Sequence[bool] = (),
) -> Shape:
    """An array shape, checked.

    Raises:
        ShapeError: negative or too large sizes, rank over 254, or a layout that is no permutation.
    """
    shape = Shape(element_type, tuple(dims), layout, tuple(dynamic) if any(dynamic) else ())
    check_shape(shape)
    return shape


def tuple_of(*parts: Shape) -> Shape:
    """A tuple shape."""
    return Shape(dt.TUPLE, tuple_shapes=parts)


TOKEN_SHAPE = Shape(dt.TOKEN)
OPAQUE_SHAPE = Shape(dt.OPAQUE)


def of_each(items: Sequence[T], function: Callable[[T], R]) -> tuple[R, ...]:
    """The function of each item, computed once for an object that comes again.

    A tuple of many parts, and a program of many parameters, repeat few shapes.
    """
    if len(items) < 2:
        return tuple(map(function, items))
    found = {id(item): function(item) for item in {id(item): item for item in items}.values()}
    return tuple([found[id(item)] for item in items])


class _Same:
    """A key for one object: to hash a long tuple takes as long as to look at its parts."""

    __slots__ = ("shape",)

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    def __hash__(self) -> int:
        return id(self.shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.shape is other.shape


def once_per_shape(function: Callable[[Shape], R]) -> Callable[[Shape], R]:
    """The function of a shape; of the tuples that were asked for last, computed once.

    The parts of a tuple are asked for by instructions that are as many: without this, that would
    take the square of its length.
    """
    known = lru_cache(maxsize=256)(lambda same: function(same.shape))

    def found(shape: Shape) -> R:
        result: R = known(_Same(shape)) if shape.tuple_shapes else function(shape)
        return result

    return found


@once_per_shape
def flattened_shapes(shape: Shape) -> tuple[Shape, ...]:
    """Shapes of the arrays and tokens of a value, in order."""
    return (shape,) if not shape.is_tuple else tuple(part for _, part in shape.leaves())


@once_per_shape
def flattened_indices(shape: Shape) -> tuple[ShapeIndex, ...]:
    """Where the arrays and tokens of a value are in its tuples, in order."""
    return tuple(index for index, _ in shape.leaves())


@lru_cache(maxsize=4096)
def interned(shape: Shape) -> Shape:
    """One object for all equal shapes, unless thousands of others came between."""
    return shape


def check_shape(shape: Shape, depth: int = 0) -> None:
    """Checks one shape and its parts.

    Raises:
        ShapeError: ``shape_c1`` sizes, ``shape_c2`` rank, ``shape_c3`` layout, ``shape_c4`` depth.
    """
    if depth > MAX_TUPLE_DEPTH:
        raise ShapeError("tuple nested too deep", why=f"shape_c4: at most {MAX_TUPLE_DEPTH} levels")
    of_each(shape.tuple_shapes, lambda part: check_shape(part, depth + 1))
    if shape.is_array:
        _check_array(shape)


def _check_array(shape: Shape) -> None:
    if shape.rank > MAX_RANK:
        raise ShapeError(f"rank {shape.rank} is too high", why=f"shape_c2: at most {MAX_RANK}")
    total = shape.element_type.host_nbytes
    for i, d in enumerate(shape.dims):
        if d < 0 and not (d == UNBOUNDED and shape.is_dynamic_dimension(i)):
            raise ShapeError(f"dimension {i} has size {d}", why="shape_c1: sizes are at least 0")
        total *= max(d, 1)
    if total > MAX_ELEMENTS:
        raise ShapeError(
            f"{shape.element_type} array of {shape.rank} dimensions has {total} bytes",
            why=f"shape_c1: at most {MAX_ELEMENTS} bytes",
        )
    if shape.layout is not None:
        _check_layout(shape, shape.layout)


def _check_layout(shape: Shape, layout: Layout) -> None:
    if sorted(layout.minor_to_major) != list(range(shape.rank)):
        raise ShapeError(
            f"layout {layout} does not fit rank {shape.rank}",
            why="shape_c3: minor_to_major is a permutation of the dimensions",
        )
    sizes = (
        layout.tail_padding_alignment, layout.element_bits, layout.memory_space,
        layout.metadata_prefix_bytes, *(i for s in layout.split_configs for i in s.indices),
    )  # fmt: skip
    if min(sizes) < 0:
        raise ShapeError(
            f"layout {layout} has a negative size", why="shape_c3: sizes of a layout are at least 0"
        )
    if not all(map(_is_tile, layout.tiles)):
        raise ShapeError(
            f"layout {layout} has a tile that is none",
            why="shape_c3: a tile has dimensions, each of at least 0 or combined with the next",
        )
    if not all(s.indices and s.dimension >= 0 for s in layout.split_configs):
        raise ShapeError(
            f"layout {layout} splits nothing",
            why="shape_c3: a split names a dimension and the indices where it is cut",
        )


def _is_tile(tile: Tile) -> bool:
    return bool(tile.dims) and all(d >= 0 or d == COMBINE_DIMENSION for d in tile.dims)
