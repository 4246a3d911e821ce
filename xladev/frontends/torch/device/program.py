"""Compiles what living tensors still need as one program, and runs it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

import xladev.client
from xladev.client import CompiledModule
from xladev.errors import XladevError
from xladev.frontends.torch.device.counts import COUNTS
from xladev.frontends.torch.device.donation import donatable, updated
from xladev.frontends.torch.device.node import Node, takes_doubles
from xladev.frontends.torch.device.tensor import STATE, the_device
from xladev.frontends.torch.element_types import type_of
from xladev.frontends.torch.errors import as_torch
from xladev.frontends.torch.graph import SeededBuilder
from xladev.frontends.torch.lower.value import Value
from xladev.hlo import dtype as dt
from xladev.hlo.attributes import ModuleAlias
from xladev.hlo.ir import HloModule
from xladev.hlo.shape import array, tuple_of
from xladev.instrument import logger

BOUND = 20_000
"""So many tensors are recorded before what lives is computed, read or not."""

_log = logger("torch.device")
_lock = threading.RLock()
_programs: dict[Key, Programs] = {}
_numbers = itertools.count()

Key = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program for all that is recorded alike.

    Attributes:
        run: runs it.
        reused: places, among all that is needed, of values whose memory results may have.
    """

    run: CompiledModule
    reused: tuple[int, ...]


class Programs:
    """The programs for all that is recorded alike but for the places of slices and selects.

    The first has its places as constants. Those that others differ in are parameters of a second
    one, which is compiled again where a further place differs.

    Attributes:
        places: of the first.
        first: program.
        varied: numbers of the places that are parameters of the other program.
        other: program; None until another place comes.
    """

    __slots__ = ("first", "other", "places", "varied")

    def __init__(self, places: Sequence[int], first: Compiled) -> None:
        self.places = places
        self.first = first
        self.varied: frozenset[int] = frozenset()
        self.other: Compiled | None = None

    def at(
        self, places: Sequence[int], compiled: Callable[[frozenset[int]], Compiled]
    ) -> tuple[Compiled, frozenset[int]]:
        """The program for some places, and the numbers of those that are parameters of it."""
        if places == self.places:
            return self.first, frozenset()
        pairs = enumerate(zip(places, self.places, strict=True))
        differ = frozenset(at for at, (one, other) in pairs if one != other)
        if self.other is None or not differ <= self.varied:
            varied = self.varied | differ
            self.other = compiled(varied)
            self.varied = varied
        return self.other, self.varied


def compute(wanted: Sequence[Node] = ()) -> None:
    """Computes all that living tensors need; in eager mode, what is wanted alone.

    Raises:
        XladevError: the program does not compile, or its execution failed; of torch's usual class
            too.
    """
    with _lock:
        roots = _pending(wanted)
        if not roots:
            return
        try:
            _run(roots)
        except XladevError as error:
            raise as_torch(error.at(f"device {STATE.name}")) from error


def _pending(wanted: Sequence[Node]) -> list[Node]:
    """Nodes of living tensors without a value, in the order in which they were recorded."""
    if STATE.is_eager and wanted:
        return [node for node in wanted if node.value is None]
    recorded, STATE.recorded = STATE.recorded, []
    living = (handle() for handle in recorded)
    nodes = dict.fromkeys(handle.node for handle in living if handle is not None)
    nodes.update(dict.fromkeys(wanted))
    return [node for node in nodes if node.value is None]


def _run(roots: Sequence[Node]) -> None:
    order, number = _order(roots)
    key, places = _key(order, number, roots), _places(order)
    programs = _programs.get(key)
    if programs is None:
        programs = _programs[key] = Programs(places, _compiled(order, number, roots))
    compiled, varied = programs.at(places, lambda those: _compiled(order, number, roots, those))
    donate: list[int] = []
    if compiled.reused:
        parameters = _parameters(order)
        donate = [parameters[at] for at in donatable(order, number, compiled.reused)]
    program, arguments = compiled.run, _arguments(order, [places[at] for at in sorted(varied)])
    COUNTS.ran += 1
    if torch.autograd._profiler_enabled():
        with torch.profiler.record_function(f"xladev::{program.program.name}"):
            results = program(*arguments, donate=donate or False)
    else:
        results = program(*arguments, donate=donate or False)
    for node, value in zip(roots, results, strict=True):
        node.compute(value)


def _order(roots: Iterable[Node]) -> tuple[list[Node], dict[Node, int]]:
    """What the roots need, operands before what uses them; and the place of each."""
    order: list[Node] = []
    number: dict[Node, int] = {}
    for root in roots:
        stack = [root]
        while stack:
            node = stack[-1]
            if node in number:
                stack.pop()
                continue
            missing = [each for each in node.inputs if each not in number]
            if missing:
                stack.extend(reversed(missing))
                continue
            number[node] = len(order)
            order.append(node)
            stack.pop()
    return order, number


def _key(order: Sequence[Node], number: dict[Node, int], roots: Sequence[Node]) -> Key:
    """What tells one program from another but places: calls, operands, what is wanted of them."""
    key: list[int] = []
    for node in order:
        if node.value is not None:
            key.append(-1 - node.spec.number)  # type: ignore[union-attr]
        elif node.call is None:
            key += (node.part, number[node.inputs[0]])
        else:
            key.append(node.call.number)
            key += [number[each] for each in node.inputs]
    key.append(-1)
    key += [number[root] for root in roots]
    return tuple(key)


