"""Chooses a sharding for each array of a program: its annotations, its interface, and the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.placement import CONSTRAINT, RESULT
from xladev.hlo.shape import Shape, flattened_shapes
from xladev.hlo.sharding.axis_sharding import AxisSharding, whole_on
from xladev.hlo.sharding.grid import Atoms, Grid
from xladev.passes.sharding.asked import Annotations, Asked
from xladev.passes.sharding.chosen import ChosenShardings
from xladev.passes.sharding.graph import GROUP, Graph
from xladev.passes.sharding.leaves import Leaf, source
from xladev.passes.sharding.propagate import propagate
from xladev.passes.sharding.tensors import Tensor, longest_even, longest_used

Cut = AxisSharding | None

_LINEAR_ALONE = frozenset({"negate", "copy", "reshape", "transpose"})
"""Opcodes of one operand by which a sum that is kept apart stays one."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How a program is cut.

    Attributes:
        chosen: for each array.
        parameters: for each parameter of the entry, each of its arrays; None for tokens.
        results: for each array of the result; None for tokens.
    """

    chosen: ChosenShardings
    parameters: tuple[tuple[Cut, ...], ...]
    results: tuple[Cut, ...]


def choose(module: HloModule, annotations: Annotations) -> Choice:
    """How a program is cut whose calls are inlined.

    Parameters and results lie as they are asked to; without that, whole, or if the header's
    ``propagate_to_parameters`` or ``propagate_to_output`` says that it may be chosen, as
    propagation leaves them, in even parts.
    """
    graph = Graph.of(module, annotations)
    _ask_of_interface(graph)
    _join_groups(graph)
    propagate(annotations.grid, list(graph.tensors.values()), graph.edges, graph.borders)
    graph.carry_sums()
    header, entry = module.header, module.entry
    parameters = tuple(
        tuple(_interface(graph, p, n, shape) for n, shape in enumerate(flattened_shapes(p.shape)))
        for p in entry.parameters
    )
    results = tuple(
        _result(graph, number, shape, flag(header.propagate_to_output, number))
        for number, shape in enumerate(flattened_shapes(entry.root.shape))
    )
    cuts = {i: _cuts(graph, i) for c in graph.computations() for i in c.instructions}
    cuts.update(_sums_kept_apart(graph, cuts))
    chosen = ChosenShardings(annotations, cuts)
    return Choice(chosen, parameters, results)


def _ask_of_interface(graph: Graph) -> None:
    """Closes what nobody asks for and nobody may choose."""
    header, entry = graph.module.header, graph.module.entry
    for i, p in enumerate(entry.parameters):
        if not flag(header.propagate_to_parameters, i):
            for number, shape in enumerate(flattened_shapes(p.shape)):
                if shape.is_array:
                    _close(graph.tensor(p, number), graph.asked.get((p, number)))


def _close(tensor: Tensor, asked: Asked | None) -> None:
    if asked is None or not any(asked.is_open):
        tensor.is_open = [False] * len(tensor.is_open)


def _interface(graph: Graph, p: HloInstruction, number: int, shape: Shape) -> Cut:
    if not shape.is_array:
        return None
    foreign = graph.foreign.get((p, number))
    return foreign or _final(graph.annotations.grid, graph, (p, number), is_asked=True)


def _final(grid: Grid, graph: Graph, leaf: Leaf, *, is_asked: bool) -> AxisSharding:
    """What propagation left an array of the interface; in even parts, but for what is asked."""
    tensor, asked = graph.tensor(*leaf), graph.asked.get(graph.leaf(*leaf))
    dims = []
    for d, atoms in enumerate(tensor.dims):
        is_fixed = is_asked and asked is not None and asked.sharding.dims[d] == atoms
        dims.append(atoms if is_fixed else longest_even(grid, tensor.sizes[d], atoms))
    return AxisSharding(grid, tuple(dims), _unreduced(asked))


def _unreduced(asked: Asked | None) -> Atoms:
    return () if asked is None else asked.sharding.unreduced


def _result(graph: Graph, number: int, shape: Shape, is_free: bool) -> Cut:
    if not shape.is_array:
        return None
    root, annotations = graph.module.entry.root, graph.annotations
    value, of_value = source(root, number)
    named = _asked_of_call(annotations, value)
    if named is not None and not named.says_nothing or is_free:
        leaf = graph.leaf(value, of_value)
        is_asked = not is_free or _is_call(value, RESULT)
        return graph.foreign.get(leaf) or _final(annotations.grid, graph, leaf, is_asked=is_asked)
    asked = annotations.of(root)[number]
    return whole_on(annotations.grid, shape.rank) if asked is None else asked.sharding


def _asked_of_call(annotations: Annotations, value: HloInstruction) -> Asked | None:
    """What a custom call that only says so asks of a result."""
    if not _is_call(value, RESULT) and not _is_call(value, CONSTRAINT):
        return None
    (asked,) = annotations.of(value) or (None,)
    return asked


def _behind(
    graph: Graph,
    value: HloInstruction,
    atoms: Atoms,
    cuts: Mapping[HloInstruction, tuple[Cut, ...]],
) -> dict[HloInstruction, tuple[Cut, ...]]:
    """What a value that need not be added up is made of, where that alone is linear."""
    found: dict[HloInstruction, tuple[Cut, ...]] = {}
    while value.opcode in _LINEAR_ALONE:
        (value,) = value.operands
        (own, *_) = cuts.get(value, ()) or (None,)
        if own is None or {*atoms} & {*own.atoms} or graph.uses(value) != 1:
            break
        found[value] = (replace(own, unreduced=atoms),)
    return found


def _is_call(i: HloInstruction, target: str) -> bool:
    return i.opcode == "custom-call" and bool(i["custom_call_target"] == target)


def _cuts(graph: Graph, i: HloInstruction) -> tuple[Cut, ...]:
    """How each array of an instruction's value is cut, as far as it is asked for or known."""
    grid = graph.annotations.grid
    found: list[Cut] = []
    for number, shape in enumerate(flattened_shapes(i.shape)):
        leaf = graph.leaf(i, number)
        if leaf in graph.foreign or leaf not in graph.tensors or not shape.is_array:
            found.append(graph.foreign.get(leaf))
            continue
        tensor, asked = graph.tensors[leaf], graph.asked.get(leaf)
        cut = _within(grid, tensor, asked)
        found.append(replace(cut, unreduced=graph.sums.get(leaf, cut.unreduced)))
    return tuple(found)


