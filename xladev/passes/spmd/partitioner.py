"""The SPMD partitioner: walks a program on whole arrays and writes the program of one device.

Invariants: each value is cut in one known way, and its padding may hold anything; all devices run
the same collectives in the same order, since what decides about control flow is the same on all of
them; an opcode without a rule is computed whole on every device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType

from xladev.hlo.custom_calls.definition import DivideFn
from xladev.hlo.custom_calls.manual import ENTER, LEAVE
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.shape import Shape, flattened_shapes
from xladev.hlo.sharding.axis_sharding import AxisSharding, whole_on
from xladev.hlo.sharding.factors import FactorRule
from xladev.hlo.sharding.grid import Grid
from xladev.passes.sharding.borders import Side, sides
from xladev.passes.sharding.chosen import ChosenShardings
from xladev.passes.spmd.choice import Division, Question
from xladev.passes.spmd.held import (
    Cuts,
    Held,
    Leaves,
    assembled,
    cuts_of,
    local_shape,
    part_leaves,
    taken_apart,
)
from xladev.passes.spmd.kinds import reduction
from xladev.passes.spmd.kinds.constants import is_made_of_constants
from xladev.passes.spmd.kinds.table import COMBINED, EMIT, division_rule, may_cut, same
from xladev.passes.spmd.linear import summands_kept
from xladev.passes.spmd.local_builder import LocalBuilder
from xladev.passes.spmd.once import is_made_once, made_once
from xladev.passes.spmd.operation import Operation, local_note
from xladev.passes.spmd.own_division import divided_by_itself, own_divide
from xladev.passes.spmd.report import PartitionReport
from xladev.passes.spmd.reshard import moved_bytes, scattered

_PASSED_ON = frozenset(
    {"Sharding", "xla.sdy.FuncResultSharding", "xla.sdy.PropagationBarrier", "ShardBarrierFrom",
     "ShardBarrierTo"}
)  # fmt: skip
_DROPPED = "xla.sdy.ShardingGroup"


@dataclass(slots=True)
class Partitioner:
    """Partitions the computations of one module.

    Attributes:
        chosen: how values are to be cut.
        replicas: of the module.
        poison: True to fill padding with NaN and extremes, for tests.
        report: what was cut and moved.
    """

    chosen: ChosenShardings
    replicas: int = 1
    poison: bool = False
    report: PartitionReport = field(default_factory=PartitionReport)
    _made: dict[tuple[HloComputation, Cuts, Cuts | None], tuple[HloComputation, Cuts]] = field(
        default_factory=dict
    )

    def computation(
        self, source: HloComputation, given: Sequence[Cuts], wanted: Cuts | None = None
    ) -> tuple[HloComputation, Cuts]:
        """The computation of one device.

        Args:
            source: on whole arrays.
            given: how each parameter is cut.
            wanted: how the result must be cut; None where it does not matter.

        Returns:
            The computation, and how its result is cut.
        """
        flat = tuple(cut for cuts in given for cut in cuts)
        key = (source, flat, wanted)
        if key not in self._made:
            self._made[key] = _Computation(self, source, given).run(wanted)
        return self._made[key]


class _Computation:
    def __init__(self, owner: Partitioner, source: HloComputation, given: Sequence[Cuts]) -> None:
        self.owner = owner
        self.chosen = owner.chosen
        self.source = source
        self.given = given
        self.b = LocalBuilder(source.name, owner.replicas, poison=owner.poison)
        self.values: dict[HloInstruction, Leaves] = {}
        self.current: HloInstruction | None = None
        self.moved: dict[tuple[HloInstruction, AxisSharding], Held] = {}
        self.before: dict[HloInstruction, Held] = {}

    @property
    def grid(self) -> Grid:
        return self.chosen.grid

    def run(self, wanted: Cuts | None) -> tuple[HloComputation, Cuts]:
        """See `Partitioner.computation`."""
        for i in self.source.instructions:
            self.current = i
            self.values[i] = self._partitioned(i)
            self.owner.report.placed(i, cuts_of(self.values[i]))
        self.current = None
        root = self.source.root
        leaves = self.values[root]
        if wanted is not None:
            leaves = tuple(self._to(leaf, cut) for leaf, cut in zip(leaves, wanted, strict=True))
        made = assembled(self.b, leaves, root.shape)
        return self.b.build(made), cuts_of(leaves)

    def _to(self, held: Held, target: AxisSharding | None) -> Held:
        """In another sharding; what was moved there once is not moved again."""
        if target is None or held.sharding is None or target == held.sharding:
            return held
        key = held.value, target
        if key not in self.moved:
            source = self._nearest(held, target)
            self.owner.report.moved(source, target, self.current)
            self.moved[key] = made = source.to(self.b, target)
            if made.value is not source.value:
                self.before[made.value] = source
        return self.moved[key]

    def _nearest(self, held: Held, target: AxisSharding) -> Held:
        """What moves there for fewest bytes: a value, or one that it was cut or moved from."""
        return min((held, *self._sources(held)), key=lambda h: _bytes_to(h, target))

    def _sources(self, held: Held) -> Leaves:
        """What a value was cut or moved from, the last first."""
        found: list[Held] = []
        source = self.before.get(held.value)
        while source is not None:
            found.append(source)
            source = self.before.get(source.value)
        return tuple(found)

    def _partitioned(self, i: HloInstruction) -> Leaves:
        special = _SPECIAL.get(i.opcode)
        if special is not None:
            return special(self, i)
        if i.opcode == "custom-call":
            target = i["custom_call_target"]
            if target in ENTER:
                return self._enter(i)
            if target in LEAVE:
                return self._leave(i)
            if target in _PASSED_ON:
                return self._as_chosen(i, self.values[i.operands[0]])
            if target == _DROPPED:
                return ()
            if (divide := own_divide(i)) is not None:
                return self._divided_by_itself(i, divide)
        return self._divided(i)

    # Opcodes on arrays

    def _divided(self, i: HloInstruction) -> Leaves:
        rule = division_rule(i)
        operands = [self.values[o] for o in i.operands]
        if rule is None or any(len(o) != 1 or o[0].sharding is None for o in operands):
            return self._whole(i)
        given = tuple(o[0] for o in operands)
        wanted = self.chosen.of(i)
        division = self._division(i, rule, given, wanted)
        apart = summands_kept(i, cuts_of(given), division, wanted)
        needed = [
            replace(cut, unreduced=apart.atoms) if n in apart.operands else cut
            for n, cut in enumerate(division.operands)
        ]
        triples = zip(i.operands, given, needed, strict=True)
        parts = tuple(self._operand(o, held, cut).value for o, held, cut in triples)
        operation = Operation(self.b, i, rule, division, parts)
        made = EMIT.get(i.opcode, same)(operation)
        results = tuple(replace(cut, unreduced=apart.atoms) for cut in division.results)
        leaves = taken_apart(self.b, made, i.shape, results)
        if division.partial and len(leaves) > 1:
            leaves = self._combined(operation, leaves)
        elif division.partial:
            leaves = tuple(
                self._added_up(operation, leaf, want)
                for leaf, want in zip(leaves, wanted, strict=True)
            )
        return self._as_chosen(i, leaves)

    def _divided_by_itself(self, i: HloInstruction, divide: DivideFn) -> Leaves:
        given = tuple(leaf for o in i.operands for leaf in self.values[o])
        made = divided_by_itself(i, divide, cuts_of(given), self._settled(i), self.grid)
        pairs = zip(given, made.operands, strict=True)
        parts = [self._to(held, cut).value for held, cut in pairs]
        call = self.b.op("call", *parts, to_apply=made.computation)
        return self._as_chosen(i, taken_apart(self.b, call, i.shape, made.results))

    def _operand(self, i: HloInstruction, held: Held, target: AxisSharding) -> Held:
        """An operand as it is needed; constants are made in parts, rather than cut."""
        if target == held.sharding or not is_made_of_constants(i):
            return self._to(held, target)
        key = held.value, target
        if key not in self.moved:
            self.moved[key] = Held(self._constant(i, target), i.shape, target)
        return self.moved[key]

    def _constant(self, i: HloInstruction, cut: AxisSharding) -> HloInstruction:
        rule = division_rule(i)
        assert rule is not None
        given = tuple(self.values[o][0] for o in i.operands)
        wholes = tuple(h.sharding for h in given)
        shapes = (*(h.shape for h in given), i.shape)
        is_possible = partial(may_cut, i, rule, grid=self.grid)
        free = frozenset(range(len(given)))
        question = Question(self.grid, rule, shapes, wholes, (cut,), is_possible, free)
        division = question.best()
        triples = zip(i.operands, given, division.operands, strict=True)
        parts = tuple(self._operand(o, held, part).value for o, held, part in triples)
        made = EMIT.get(i.opcode, same)(Operation(self.b, i, rule, division, parts))
        return self._to(Held(made, i.shape, division.results[0]), cut).value

    def _division(
        self,
        i: HloInstruction,
        rule: FactorRule,
        given: Sequence[Held],
        wanted: Sequence[AxisSharding | None],
    ) -> Division:
        is_possible = partial(may_cut, i, rule, grid=self.grid)
        shapes = (*(h.shape for h in given), *flattened_shapes(i.shape))
        cuts = tuple(h.sharding for h in given)
        free = frozenset(n for n, o in enumerate(i.operands) if is_made_of_constants(o))
        also = tuple(tuple(filter(None, cuts_of(self._sources(h)))) for h in given)
        question = Question(self.grid, rule, shapes, cuts, tuple(wanted), is_possible, free, also)
        return question.best()

    def _combined(self, o: Operation, leaves: Leaves) -> Leaves:
        """Results that are several arrays, of what each device found."""
        for leaf in leaves:
            assert leaf.sharding is not None
            self.owner.report.summed(leaf, o.division.partial, leaf.sharding, o.instruction)
        made = COMBINED[o.instruction.opcode](o, [leaf.value for leaf in leaves])
        return taken_apart(self.b, made, o.instruction.shape, o.division.results)

    def _added_up(self, o: Operation, leaf: Held, wanted: AxisSharding | None) -> Held:
        """The sum of which each device has a part; where that fits, each keeps what it needs."""
        assert leaf.sharding is not None
        reducer = reduction.reducer_of(o.instruction)
        grid, now, value = leaf.sharding.grid, leaf.sharding, leaf.value
        kept = reduction.kept_apart(o, wanted)
        target = replace(wanted or leaf.sharding, unreduced=kept)
        self.owner.report.summed(leaf, o.division.partial, target, o.instruction)
        rest = tuple(a for a in o.division.partial if a not in kept)
        for d, atoms in scattered(leaf.shape.dims, rest, now, wanted or now):
            value = self.b.reduce_scatter(value, grid, atoms, d, reducer)
            now = now.with_dim(d, now.dims[d] + atoms)
            rest = tuple(a for a in rest if a not in atoms)
        if rest:
            value = self.b.all_reduce(value, grid, rest, reducer)
        if o.instruction.opcode == "reduce":
            value = reduction.with_init(o, value, kept)
        return Held(value, leaf.shape, replace(now, unreduced=(*now.unreduced, *kept)))

    def _as_chosen(self, i: HloInstruction, leaves: Leaves) -> Leaves:
        pairs = zip(leaves, self.chosen.of(i), strict=True)
        return tuple(self._to(leaf, cut) for leaf, cut in pairs)

    def _whole(self, i: HloInstruction) -> Leaves:
        """Computed by every device, of whole operands."""
        operands = [self._assembled_whole(o) for o in i.operands]
        if i.opcode == "bitcast":  # what it means depends on the layout, which moves have lost
            operands = [self.b.op("copy", operands[0], shape=i.operands[0].shape)]
        if is_made_once(i):
            made = made_once(self.b, i, operands, self.grid.size)
        else:
            made = self.b.append(
                HloInstruction(i.op, i.shape, tuple(operands), i.attrs, i.name, local_note(i))
            )
        leaves = taken_apart(self.b, made, i.shape, self._whole_cuts(i.shape))
        return self._as_chosen(i, leaves)

    def _whole_cuts(self, shape: Shape) -> Cuts:
        leaves = flattened_shapes(shape)
        return tuple(whole_on(self.grid, s.rank) if s.is_array else None for s in leaves)

    def _assembled_whole(self, i: HloInstruction) -> HloInstruction:
        return self._assembled(self._made_whole(i), i.shape)

    def _made_whole(self, i: HloInstruction) -> Leaves:
        return tuple(
            self._to(leaf, leaf.sharding and whole_on(self.grid, leaf.shape.rank))
            for leaf in self.values[i]
        )

    def _assembled(self, leaves: Leaves, shape: Shape) -> HloInstruction:
        return assembled(self.b, leaves, shape)

    # Structure

    def parameter(self, i: HloInstruction) -> Leaves:
        cuts = self.given[i["parameter_number"]]
        shape = local_shape(i.shape, cuts)
        made = self.b.append(HloInstruction(i.op, shape, (), i.attrs, i.name, local_note(i)))
        return taken_apart(self.b, made, i.shape, cuts)

    def tuple_(self, i: HloInstruction) -> Leaves:
        return tuple(leaf for o in i.operands for leaf in self.values[o])

    def element(self, i: HloInstruction) -> Leaves:
        (whole,) = i.operands
        return part_leaves(self.values[whole], whole.shape, i["index"])

    def passed_on(self, i: HloInstruction) -> Leaves:
        return self.values[i.operands[0]]

    def barrier(self, i: HloInstruction) -> Leaves:
        leaves = self._as_chosen(i, self.values[i.operands[0]])
        made = self.b.op("opt-barrier", self._assembled(leaves, i.shape))
        return taken_apart(self.b, made, i.shape, cuts_of(leaves))

    def joined_tokens(self, i: HloInstruction) -> Leaves:
        operands = [self._assembled(self.values[o], o.shape) for o in i.operands]
        made = self.b.op("after-all", *operands)
        return (Held(made, i.shape),)

    def while_(self, i: HloInstruction) -> Leaves:
        cuts = self._settled(i)
        pairs = zip(self.values[i.operands[0]], cuts, strict=True)
        state = self._assembled(tuple(self._to(leaf, cut) for leaf, cut in pairs), i.shape)
        body, _ = self.owner.computation(i["body"], [cuts], cuts)
        condition, _ = self.owner.computation(
            i["condition"], [cuts], self._whole_cuts(i["condition"].root.shape)
        )
        return self._called(i, (state,), cuts, body=body, condition=condition)

    def conditional(self, i: HloInstruction) -> Leaves:
        """What decides is the same everywhere, so all devices take the same branch."""
        cuts = self._settled(i)
        selector, *arguments = i.operands
        operands = [self._assembled_whole(selector)]
        names = [a.name for a in i.op.calling if a.name in i.attrs]
        bodies = list(i.called)
        made = []
        for body, argument in zip(bodies, arguments, strict=True):
            given = cuts_of(self.values[argument])
            operands.append(self._assembled(self.values[argument], argument.shape))
            made.append(self.owner.computation(body, [given], cuts)[0])
        attrs = (
            {"branch_computations": tuple(made)}
            if names == ["branch_computations"]
            else dict(zip(names, made, strict=True))
        )
        return self._called(i, operands, cuts, **attrs)

    def call(self, i: HloInstruction) -> Leaves:
        given = [cuts_of(self.values[o]) for o in i.operands]
        operands = [self._assembled(self.values[o], o.shape) for o in i.operands]
        body, cuts = self.owner.computation(i["to_apply"], given)
        return self._as_chosen(i, self._called(i, operands, cuts, to_apply=body))

    def _called(
        self, i: HloInstruction, operands: Sequence[HloInstruction], cuts: Cuts, **attrs: object
    ) -> Leaves:
        made = self.b.append(
            HloInstruction(
                i.op, local_shape(i.shape, cuts), tuple(operands), {**i.attrs, **attrs}, i.name,
                local_note(i),
            )
        )  # fmt: skip
        return taken_apart(self.b, made, i.shape, cuts)

    def _settled(self, i: HloInstruction) -> Cuts:
        """How each array of a value is cut; whole where nothing was chosen."""
        pairs = zip(self.chosen.of(i), self._whole_cuts(i.shape), strict=True)
        return tuple(cut or whole for cut, whole in pairs)

    # Manual regions

    def _enter(self, i: HloInstruction) -> Leaves:
        """What a device holds of an operand, cut along manual axes too, is what it has inside."""
        found: list[Held] = []
        for operand, side, shape, inner in zip(
            i.operands, self._sides(i), flattened_shapes(i.shape), self.chosen.of(i), strict=True
        ):
            (held,) = self.values[operand]
            free = _free(side.manual, shape, inner)
            found.append(Held(self._to(held, side.outer(free)).value, shape, free))
        return self._as_chosen(i, tuple(found))

    def _leave(self, i: HloInstruction) -> Leaves:
        found: list[Held] = []
        for operand, side, shape in zip(
            i.operands, self._sides(i), flattened_shapes(i.shape), strict=True
        ):
            (held,) = self.values[operand]
            free = _free(side.manual, held.shape, held.sharding)
            found.append(Held(self._to(held, free).value, shape, side.outer(free)))
        return self._as_chosen(i, tuple(found))

    def _sides(self, i: HloInstruction) -> list[Side]:
        return sides(self.chosen.annotations, i)


def _bytes_to(held: Held, target: AxisSharding) -> int:
    return 0 if held.sharding is None else moved_bytes(held.shape, held.sharding, target)


def _free(border: AxisSharding, shape: Shape, inner: AxisSharding | None) -> AxisSharding:
    """How a value within a manual region is cut beyond its border; whole where that cannot be."""
    if inner is not None and inner.grid == border.grid:
        apart = not {*inner.atoms} & {*border.atoms, *border.unreduced}
        if apart and inner.is_even(shape.dims):
            return inner.reduced
    return whole_on(border.grid, shape.rank)


_SPECIAL: Mapping[str, Callable[[_Computation, HloInstruction], Leaves]] = MappingProxyType(
    {
        "parameter": _Computation.parameter,
        "tuple": _Computation.tuple_,
        "get-tuple-element": _Computation.element,
        "while": _Computation.while_,
        "conditional": _Computation.conditional,
        "call": _Computation.call,
        "opt-barrier": _Computation.barrier,
        "after-all": _Computation.joined_tokens,
        "add-dependency": _Computation.passed_on,
        "domain": _Computation.passed_on,
    }
)