def _places(order: Sequence[Node]) -> tuple[int, ...]:
    return tuple(node.place for node in order if node.place >= 0)


def _parameters(order: Sequence[Node]) -> dict[int, int]:
    """The number of the parameter for each value, by its place among all that is needed."""
    values = (at for at, node in enumerate(order) if node.value is not None)
    return {at: parameter for parameter, at in enumerate(values)}


# Scalars, seeds and places are packed: four parameters at most, however many there are.


def _arguments(order: Sequence[Node], places: Sequence[int]) -> list[Any]:
    """Values, numbers by their types, seeds, then places: as `_compiled` makes parameters."""
    taken: list[Any] = [node.value for node in order if node.value is not None]
    for scalars, to in ((_numbers_of(order, False), np.float32), (_numbers_of(order, True), float)):
        if scalars:
            taken.append(np.array(scalars, to))
    seeds = [node.seed for node in order if node.seed is not None and node.value is None]
    if seeds:
        taken.append(np.array(seeds, np.uint64))
    if places:
        taken.append(np.array(places, np.int64))
    return taken


def _numbers_of(order: Sequence[Node], is_double: bool) -> list[float]:
    return [s for node in order if node.scalars and _is_double(node) is is_double
            for s in node.scalars]  # fmt: skip


def _is_double(node: Node) -> bool:
    """Whether a call takes its numbers in f64."""
    return takes_doubles(node.call.specs)  # type: ignore[union-attr]


class _Building:
    """One program being built."""

    def __init__(
        self,
        order: Sequence[Node],
        number: dict[Node, int],
        name: str,
        varied: frozenset[int],
    ) -> None:
        self.varied = varied
        self.order = order
        self.number = number
        self.builder = SeededBuilder(name)
        self.values: list[Any] = []

    def module(self, roots: Sequence[Node]) -> HloModule:
        given = {id(n): self._parameter(n) for n in self.order if n.value is not None}
        single = self._vector(_numbers_of(self.order, False), dt.F32)
        double = self._vector(_numbers_of(self.order, True), dt.F64)
        seeds = self._seeds()
        places = self._places()
        for node in self.order:
            if node.value is not None:
                self.values.append(given[id(node)])
            elif node.call is None:
                self.values.append(self.values[self.number[node.inputs[0]]][node.part])
            else:
                numbers = double if _is_double(node) else single
                self.values.append(self._call(node, numbers, seeds, places))
        results = [self.values[self.number[root]].node for root in roots]
        shape = tuple_of(*(each.shape for each in results))
        return self.builder.module(self.builder.op("tuple", *results, shape=shape))

    def _parameter(self, node: Node) -> Value:
        spec = node.spec
        assert spec is not None
        return Value(self.builder, self.builder.parameter(array(type_of(spec.dtype), spec.shape)))

    def _vector(
        self, numbers: Collection[float], to: dt.PrimitiveType, name: str = "scalars"
    ) -> Iterator[Value]:
        """Each number as an array without dimensions, in turn."""
        if not numbers:
            return iter(())
        every = Value(self.builder, self.builder.parameter(array(to, (len(numbers),)), name))
        return (every.slice(0, at, at + 1).reshape(()) for at in range(len(numbers)))

    def _seeds(self) -> Any:
        count = sum(node.seed is not None and node.value is None for node in self.order)
        if not count:
            return iter(())
        every = Value(self.builder, self.builder.parameter(array(dt.U64, (count, 2)), "seeds"))
        return (every.slice(0, at, at + 1).reshape((2,)) for at in range(count))

    def _places(self) -> Iterator[Value | int]:
        """Each place in turn: a constant, or an array without dimensions."""
        varied = self._vector(self.varied, dt.S64, "places")
        every = enumerate(_places(self.order))
        return (next(varied) if at in self.varied else place for at, place in every)

    def _call(self, node: Node, numbers: Any, seeds: Any, places: Any) -> Any:
        call = node.call
        assert call is not None and call.lower is not None
        operands = [self.values[self.number[each]] for each in node.inputs]
        scalars = [next(numbers) for _ in node.scalars]
        self.builder.random_state = next(seeds) if node.seed is not None else None
        at = (next(places),) if node.place >= 0 else ()
        return call.lower(self.builder, operands, scalars, *at)


def _compiled(
    order: Sequence[Node],
    number: dict[Node, int],
    roots: Sequence[Node],
    varied: frozenset[int] = frozenset(),
) -> Compiled:
    """A program; numbers of the places that are parameters of it."""
    name = f"torch_device_{next(_numbers)}"
    module = _Building(order, number, name, varied).module(roots)
    pairs = updated(order, number, roots)
    places = _parameters(order)
    aliases = tuple(ModuleAlias((result,), places[at], ()) for result, at in pairs)
    module = replace(module, header=replace(module.header, aliases=aliases))
    COUNTS.compiled += 1
    _log.info("compiles %s: %d operators, %d results", name, len(order), len(roots))
    run = xladev.client.compile(module, the_device().name, STATE.options)
    return Compiled(run, tuple(at for _, at in pairs))