def _sums_kept_apart(
    graph: Graph, cuts: Mapping[HloInstruction, tuple[Cut, ...]]
) -> dict[HloInstruction, tuple[Cut, ...]]:
    """What only an unreduced sum is wanted of: it need not be added up at all."""
    found: dict[HloInstruction, tuple[Cut, ...]] = {}
    for computation in graph.computations():
        for i in computation.instructions:
            (cut, *rest) = cuts.get(i, (None,)) or (None,)
            is_named = _is_call(i, CONSTRAINT) or _is_call(i, RESULT)
            if not is_named or cut is None or rest or not cut.unreduced:
                continue
            (value,) = i.operands
            if value.opcode != "custom-call" and graph.uses(value) == 1:
                found[value] = (cut,)
                found.update(_behind(graph, value, cut.unreduced, cuts))
    return found


def _within(grid: Grid, tensor: Tensor, asked: Asked | None) -> AxisSharding:
    dims = tuple(
        atoms if asked is not None and asked.sharding.dims[d] == atoms
        else longest_used(grid, tensor.sizes[d], atoms)
        for d, atoms in enumerate(tensor.dims)
    )  # fmt: skip
    return AxisSharding(grid, dims, _unreduced(asked))


def _join_groups(graph: Graph) -> None:
    """Members of a group are cut alike: an edge holds them together."""
    groups: dict[str, list[HloInstruction]] = {}
    for computation in graph.computations():
        for i in computation.instructions:
            if i.opcode == "custom-call" and i["custom_call_target"] == GROUP:
                name = dict(i.note.frontend_attributes).get("xla.sdy.sharding_group_id", "")
                groups.setdefault(name, []).append(i.operands[0])
    for members in groups.values():
        graph.join(members)


def flag(flags: Sequence[bool], number: int) -> bool:
    """One flag is for all."""
    if len(flags) == 1:
        return flags[0]
    return number < len(flags) and flags[number]
