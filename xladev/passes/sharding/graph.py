"""The tensors and edges of a program: what propagation works on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xladev.hlo.custom_calls.manual import ENTER, LEAVE
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.placement import CONSTRAINT, RESULT
from xladev.hlo.shape import Shape, flattened_shapes
from xladev.hlo.sharding.axis_sharding import AxisSharding
from xladev.hlo.sharding.factors import FactorRule, RuleBuilder
from xladev.hlo.sharding.grid import Atoms
from xladev.hlo.sharding.rules.table import factor_rule
from xladev.passes.sharding.asked import Annotations, Asked
from xladev.passes.sharding.borders import Side, sides
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
        sums: atoms along which an array that loops carry stays a sum.
        foreign: arrays with a sharding that the grid cannot express: neither grown nor spread.
    """

    module: HloModule
    annotations: Annotations
    tensors: dict[Leaf, Tensor] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    borders: list[Border] = field(default_factory=list)
    asked: dict[Leaf, Asked] = field(default_factory=dict)
    sums: dict[Leaf, Atoms] = field(default_factory=dict)
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
        taken = frozenset((*asked.replicated, *asked.sharding.unreduced))
        made = Tensor(shape.dims, list(asked.sharding.dims), is_open, taken)
        made.postpone(asked.priorities)
        return made

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
                for parameter, argument in zip(i["to_apply"].parameters, i.operands, strict=True):
                    for number, _ in _arrays(argument):
                        self._aliases[parameter, number] = (argument, number)
            for operand in dict.fromkeys(i.operands):
                for number, _ in _arrays(operand):
                    leaf = source(operand, number)
                    self._uses[leaf] = self._uses.get(leaf, 0) + (i.opcode != "tuple")

    def carry_sums(self) -> None:
        """Keeps apart what loops carry, if it comes in as a sum and each step gives one."""
        for computation in self.computations():
            for i in computation.instructions:
                for number, _ in _arrays(i) if i.opcode == "while" else ():
                    first = self._summed(i.operands[0], number)
                    leaf = self.leaf(i, number)
                    used = {a for d in self.tensors[leaf].dims for a in d}
                    last = i["body"].root, number
                    is_same = self.leaf(*last) == leaf or self._summed(*last) == first
                    if is_same and leaf not in self.asked and not used & {*first}:
                        self.sums[leaf] = first

    def _summed(self, i: HloInstruction, number: int) -> Atoms:
        asked = self.asked.get(self.leaf(i, number))
        return () if asked is None else asked.sharding.unreduced

    def uses(self, i: HloInstruction) -> int:
        """How many instructions use an array."""
        return self._uses.get((i, 0), 0)

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
            for number, side in enumerate(self._sides(i)):
                self.ask(i, number, side.asked)
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
        for number, (operand, side) in enumerate(zip(i.operands, self._sides(i), strict=True)):
            outer = self._made(operand.shape, side.asked)
            rule = _same_dims(operand.shape, 1)
            self.edges.append(Edge(rule, (self.tensor(operand),), (outer,), "flow"))
            inner = self.tensor(i, number)
            inner.dims = list(side.free(tuple(outer.dims)))
            inner.is_open = list(outer.is_open)
            inner.replicated |= outer.replicated
            self.borders.append(Border(outer, inner, side.manual.dims))

    def _leave(self, i: HloInstruction) -> None:
        for number, (operand, side) in enumerate(zip(i.operands, self._sides(i), strict=True)):
            outer = self.tensor(i, number)
            shape = operand.shape
            free = list(side.free(tuple(outer.dims)))
            inner = Tensor(shape.dims, free, list(outer.is_open), outer.replicated)
            rule = _same_dims(shape, 1)
            self.edges.append(Edge(rule, (self.tensor(operand),), (inner,), "flow"))
            self.borders.append(Border(outer, inner, side.manual.dims))

    def _sides(self, i: HloInstruction) -> list[Side]:
        return sides(self.annotations, i)


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
