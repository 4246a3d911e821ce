"""Layouts and kinds of memory that a program's arguments and results have, as JAX asks for them.

xladev compiles programs with row-major interfaces. An argument that is in another order becomes a
parameter with its dimensions in that order, transposed within the program; a result likewise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xladev.errors import UnsupportedError
from xladev.hlo.builder import make_instruction
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule, ProgramShape
from xladev.hlo.rebuild import rebuild
from xladev.hlo.shape import Layout, Shape, array, tuple_of

KINDS = ("device", "pinned_host", "unpinned_host")
"""Kinds of memory by their numbers in the shim."""

LAYOUT, KIND = "mhlo.layout_mode", "mhlo.memory_kind"
"""Attributes of a StableHLO function's arguments and results, as JAX writes them."""

_AUTO = "auto"
_DEFAULTS = frozenset({"default", _AUTO})

Order = tuple[int, ...]
"""Axes of an array from major to minor; empty: row-major."""


@dataclass(frozen=True, slots=True)
class BufferPlacement:
    """Where an argument or result is.

    Attributes:
        order: of its axes in memory.
        kind: number of its kind of memory.
        is_auto: True if the order is left to the compiler (`auto_layouts.chosen`).
    """

    order: Order = ()
    kind: int = 0
    is_auto: bool = False


@dataclass(frozen=True, slots=True)
class EntryInterface:
    """The places of all arguments and results; empty: all are as usual."""

    parameters: tuple[BufferPlacement, ...] = ()
    results: tuple[BufferPlacement, ...] = ()

    @property
    def has_orders(self) -> bool:
        """True if something is not row-major."""
        return any(place.order for place in (*self.parameters, *self.results))


def read_place(attributes: Mapping[str, str]) -> BufferPlacement:
    """What the attributes of an argument or result say.

    Raises:
        UnsupportedError: a layout with tiles, or an unknown kind of memory.
    """
    kind = attributes.get(KIND, KINDS[0])
    if kind not in KINDS:
        raise UnsupportedError(f"there is no memory of kind {kind!r}", why=f"kinds: {KINDS}")
    layout = attributes.get(LAYOUT, "default")
    return BufferPlacement(_read_order(layout), KINDS.index(kind), layout == _AUTO)


def _read_order(text: str) -> Order:
    if text in _DEFAULTS:
        return ()
    try:
        minor_to_major = [int(axis) for axis in text.strip("{}").split(",") if axis]
    except ValueError as error:
        raise UnsupportedError(
            f"layout {text!r} is not supported", why="layouts are orders of dimensions"
        ) from error
    order = tuple(reversed(minor_to_major))
    return () if order == tuple(range(len(order))) else order


def places(given: Sequence[BufferPlacement], count: int) -> tuple[BufferPlacement, ...]:
    """As many places as asked for; the usual ones where none are given."""
    return tuple(given) if len(given) == count else (BufferPlacement(),) * count


def logical_dims(dims: Sequence[int], order: Order) -> tuple[int, ...]:
    """The dims of an array whose dims in memory, from major to minor, are given."""
    return tuple(dims[order.index(axis)] for axis in range(len(dims))) if order else tuple(dims)


def minor_to_major(order: Order, rank: int) -> tuple[int, ...]:
    """An order as layouts spell it."""
    return tuple(reversed(order or range(rank)))


def with_places(module: HloModule, interface: EntryInterface) -> HloModule:
    """The module with parameters and results in the order in which they are in memory."""
    if not interface.has_orders:
        return module
    parameters = [p.order for p in places(interface.parameters, len(module.entry.parameters))]
    entry = _with_results(_with_parameters(module.entry, parameters), interface.results)
    return replace(module, entry=entry, header=replace(module.header, entry_layout=None))


def with_entry_layout(module: HloModule, interface: EntryInterface) -> HloModule:
    """The module as it is, with the layouts of its interface in its header."""
    parameters = [p.shape for p in module.entry.parameters]
    result = module.entry.root.shape
    results = result.tuple_shapes if result.is_tuple else (result,)
    shown = _laid_out(results, interface.results)
    layout = ProgramShape(
        tuple(_laid_out(parameters, interface.parameters)),
        tuple_of(*shown) if result.is_tuple else shown[0],
    )
    return replace(module, header=replace(module.header, entry_layout=layout))


def _laid_out(shapes: Sequence[Shape], given: Sequence[BufferPlacement]) -> list[Shape]:
    pairs = zip(shapes, places(given, len(shapes)), strict=True)
    return [
        s.with_layout(Layout(minor_to_major(p.order, s.rank))) if s.is_array else s
        for s, p in pairs
    ]


def _with_parameters(entry: HloComputation, orders: Sequence[Order]) -> HloComputation:
    pairs = zip(entry.parameters, orders, strict=True)
    return rebuild(entry, {p: _from_memory(p, order) for p, order in pairs if order})


def _from_memory(parameter: HloInstruction, order: Order) -> HloInstruction:
    shape = _permuted(parameter.shape, order)
    inside = [order.index(axis) for axis in range(len(order))]
    given = replace(parameter, shape=shape)
    return _transpose(given, inside, f"{parameter.name}.logical")


def _with_results(entry: HloComputation, results: Sequence[BufferPlacement]) -> HloComputation:
    if not any(place.order for place in results):
        return entry
    root = entry.root
    if not root.shape.is_tuple:
        (place,) = results
        return rebuild(entry, {}, root=_transpose(root, place.order, f"{root.name}.memory"))
    parts = [_result(root, i, place.order) for i, place in enumerate(results)]
    return rebuild(entry, {}, root=make_instruction("tuple", parts, name=f"{root.name}.memory"))


def _result(root: HloInstruction, index: int, order: Order) -> HloInstruction:
    part = root.operands[index] if root.opcode == "tuple" else None
    name = f"{root.name}.part.{index}"
    value = part or make_instruction("get-tuple-element", [root], {"index": index}, name=name)
    return _transpose(value, order, f"{name}.memory") if order else value


def _transpose(operand: HloInstruction, order: Sequence[int], name: str) -> HloInstruction:
    attrs: dict[str, Any] = {"dimensions": tuple(order)}
    return make_instruction("transpose", [operand], attrs, name=name)


def _permuted(shape: Shape, order: Order) -> Shape:
    return array(shape.element_type, tuple(shape.dims[axis] for axis in order))
