"""Constant values: a shape and the bits of its elements."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from xladev.errors import LiteralError
from xladev.hlo import dtype as dt
from xladev.hlo.shape import TOKEN_SHAPE, Shape, tuple_of
from xladev.hlo.shape import array as array_shape

Array = npt.NDArray[Any]
Value = Any
"""A value of the evaluator and of literals: an array, a tuple of values, or None for a token."""
SHORT_NBYTES = 1 << 16
"""Literals of more bytes are told apart by their digests, and their bytes are not kept twice."""
_SAMPLES = 256


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A constant; equal to another if shapes and bits are.

    Attributes:
        shape: shape of the constant, with its layout.
        array: read-only C-order array of the shape's dtype; None for tuples, tokens and elided.
        parts: the literals of a tuple's parts.
        elided: True if text stood for the value as ``{...}``; such a literal has no value.
    """

    shape: Shape
    array: Array | None = None
    parts: tuple[Literal, ...] = ()
    elided: bool = False
    _bits: list[bytes] = field(default_factory=list, repr=False)
    _digest: list[bytes] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        if self.array is not None:
            object.__setattr__(self, "array", _checked(self.shape, self.array))

    @property
    def value(self) -> Value:
        """The constant as the evaluator sees it; a LiteralError if the text elided it."""
        if self.elided:
            raise LiteralError(
                f"the value of a constant of shape {self.shape} was elided in the text",
                hint="export the serialized proto, or text with large constants printed",
            )
        if self.shape.is_tuple:
            return tuple(p.value for p in self.parts)
        return self.array

    def leaves(self) -> Iterator[Literal]:
        """The literals of all parts that are not tuples, in order; itself if it is none."""
        if not self.shape.is_tuple:
            yield self
        for part in self.parts:
            yield from part.leaves()

    @property
    def is_short(self) -> bool:
        """True if its bytes are few enough to be compared, copied and kept at will."""
        return self.shape.nbytes <= SHORT_NBYTES

    def bits(self) -> bytes:
        """The elements' bytes, parts joined; equal literals have equal bits."""
        if self._bits:
            return self._bits[0]
        own = self.array.tobytes() if self.array is not None else b""
        found = own + b"".join(p.bits() for p in self.parts)
        if self.is_short:
            self._bits.append(found)
        return found

    def view(self) -> memoryview:
        """`bits` as they are in memory; those of a tuple are joined first."""
        if self.array is None:
            return memoryview(self.bits())
        return self.array.reshape(-1).view(np.uint8).data

    def digest(self) -> bytes:
        """SHA-256 of `bits`, 32 bytes, computed once."""
        if not self._digest:
            self._digest.append(hashlib.sha256(self.view()).digest())
        return self._digest[0]

    def in_layout_of(self, shape: Shape) -> Literal:
        """The same value in the layouts of ``shape``; itself where that is another type."""
        if self.shape == shape or not self.shape.equal_ignoring_layout(shape):
            return self
        inner = zip(self.parts, shape.tuple_shapes, strict=False)
        parts = tuple(part.in_layout_of(part_shape) for part, part_shape in inner)
        return Literal(shape, self.array, parts, self.elided)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Literal):
            return NotImplemented
        if self is other:
            return True
        is_alike = self.shape == other.shape and self.elided == other.elided
        return is_alike and self._has_bits_of(other)

    def _has_bits_of(self, other: Literal) -> bool:
        if self.array is not None and self.array is other.array:
            return True
        if self.is_short:
            return self.bits() == other.bits()
        return self.digest() == other.digest()

    def __hash__(self) -> int:
        return hash((self.shape, self.elided, self.bits() if self.is_short else self._sample()))

    def _sample(self) -> bytes:
        """Some of the bits, which tell most long literals apart."""
        bits = np.frombuffer(self.view(), np.uint8)
        return bits[:: max(1, bits.size // _SAMPLES)].tobytes()


def _checked(shape: Shape, array: Array) -> Array:
    want = shape.element_type.np
    if array.dtype != want or array.shape != shape.dims:
        raise LiteralError(
            f"a value of {array.dtype}{list(array.shape)} does not fit shape {shape}",
            hint="use literal_of(), or cast the array first",
        )
    array = np.ascontiguousarray(array).reshape(shape.dims)
    if _may_change(array):
        array = array.copy()
        array.flags.writeable = False
    return array


def _may_change(array: Any) -> bool:
    """Whether somebody may write to it: by itself, or by an array that it is a view of."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return False


def has_mask(value: Any) -> bool:
    """True for a masked array, and for a list or tuple that has one: NumPy drops masks silently."""
    if isinstance(value, (list, tuple)):
        return any(map(has_mask, value))
    masks = sys.modules.get("numpy.ma")  # nobody has such an array who has not imported it
    return masks is not None and isinstance(value, masks.MaskedArray)


def literal_of(value: Any, element_type: dt.PrimitiveType | None = None) -> Literal:
    """A literal of a scalar, nested list, array or tuple of those.

    Args:
        value: what to hold; Python floats become f32 and ints s32 where no type is given.
        element_type: element type to cast to.

    Raises:
        LiteralError: a masked array.
    """
    if has_mask(value):
        raise LiteralError(
            "a masked array is no constant",
            why="a literal has no mask, and what is masked would count",
            hint="value.filled(number), or value.data if all of it counts",
        )
    if value is None:
        return Literal(TOKEN_SHAPE)
    if isinstance(value, tuple):
        parts = tuple(literal_of(v, element_type) for v in value)
        return Literal(tuple_of(*(p.shape for p in parts)), parts=parts)
    cast = element_type.np if element_type is not None else _default_dtype(value)
    array = np.asarray(value, dtype=cast)
    shape = array_shape(dt.by_numpy(array.dtype), array.shape).with_default_layout()
    return Literal(shape, array)


def _default_dtype(value: Any) -> np.dtype[Any] | None:
    if isinstance(value, (np.ndarray, np.generic)):
        return None
    kind = np.asarray(value).dtype.kind
    return {"f": np.dtype(np.float32), "i": np.dtype(np.int32), "c": np.dtype(np.complex64)}.get(
        kind
    )
