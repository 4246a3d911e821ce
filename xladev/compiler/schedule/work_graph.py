"""The steps of one computation and the bytes between them: what schedules are made and judged by.

A step is an instruction that runs: a kernel, a loop, a branch. Tuples and their parts only name
arrays, and are seen through. Sizes are those of the arena (`buffers/arena.py`): parameters,
constants and what is computed straight into the program's results take nothing there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from xladev.compiler.buffers.arena import padded
from xladev.compiler.buffers.result_places import in_place_of, result_places
from xladev.hlo.array_values import ArrayValue, array_values, is_grouping
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.passes.effects import acts, communicates

InnerBytes = Callable[[HloInstruction], int]
"""Bytes that a step needs for itself while it runs: in what it calls, or as a workspace."""

Source = Mapping[HloInstruction, tuple[ArrayValue, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class WorkGraph:
    """Steps and values by number, in program order.

    Attributes:
        steps: the instructions that run.
        needs: for each step, the steps that must run before it.
        makes: for each step, the leaves it makes.
        reads: for each step, the leaves it reads, each once.
        sizes: bytes of each value in the arena; 0 for those that are elsewhere.
        results: values of the root, which live to the end.
        replaces: of a loop's body, values of the root and the value of the parameter whose place
            each takes; it takes bytes of its own only as long as that one is still read.
        reusable: for each step, pairs (value made, value read) that may be one buffer.
        inner: for each step, bytes that it needs for itself while it runs.
    """

    steps: tuple[HloInstruction, ...]
    needs: tuple[tuple[int, ...], ...]
    makes: tuple[tuple[int, ...], ...]
    reads: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    results: frozenset[int]
    replaces: Mapping[int, int]
    reusable: tuple[tuple[tuple[int, int], ...], ...]
    inner: tuple[int, ...]


def work_graph(
    computation: HloComputation,
    ordered: AbstractSet[str],
    inner: InnerBytes,
    alignment: int,
    is_loop_body: bool = False,
) -> WorkGraph:
    """The graph of a computation whose fusions are made.

    Args:
        computation: one that runs kernels.
        ordered: names of computations whose runs keep their order (`ordered_computations`).
        inner: bytes that a step needs for itself while it runs.
        alignment: of values in memory, in bytes.
        is_loop_body: True if its result takes the place of its parameter.
    """
    source = array_values(computation)
    steps = tuple(i for i in computation.instructions if _runs(i))
    numbers: dict[ArrayValue, int] = {}
    for i in computation.instructions:
        for value in source[i]:
            numbers.setdefault(value, len(numbers))
    results = [numbers[value] for value in source[computation.root]]
    state = [numbers[value] for p in computation.parameters for value in source[p]]
    replaces = dict(zip(results, state, strict=True)) if is_loop_body else {}
    on_the_way = {numbers[a]: numbers[b] for a, b in result_places(computation, source).items()}
    if is_loop_body:
        replaces |= {value: replaces[result] for value, result in on_the_way.items()}
    makes = tuple(tuple(numbers[value] for value in source[s]) for s in steps)
    made = {n for row in makes for n in row} - ({*results, *on_the_way} - replaces.keys())
    sizes = tuple(padded(x.shape.nbytes, alignment) if n in made else 0 for x, n in numbers.items())
    return WorkGraph(
        steps,
        tuple(_needs(steps, source, _waits(computation, source), ordered)),
        makes,
        tuple(_values_read(s, source, numbers) for s in steps),
        sizes,
        frozenset(results),
        replaces,
        tuple(tuple(_reusable(s, source, numbers)) for s in steps),
        tuple(map(inner, steps)),
    )


def live_bytes(graph: WorkGraph, order: Sequence[int]) -> list[int]:
    """Bytes of the arena that are needed at each step of an order of steps."""
    last = _last_reads(graph, order)
    held = [0] * len(graph.sizes)
    live, found = 0, list[int]()
    for at, step in enumerate(order):
        new = graph.makes[step]
        for value in new:
            old = graph.replaces.get(value)
            held[value] = 0 if old is not None and last[old] <= at else graph.sizes[value]
        ending = {value for value in (*graph.reads[step], *new) if last[value] <= at}
        live += sum(held[value] for value in new)
        found.append(live + graph.inner[step] - _reused(graph, step, ending, held))
        live -= sum(held[value] for value in ending)
    return found


def _last_reads(graph: WorkGraph, order: Sequence[int]) -> list[int]:
    last = [-1] * len(graph.sizes)
    for at, step in enumerate(order):
        for value in graph.reads[step]:
            last[value] = at
    for value in graph.results:
        last[value] = len(order)
    return last


def _reused(graph: WorkGraph, step: int, ending: set[int], held: Sequence[int]) -> int:
    """Bytes of dying operands that become results."""
    total = 0
    used: set[int] = set()
    for made, read in graph.reusable[step]:
        fits = read in ending and held[read] == held[made]
        if fits and not used & {made, read}:
            used |= {made, read}
            total += held[made]
    return total


def ordered_computations(module: HloModule) -> frozenset[str]:
    """Names of computations that have effects or communicate, also in what they call."""
    found: set[str] = set()
    for computation in module.computations:
        if any(keeps_order(i, found) for i in computation.instructions):
            found.add(computation.name)
    return frozenset(found)


def keeps_order(i: HloInstruction, ordered: AbstractSet[str]) -> bool:
    """True for what has an effect or communicates: it is neither moved past its like nor redone."""
    return acts(i, ordered) or communicates(i)


def _runs(i: HloInstruction) -> bool:
    return not is_grouping(i) and i.opcode not in ("parameter", "constant")


def _needs(
    steps: Sequence[HloInstruction],
    source: Source,
    waits: Mapping[HloInstruction, frozenset[HloInstruction]],
    ordered: AbstractSet[str],
) -> Iterator[tuple[int, ...]]:
    """Makers of operands, control predecessors, and for what keeps its order the one before it."""
    number = {s: n for n, s in enumerate(steps)}
    before = -1
    for step in steps:
        makers = {value.producer for o in step.operands for value in source[o]}
        makers.update(*(waits.get(o, ()) for o in step.operands), _predecessors(step, source))
        found = {number[m] for m in makers if m in number}
        if keeps_order(step, ordered):
            found.update((before,) if before >= 0 else ())
            before = number[step]
        yield tuple(sorted(found))


def _waits(
    computation: HloComputation, source: Source
) -> Mapping[HloInstruction, frozenset[HloInstruction]]:
    """What tuples and their parts wait for by control dependencies, not by their values."""
    found: dict[HloInstruction, frozenset[HloInstruction]] = {}
    for i in computation.instructions:
        if not is_grouping(i):
            continue
        waits = {*_predecessors(i, source)}.union(*(found.get(o, ()) for o in i.operands))
        if waits:
            found[i] = frozenset(waits)
    return found


def _predecessors(i: HloInstruction, source: Source) -> Iterator[HloInstruction]:
    for predecessor in i.note.control_predecessors:
        yield predecessor
        for value in source[predecessor]:
            yield value.producer


def _values_read(
    step: HloInstruction, source: Source, numbers: Mapping[ArrayValue, int]
) -> tuple[int, ...]:
    return tuple(dict.fromkeys(numbers[value] for o in step.operands for value in source[o]))


def _reusable(
    step: HloInstruction, source: Source, numbers: Mapping[ArrayValue, int]
) -> Iterator[tuple[int, int]]:
    read = [numbers[value] for o in step.operands for value in source[o]]
    made = [numbers[value] for value in source[step]]
    for result, operand in sorted(in_place_of(step)):
        if result < len(made) and read.count(read[operand]) == 1:
            yield made[result], read[operand]
