"""Resharding: the steps from one sharding of a value to another, what they move, and their code.

Order of preference, as XLA's partitioner and Shardy's reshards have it: a permutation where parts
stay the same and only move; slices, which move nothing; all-to-all, which moves a cut from one
dimension to another; all-gather for what is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile

from xladev.hlo.dtype import U8
from xladev.hlo.ir import HloInstruction
from xladev.hlo.shape import Shape, array
from xladev.hlo.sharding.axis_sharding import AxisSharding, whole_on
from xladev.hlo.sharding.grid import Atoms
from xladev.passes.expansions.emit import binary_computation
from xladev.passes.spmd.local_builder import LocalBuilder
from xladev.passes.spmd.transfer import Box, Round, emit, rounds

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a reshard.

    Attributes:
        kind: ``slice``, ``all-gather``, ``all-to-all``, ``collective-permute``, ``all-reduce``,
            ``reduce-scatter``, ``unreduce`` (one summand is all, the others zero), ``place`` (each
            summand is a part at its place, and zero elsewhere), ``transfer`` or ``rename``.
        before, after: how the value is cut on either side of it.
        dimension: that is cut less, or (slice) more.
        target: of an all-to-all, the dimension that is cut more.
        atoms: along which.
        pairs: of a permutation, source and target devices.
        rounds: of a transfer.
    """

    kind: str
    before: AxisSharding
    after: AxisSharding
    dimension: int = 0
    target: int = 0
    atoms: Atoms = ()
    pairs: Pairs = ()
    rounds: tuple[Round, ...] = ()

    def moved(self, shape: Shape) -> int:
        """Bytes that each device receives."""
        if self.kind == "transfer":
            elements = sum(each.moved for each in self.rounds)
            return -(-elements * shape.nbytes // (shape.size * self.before.grid.size))
        part, count = self.before.part_bytes(shape), self.before.grid.count(self.atoms)
        if self.kind == "all-gather":
            return part * (count - 1)
        if self.kind == "all-reduce":
            return 2 * part * (count - 1) // count
        if self.kind in ("all-to-all", "reduce-scatter"):
            return part * (count - 1) // count
        return part if self.kind == "collective-permute" else 0


@lru_cache(4096)
def plan(dims: tuple[int, ...], source: AxisSharding, target: AxisSharding) -> tuple[Step, ...]:
    """The steps from one sharding of an array to another.

    Args:
        dims: of the whole array.
        source: how it is cut.
        target: how it is to be cut.
    """
    steps = tuple(_Plan(dims, source, target).steps())
    moving = [step for step in steps if step.kind in _MOVING]
    is_even = source.is_even(dims) and target.is_even(dims)
    apart = source.unreduced or target.unreduced or source.grid.size > _MOST_DEVICES
    joins = len(steps) > 1 and any(step.kind in _JOINING for step in moving)
    if apart or not moving or 0 in dims or (is_even and not joins):
        return steps
    made = _transfer(dims, source, target)
    return (made,) if _is_better(made, moving, dims, is_even=is_even) else steps


_MOST_DEVICES = 64
_JOINING = frozenset({"all-gather", "transfer"})
_MOVING = frozenset({"all-gather", "all-to-all", "collective-permute", "transfer"})


def _transfer(dims: tuple[int, ...], source: AxisSharding, target: AxisSharding) -> Step:
    """Each device is sent what it lacks."""
    devices = range(source.grid.size)
    origins = [target.starts(dims, device) for device in devices]
    has = [_box(dims, source, device) for device in devices]
    needs = [_box(dims, target, device) for device in devices]
    return Step("transfer", source, target, rounds=tuple(rounds(has, needs, origins)))


def _box(dims: tuple[int, ...], cut: AxisSharding, device: int) -> Box:
    """The elements that a device has, without padding."""
    starts = cut.starts(dims, device)
    ends = (s + n for s, n in zip(starts, cut.local_dims(dims), strict=True))
    return Box(starts, tuple(map(min, ends, dims)))


def _is_better(made: Step, moving: Sequence[Step], dims: tuple[int, ...], *, is_even: bool) -> bool:
    """True if a transfer saves bytes: enough of them, where collectives on whole parts fit."""
    shape = array(U8, dims)
    others, own = sum(step.moved(shape) for step in moving), made.moved(shape)
    if is_even:
        return 3 * own < others and len(made.rounds) <= _FEW_ROUNDS
    return own < others and len(made.rounds) <= 4 * made.before.grid.size


_FEW_ROUNDS = 8


def moved_bytes(shape: Shape, source: AxisSharding, target: AxisSharding) -> int:
    """Bytes that each device receives in a reshard."""
    return sum(step.moved(shape) for step in plan(shape.dims, source, target))


class _Plan:
    def __init__(self, dims: tuple[int, ...], source: AxisSharding, target: AxisSharding) -> None:
        self.dims = dims
        self.now = source
        self.goal = target

    def steps(self) -> Iterator[Step]:
        """See `plan`."""
        yield from self._add_up()
        if self.now.grid != self.goal.grid:
            yield from self._to_other_grid()
        while self.now.dims != self.goal.dims:
            step = (
                self._permute()
                or self._place()
                or self._slice()
                or self._exchange()
                or self._gather()
            )
            self.now = step.after
            yield step
        more = tuple(a for a in self.goal.unreduced if a not in self.now.unreduced)
        if more:
            yield Step("unreduce", self.now, self.goal, atoms=more)
        elif self.now != self.goal:
            yield Step("rename", self.now, self.goal)

    def _add_up(self) -> Iterator[Step]:
        """Adds up what the goal has not as a sum."""
        kept = self.goal.unreduced if self.now.grid == self.goal.grid else ()
        rest = tuple(a for a in self.now.unreduced if a not in kept)
        for d, atoms in scattered(self.dims, rest, self.now, self.goal):
            left = tuple(a for a in self.now.unreduced if a not in atoms)
            after = replace(self.now.with_dim(d, self.now.dims[d] + atoms), unreduced=left)
            yield Step("reduce-scatter", self.now, after, d, atoms=atoms)
            self.now = after
            rest = tuple(a for a in rest if a not in atoms)
        if rest:
            left = tuple(a for a in self.now.unreduced if a not in rest)
            after = replace(self.now, unreduced=left)
            yield Step("all-reduce", self.now, after, atoms=rest)
            self.now = after

    def _to_other_grid(self) -> Iterator[Step]:
        step = self._permute()
        if step is None:
            whole = whole_on(self.now.grid, len(self.dims))
            yield from plan(self.dims, self.now.reduced, whole)
            self.now = whole
            step = Step("rename", whole, whole_on(self.goal.grid, len(self.dims)))
        self.now = step.after
        yield step

    def _permute(self) -> Step | None:
        """Parts are the same, on other devices."""
        if self.now.counts != self.goal.counts or not self.now.atoms or self.now.unreduced:
            return None
        pairs = _moves(self.now, self.goal)
        kind = "collective-permute" if any(s != t for s, t in pairs) else "rename"
        return Step(kind, self.now, self.goal.reduced, pairs=pairs)

    def _place(self) -> Step | None:
        """Makes summands of parts: nothing moves."""
        for d in range(len(self.dims)):
            extra = self._extra(d)
            if not extra or not {*extra} <= {*self.goal.unreduced} - {*self.now.unreduced}:
                continue
            if self._is_regular(d, self.now.dims[d]):
                left = self.now.dims[d][: -len(extra)]
                summed = (*self.now.unreduced, *extra)
                after = replace(self.now.with_dim(d, left), unreduced=summed)
                return Step("place", self.now, after, d, atoms=extra)
        return None

    def _slice(self) -> Step | None:
        """Cuts a dimension that the goal cuts more, along atoms that nothing is cut along."""
        used = (*self.now.atoms, *self.now.unreduced)
        for d, goal in enumerate(self.goal.dims):
            more = tuple(takewhile(lambda a: a not in used, self._missing(d)))
            if not more or not (self._is_regular(d, goal) or more == goal):
                continue
            after = self.now.with_dim(d, self.now.dims[d] + more)
            return Step("slice", self.now, after, d, atoms=more)
        return None

    def _exchange(self) -> Step | None:
        """Moves the innermost cut of one dimension to another one."""
        for source in range(len(self.dims)):
            extra = self._extra(source)
            for target in range(len(self.dims)):
                missing = self._missing(target)
                common = _overlap(extra, missing) if source != target else 0
                if not common:
                    continue
                atoms, left = missing[:common], self.now.dims[source][: -common or None]
                after = self.now.with_dim(source, left)
                after = after.with_dim(target, self.now.dims[target] + atoms)
                if all(
                    self._is_regular(d, s.dims[d])
                    for d in (source, target)
                    for s in (self.now, after)
                ):
                    return Step("all-to-all", self.now, after, source, target, atoms)
        return None

    def _gather(self) -> Step:
        """Joins the parts of a dimension that the goal cuts otherwise."""
        d = next(d for d in range(len(self.dims)) if self._extra(d))
        extra = self._extra(d)
        if not self._is_regular(d, self.now.dims[d]):
            extra = self.now.dims[d]
        left = self.now.dims[d][: len(self.now.dims[d]) - len(extra)]
        return Step("all-gather", self.now, self.now.with_dim(d, left), d, atoms=extra)

    def _missing(self, d: int) -> Atoms:
        """Atoms that the goal has behind what there is; none where that must go first."""
        now, goal = self.now.dims[d], self.goal.dims[d]
        return goal[len(now) :] if goal[: len(now)] == now else ()

    def _extra(self, d: int) -> Atoms:
        """Atoms that have to go."""
        now, goal = self.now.dims[d], self.goal.dims[d]
        common = 0
        while common < min(len(now), len(goal)) and now[common] == goal[common]:
            common += 1
        is_regular = self._is_regular(d, now) and self._is_regular(d, goal)
        return now[common:] if is_regular or now == goal else now

    def _is_regular(self, d: int, atoms: Atoms) -> bool:
        """True if parts along these atoms, and along fewer of them, have no padding."""
        return self.dims[d] % self.now.grid.count(atoms) == 0


def _overlap(extra: Atoms, missing: Atoms) -> int:
    """Length of the longest end of one that the other begins with."""
    longest = min(len(extra), len(missing))
    return next((n for n in range(longest, 0, -1) if extra[-n:] == missing[:n]), 0)


def _moves(source: AxisSharding, target: AxisSharding) -> Pairs:
    """For each device the one that it gets its part from; itself where it has it."""
    has, wants = source.placement.parts, target.placement.parts
    holders: dict[tuple[int, ...], list[int]] = {}
    for device, part in enumerate(has):
        if has[device] != wants[device]:
            holders.setdefault(part, []).append(device)
    return tuple(
        (device if has[device] == part else holders[part].pop(0), device)
        for device, part in enumerate(wants)
    )


def scattered(
    dims: Sequence[int], partial: Atoms, cut: AxisSharding, target: AxisSharding
) -> list[tuple[int, Atoms]]:
    """Dimensions, and the atoms along which a sum may be left in the parts that are wanted.

    Args:
        dims: of the whole array.
        partial: atoms along which each device has one summand.
        cut: how the summands are cut.
        target: how the sum is wanted.
    """
    if target.grid != cut.grid:
        return []
    found: list[tuple[int, Atoms]] = []
    for d, goal in enumerate(target.dims):
        now = cut.dims[d]
        more = goal[len(now) :]
        if goal[: len(now)] != now or dims[d] % cut.grid.count(goal):
            continue
        taken = tuple(takewhile(lambda a: a in partial, more))
        if taken:
            found.append((d, taken))
    return found


def reshard(
    b: LocalBuilder, x: HloInstruction, shape: Shape, source: AxisSharding, target: AxisSharding
) -> HloInstruction:
    """The code of a reshard.

    Args:
        b: takes it.
        x: the part that this device has.
        shape: of the whole array.
        source: how it is cut.
        target: how it is to be cut.
    """
    for step in plan(shape.dims, source, target):
        x = _EMIT[step.kind](b, x, shape.dims, step)
    return x


def _emit_slice(
    b: LocalBuilder, x: HloInstruction, dims: Sequence[int], step: Step
) -> HloInstruction:
    d = step.dimension
    size = step.after.local_dims(dims)[d]
    count = step.before.grid.count(step.atoms)
    padded = b.padded(x, d, size * count - x.shape.dims[d])
    sizes = list(x.shape.dims)
    sizes[d] = size
    starts: list[HloInstruction | int] = [0] * len(dims)
    starts[d] = b.chosen([place * size for place in step.before.grid.index(step.atoms)])
    return b.dynamic_slice(padded, starts, sizes)


def _emit_gather(
    b: LocalBuilder, x: HloInstruction, dims: Sequence[int], step: Step
) -> HloInstruction:
    d = step.dimension
    gathered = b.all_gather(x, step.before.grid, step.atoms, d)
    return b.slice_in(gathered, d, 0, step.after.local_dims(dims)[d])


def _emit_exchange(
    b: LocalBuilder, x: HloInstruction, _: Sequence[int], step: Step
) -> HloInstruction:
    return b.all_to_all(x, step.before.grid, step.atoms, step.dimension, step.target)


def _emit_sum(b: LocalBuilder, x: HloInstruction, _: Sequence[int], step: Step) -> HloInstruction:
    reducer = binary_computation("add", x.shape.element_type)
    if step.kind == "all-reduce":
        return b.all_reduce(x, step.before.grid, step.atoms, reducer)
    return b.reduce_scatter(x, step.before.grid, step.atoms, step.dimension, reducer)


def _emit_unreduce(
    b: LocalBuilder, x: HloInstruction, _: Sequence[int], step: Step
) -> HloInstruction:
    is_first = b.compare("EQ", b.chosen(step.before.grid.index(step.atoms)), 0)
    return b.op("select", b.broadcast(is_first, x.shape.dims, ()), x, b.full_like(x, 0))


def _emit_place(
    b: LocalBuilder, x: HloInstruction, dims: Sequence[int], step: Step
) -> HloInstruction:
    d, size = step.dimension, x.shape.dims[step.dimension]
    zeros = b.full(0, x.shape.element_type, step.after.local_dims(dims))
    starts: list[HloInstruction | int] = [0] * len(dims)
    starts[d] = b.chosen([place * size for place in step.before.grid.index(step.atoms)])
    return b.dynamic_update_slice(zeros, x, starts)


def _emit_permute(
    b: LocalBuilder, x: HloInstruction, _: Sequence[int], step: Step
) -> HloInstruction:
    return b.permute(x, step.pairs)


def _emit_transfer(
    b: LocalBuilder, x: HloInstruction, dims: Sequence[int], step: Step
) -> HloInstruction:
    into = b.unspecified(x.shape.element_type, step.after.local_dims(dims))
    devices = range(step.before.grid.size)
    return emit(b, x, into, step.rounds, devices, list, range(len(dims)))


def _emit_nothing(
    _: LocalBuilder, x: HloInstruction, __: Sequence[int], ___: Step
) -> HloInstruction:
    return x


_EMIT = {
    "slice": _emit_slice,
    "all-gather": _emit_gather,
    "all-to-all": _emit_exchange,
    "collective-permute": _emit_permute,
    "all-reduce": _emit_sum,
    "reduce-scatter": _emit_sum,
    "unreduce": _emit_unreduce,
    "place": _emit_place,
    "transfer": _emit_transfer,
    "rename": _emit_nothing,
}
