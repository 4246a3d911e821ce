"""The tensors and edges of a program: what propagation works on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xladev.hlo.custom_calls.manual import ENTER, LEAVE
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.placement import CONSTRAINT, RESULT, border_placements
from xladev.hlo.shape import Shape, flattened_shapes
from xladev.hlo.sharding.axis_sharding import AxisSharding
from xladev.hlo.sharding.factors import FactorRule, RuleBuilder
from xladev.hlo.sharding.grid import Atoms
from xladev.hlo.sharding.rules.table import factor_rule
from xladev.hlo.sharding.sdy import read_shardings
from xladev.hlo.sharding.tiles import expressed
from xladev.passes.sharding.asked import Annotations, Asked, closed
from xladev.passes.sharding.leaves import Leaf, source
from xladev.passes.sharding.propagate import ELEMENTWISE
from xladev.passes.sharding.tensors import Border, Edge, Spread, Tensor

BARRIER = "xla.sdy.PropagationBarrier"
GROUP = "xla.sdy.ShardingGroup"
_IDENTITIES = frozenset({CONSTRAINT, RESULT, BARRIER})
_DIRECTIONS = (Spread.NONE, Spread.FORWARD, Spread.BACKWARD, Spread.BOTH)
_CONSTANTS = frozenset({"constant", "iota"})


def is_constant(i: HloInstruction) -> bool:
    """True for what every use makes for itself: shardings do not spread through it."""
    if i.opcode in _CONSTANTS:
        return True
    return i.opcode == "broadcast" and is_constant(i.operands[0])


@dataclass(slots=True)
class Graph:
    """The arrays of a program whose calls are inlined.

    Attributes:
        module: the program.
        annotations: its shardings.
        tensors: by the instruction that makes an array, and its number there.
        edges: along which shardings spread, in program order.
        borders: of manual regions.
        asked: what is asked of an array, where something is.
        foreign: arrays with a sharding that the grid cannot express: neither grown nor spread.
    """

    module: HloModule
    annotations: Annotations
    tensors: dict[Leaf, Tensor] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    borders: list[Border] = field(default_factory=list)
    asked: dict[Leaf, Asked] = field(default_factory=dict)
    foreign: dict[Leaf, AxisSharding] = field(default_factory=dict)
    _aliases: dict[Leaf, Leaf] = field(default_factory=dict)
    _uses: dict[Leaf, int] = field(default_factory=dict)

    @classmethod
    def of(cls, module: HloModule, annotations: Annotations) -> Graph:
        """The graph of a module."""
        made = cls(module, annotations)
        for computation in made.computations():
            made._alias(computation)
        for computation in made.computations():
            for i in computation.instructions:
                made._ask_all(i)
        for computation in made.computations():
            for i in computation.instructions:
                made._add(i)
        return made

    def computations(self) -> Iterator[HloComputation]:
        """Computations whose values lie on devices: the entry, and bodies of control flow."""
        seen: dict[HloComputation, None] = {self.module.entry: None}
        pending = [self.module.entry]
        while pending:
            computation = pending.pop()
            yield computation
            for i in computation.instructions:
                if i.opcode in ("while", "conditional", "call"):
                    fresh = [c for c in i.called if c not in seen]
                    seen.update(dict.fromkeys(fresh))
                    pending += fresh

    def leaf(self, i: HloInstruction, number: int) -> Leaf:
        """The one array that stands for all that are the same by the flow of data."""
        found = source(i, number)
        while found in self._aliases:
            found = source(*self._aliases[found])
        return found

    def tensor(self, i: HloInstruction, number: int = 0) -> Tensor:
        """The tensor of an array."""
        leaf = self.leaf(i, number)
        if leaf not in self.tensors:
            shape = flattened_shapes(leaf[0].shape)[leaf[1]]
            self.tensors[leaf] = self._made(shape, self.asked.get(leaf))
        return self.tensors[leaf]

    def _made(self, shape: Shape, asked: Asked | None) -> Tensor:
        rank = shape.rank
        if asked is None or asked.sharding.grid != self.annotations.grid:
            return Tensor(shape.dims, [()] * rank, [asked is None] * rank)
        is_open = [o and not shape.is_dynamic for o in asked.is_open]
        return Tensor(shape.dims, list(asked.sharding.dims), is_open, frozenset(asked.replicated))

    # What is the same, and what is asked

    def _alias(self, computation: HloComputation) -> None:
        for i in computation.instructions:
            if i.opcode == "while":
                for number, _ in _arrays(i):
                    for body in i.called:
                        self._aliases[body.parameters[0], number] = (i, number)
            elif i.opcode == "conditional":
                for body, argument in zip(i.called, i.operands[1:], strict=True):
                    for number, _ in _arrays(argument):
                        self._aliases[body.parameters[0], number] = (argument, number)
            elif i.opcode == "call":
                for parameter, argument in zip(
                    i["to_apply"].parameters, i.operands, strict=True
                ):
                    for number, _ in _arrays(argument):
                        self._aliases[parameter, number] = (argument, number)
            for operand in dict.fromkeys(i.operands):
                for number, _ in _arrays(operand):
                    leaf = source(operand, number)
                    self._uses[leaf] = self._uses.get(leaf, 0) + (i.opcode != "tuple")

    def ask(self, i: HloInstruction, number: int, asked: Asked) -> None:
        """Notes what is asked of an array; the first who asks is heard."""
        leaf = self.leaf(i, number)
        if leaf in self.asked or asked.says_nothing or asked.fault:
            return
        self.asked[leaf] = asked
        if asked.sharding.grid != self.annotations.grid:
            self.foreign[leaf] = asked.sharding

    # Edges

    def _add(self, i: HloInstruction) -> None:
        if i.opcode == "custom-call":
            target = i["custom_call_target"]
            if target in ENTER:
                return self._enter(i)
            if target in LEAVE:
                return self._leave(i)
        if i.opcode == "while":
            for number, shape in _arrays(i):
                body = i["body"]
                self._flow(shape, [(i.operands[0], number), (body.root, number)], (i, number))
        elif i.opcode == "conditional":
            for number, shape in _arrays(i):
                self._flow(shape, [(body.root, number) for body in i.called], (i, number))
        elif i.opcode == "call":
            for number, shape in _arrays(i):
                self._flow(shape, [(i["to_apply"].root, number)], (i, number))
        elif i.opcode == "opt-barrier":
            for number, shape in _arrays(i):
                self._flow(shape, [(i.operands[0], number)], (i, number))
        else:
            self._divisible(i)
        return None

    def _ask_all(self, i: HloInstruction) -> None:
        if i is self.module.entry.root and i.opcode == "tuple":
            return
        if i.opcode == "custom-call" and i["custom_call_target"] in LEAVE:
            for number, (asked, _) in enumerate(self._sides(i, "xla.sdy.out_shardings")):
                self.ask(i, number, asked)
            return
        for number, asked in enumerate(self.annotations.of(i)):
            if asked is not None:
                self.ask(i, number, asked)

    def _flow(self, shape: Shape, sources: Sequence[Leaf], target: Leaf) -> None:
        rule = _same_dims(shape, len(sources))
        operands = tuple(self.tensor(*s) for s in sources)
        self.edges.append(Edge(rule, operands, (self.tensor(*target),), "flow"))

    def _divisible(self, i: HloInstruction) -> None:
        rule = factor_rule(i)
        if rule is None or i.opcode in ("parameter", "tuple", "get-tuple-element"):
            return
        operands = tuple(
            None if is_constant(o) and not self.annotations.of(o)[0] else self.tensor(o)
            for o in i.operands
        )
        results = tuple(self.tensor(i, number) for number, _ in _arrays(i))
        opcode = ELEMENTWISE if _is_elementwise(i) else i.opcode
        uses = max((self._uses.get((i, n), 0) for n, _ in _arrays(i)), default=0)
        self.edges.append(Edge(rule, operands, results, opcode, uses <= 1, _limit(i)))

    def join(self, members: Sequence[HloInstruction]) -> None:
        """Holds arrays of equal dimensions together, as the members of a sharding group are."""
        first = members[0].shape
        same = [self.tensor(m) for m in members if m.shape.dims == first.dims]
        for other in same[1:]:
            self.edges.insert(0, Edge(_same_dims(first, 1), (same[0],), (other,), "flow"))

    # Manual regions

    def _enter(self, i: HloInstruction) -> None:
        sides = self._sides(i, "xla.sdy.in_shardings")
        for number, (operand, (asked, manual)) in enumerate(zip(i.operands, sides, strict=True)):
            outer = self._made(operand.shape, asked)
            self.edges.append(
                Edge(_same_dims(operand.shape, 1), (self.tensor(operand),), (outer,), "flow")
            )
            self._border(i, number, outer, manual)

    def _border(
        self, i: HloInstruction, number: int, outer: Tensor, manual: Sequence[Atoms]
    ) -> None:
        inner = self.tensor(i, number)
        for d, atoms in enumerate(manual):
            inner.dims[d] = outer.dims[d][len(atoms) :]
            inner.is_open[d] = outer.is_open[d]
        self.borders.append(Border(outer, inner, tuple(manual)))

    def _leave(self, i: HloInstruction) -> None:
        sides = self._sides(i, "xla.sdy.out_shardings")
        for number, (operand, (_, manual)) in enumerate(zip(i.operands, sides, strict=True)):
            outer = self.tensor(i, number)
            shape = operand.shape
            inner = Tensor(shape.dims, [()] * shape.rank, list(outer.is_open))
            for d, atoms in enumerate(manual):
                inner.dims[d] = outer.dims[d][len(atoms) :]
            self.edges.append(Edge(_same_dims(shape, 1), (self.tensor(operand),), (inner,), "flow"))
            self.borders.append(Border(outer, inner, tuple(manual)))

    def _sides(self, i: HloInstruction, name: str) -> list[tuple[Asked, tuple[Atoms, ...]]]:
        """For each array at a border its outer sharding, and the manual atoms of its dimensions."""
        attributes: Mapping[str, str] = dict(i.note.frontend_attributes)
        grid = self.annotations.grid
        borders = [
            expressed([grid], placement)
            for placement in border_placements(self.annotations.meshes, i, grid.size)
        ]
        if name not in attributes:
            return [(closed(b), b.dims) for b in borders]
        found = []
        for named, border in zip(read_shardings(attributes[name]), borders, strict=True):
            asked = self.annotations.by_axes(named)
            begins = all(
                dims[: len(m)] == m
                for dims, m in zip(asked.sharding.dims, border.dims, strict=True)
            )
            if border.grid != grid or asked.fault or asked.sharding.grid != grid or not begins:
                asked = closed(border)
            found.append((asked, border.dims))
        return found


def _arrays(i: HloInstruction) -> Iterator[tuple[int, Shape]]:
    return ((n, s) for n, s in enumerate(flattened_shapes(i.shape)) if s.is_array)


def _same_dims(shape: Shape, operands: int) -> FactorRule:
    """Values that flow to one place have all dimensions in common."""
    b = RuleBuilder([shape.rank] * operands, [shape.rank])
    for d, size in enumerate(shape.dims):
        b.factor([d] * operands, [d], size)
    return b.build()


def _is_elementwise(i: HloInstruction) -> bool:
    is_named = i.opcode == "custom-call" and i["custom_call_target"] in _IDENTITIES
    return i.op.elementwise or is_named


def _limit(i: HloInstruction) -> Spread:
    """What a barrier lets through."""
    if i.opcode != "custom-call" or i["custom_call_target"] != BARRIER:
        return Spread.BOTH
    attributes = dict(i.note.frontend_attributes)
    return _DIRECTIONS[int(attributes.get("xla.sdy.allowed_direction", "0"))]
