"""Orders of dimensions that are left to the compiler: those in which no transpose moves data.

A result lies as the value that it is a transpose of, elementwise operations in between. An argument
lies as its transposes read it, unless a result is open, too, which then takes that on, as in XLA.
Everything else is row-major.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from xladev.frontends.jax.entry_interface import BufferPlacement, EntryInterface, Order, places
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.rebuild import users_of


def chosen(module: HloModule, interface: EntryInterface) -> EntryInterface:
    """The interface with an order for whatever left it open.

    Args:
        module: as the client gave it, or one device's part of that.
        interface: of it, the same number of parameters and results.
    """
    if not any(place.is_auto for place in (*interface.parameters, *interface.results)):
        return interface
    entry = module.entry
    parameters = list(places(interface.parameters, len(entry.parameters)))
    root = entry.root
    values = root.operands if root.opcode == "tuple" else (root,)
    results = list(places(interface.results, len(values)))
    if root.shape.is_tuple and root.opcode != "tuple":
        return EntryInterface(*map(_closed, (parameters, interface.results)))
    kept = {alias.output_index[0] if alias.output_index else 0 for alias in module.header.aliases}
    orders = _orders(entry.instructions, parameters)
    for n, (place, value) in enumerate(zip(results, values, strict=True)):
        if place.is_auto and n not in kept:
            results[n] = replace(place, order=orders.get(value.name, ()))
    if not any(place.is_auto for place in results) and not module.header.aliases:
        readers = users_of(entry)
        for n, (place, parameter) in enumerate(zip(parameters, entry.parameters, strict=True)):
            if place.is_auto:
                parameters[n] = replace(place, order=_read_order(readers[parameter]))
    return EntryInterface(*map(_closed, (parameters, results)))


def _closed(given: Sequence[BufferPlacement]) -> tuple[BufferPlacement, ...]:
    return tuple(replace(place, is_auto=False) for place in given)


def _orders(
    instructions: Iterable[HloInstruction], parameters: Sequence[BufferPlacement]
) -> Mapping[str, Order]:
    """Of each value that does not lie row-major, where nothing moves it, its order."""
    found: dict[str, Order] = {}
    for i in instructions:
        order: Order = ()
        if i.opcode == "parameter":
            order = parameters[i["parameter_number"]].order
        elif i.opcode == "transpose":
            order = _transposed(found.get(i.operands[0].name, ()), i["dimensions"])
        elif i.op.elementwise and i.shape.is_array:
            order = _common(i, found)
        if order and order != tuple(range(len(order))):
            found[i.name] = order
    return found


def _transposed(order: Order, dimensions: Sequence[int]) -> Order:
    """The order of a transpose that moves nothing."""
    return tuple(dimensions.index(axis) for axis in order or range(len(dimensions)))


def _common(i: HloInstruction, found: Mapping[str, Order]) -> Order:
    """The order of all operands that have one of their own; row-major if they differ."""
    shaped = [o for o in i.operands if o.shape.rank and not _is_spread(o)]
    orders = {found.get(o.name, ()) for o in shaped}
    return orders.pop() if len(orders) == 1 else ()


def _is_spread(value: HloInstruction) -> bool:
    """True for a scalar in all places, which lies as one likes."""
    return value.opcode == "broadcast" and not value.operands[0].shape.rank


def _read_order(readers: Sequence[HloInstruction]) -> Order:
    """The order in which all readers that move their operand want it."""
    wanted = {tuple(r["dimensions"]) if r.opcode == "transpose" else () for r in readers}
    if len(wanted) != 1:
        return ()
    (order,) = wanted
    return () if order == tuple(range(len(order))) else order
