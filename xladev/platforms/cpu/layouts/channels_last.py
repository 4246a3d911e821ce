"""Channels last: the order of dimensions that kernels of convolutions are fastest with.

PyTorch, ONNX and JAX by default lay images out with features before pixels. With features last, a
tile's vectors are features, of which there are whole ones; nothing is gathered where windows have
strides, and the channels of a depthwise convolution are neighbours. Such arrays go from convolution
to convolution through whatever follows; transposes are at the ends. A group of convolutions that
are connected so is changed if that saves more than its transposes take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from xladev import instrument
from xladev.codegen.llvm import TargetTraits
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.names import with_unique_names
from xladev.hlo.rebuild import map_computations, rebuild
from xladev.passes.dce import without_dead
from xladev.passes.effects import computations_with_effects
from xladev.passes.expansions.emit import Emitter
from xladev.passes.pass_ import HloModulePass
from xladev.platforms.cpu.layouts.convolutions import gain_ns, way_of, written_convolution
from xladev.platforms.cpu.layouts.filter_gradients import (
    filter_gradient_gain_ns,
    filter_gradient_way,
    written_filter_gradient,
)
from xladev.platforms.cpu.layouts.followers import Way, following, written
from xladev.platforms.cpu.layouts.orders import (
    Span,
    is_free,
    order_with_last,
    place_of,
    with_last,
)

TRANSPOSED_NS = 0.15
"""To transpose an element, about."""
FEW_CHANNELS = 8
"""Channels below which a transpose is done element by element, in four times that time."""
Maker = Callable[[Emitter, HloInstruction, Sequence[HloInstruction]], HloInstruction]
"""Writes an instruction on operands whose dimensions are moved."""
LEAST_FLOATS = 4
"""Floats of a vector below which convolutions of planes have loops."""


@dataclass(frozen=True, slots=True)
class ChannelsLast(HloModulePass):
    """Moves the channels of convolutions behind their other dimensions, where that is faster.

    Attributes:
        target: says how long vectors are.
    """

    name = "channels-last"
    only_for = frozenset({"convolution"})
    target: TargetTraits

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        lanes = self.target.vector_nbytes // 4
        if lanes < LEAST_FLOATS:
            return module
        effects = {c.name for c in computations_with_effects(module)}

        def change(computation: HloComputation) -> HloComputation:
            if not any(i.opcode == "convolution" for i in computation.instructions):
                return computation
            after = _Change(computation, lanes).run()
            return after if after is computation else without_dead(after, effects)

        changed = map_computations(module, change)
        return module if changed is module else with_unique_names(changed)


class _Change:
    """Of one computation.

    Attributes:
        gains: nanoseconds that each convolution takes less.
        makers: what writes each of these convolutions.
        ways: of convolutions and of what follows them.
        before: of each of these, one that it is connected with; itself at the end.
    """

    def __init__(self, computation: HloComputation, lanes: int) -> None:
        self.computation, self.lanes = computation, lanes
        self.gains: dict[HloInstruction, float] = {}
        self.makers: dict[HloInstruction, Maker] = {}
        self.ways: dict[HloInstruction, Way] = {}
        self.before: dict[HloInstruction, HloInstruction] = {}

    def run(self) -> HloComputation:
        """The computation itself if nothing is faster."""
        for i in self.computation.instructions:
            way = self._way(i)
            if way is not None:
                self.ways[i], self.before[i] = way, i
                for o, channels in _moved_operands(i, way):
                    if self._has(o, channels):
                        self.before[self._group(i)] = self._group(o)
        if not self.gains:
            return self.computation
        costs = self._costs()
        totals = dict.fromkeys(map(self._group, self.gains), 0.0)
        for i, gain in self.gains.items():
            totals[self._group(i)] += gain
        kept = {g for g, total in totals.items() if total > costs.get(g, 0.0)}
        for i in self.gains:
            group = self._group(i)
            saved = totals[group] - costs.get(group, 0.0)
            what = "last, about" if group in kept else "where they are; last, all would take"
            text = f"channels {what} {abs(saved) / 1e3:.0f} us {'less' if saved > 0 else 'more'}"
            instrument.decision(ChannelsLast.name, i.name, text)
        return self._written(kept) if kept else self.computation

    def _way(self, i: HloInstruction) -> Way | None:
        if not _is_plain(i):
            return None
        if i.opcode == "convolution":
            return self._way_of_convolution(i)
        for number, o in enumerate(i.operands):
            if o in self.ways and self.ways[o].result.moves(o.shape.rank):
                way = following(i, number, self.ways[o].result)
                if way is not None:
                    return way
        return None

    def _way_of_convolution(self, i: HloInstruction) -> Way | None:
        gain = filter_gradient_gain_ns(i)
        if gain is not None:
            self.gains[i], self.makers[i] = gain, written_filter_gradient
            return filter_gradient_way(i)
        gain = gain_ns(i, self.lanes)
        if gain is None:
            return None
        self.gains[i], self.makers[i] = gain, written_convolution
        return way_of(i)

    def _has(self, value: HloInstruction, channels: Span) -> bool:
        return value in self.ways and self.ways[value].result == channels

    def _group(self, i: HloInstruction) -> HloInstruction:
        """What stands for all that are connected with an instruction."""
        while self.before[i] is not i:
            self.before[i] = i = self.before[self.before[i]]
        return i

    def _costs(self) -> dict[HloInstruction, float]:
        """Nanoseconds of the transposes at the ends of each group."""
        wanted = dict[tuple[HloInstruction, HloInstruction, Span], None]()
        for i, way in self.ways.items():
            for o, channels in _moved_operands(i, way):
                if not self._has(o, channels):
                    wanted[self._group(i), o, channels] = None
        for user in self.computation.instructions:
            known = self.ways.get(user)
            spans = (None,) * len(user.operands) if known is None else known.operands
            for o, span in zip(user.operands, spans, strict=True):
                if o in self.ways and (span is None or not self._has(o, span)):
                    wanted[self._group(o), o, self.ways[o].result] = None
        root = self.computation.root
        if root in self.ways:
            wanted[self._group(root), root, self.ways[root].result] = None
        costs: dict[HloInstruction, float] = {}
        for group, value, channels in wanted:
            costs[group] = costs.get(group, 0.0) + _transposed_ns(value, channels)
        return costs

    def _written(self, kept: set[HloInstruction]) -> HloComputation:
        e, made = Emitter("moved"), dict[HloInstruction, HloInstruction]()
        moved = dict[tuple[HloInstruction, Span], HloInstruction]()

        def operand(o: HloInstruction, channels: Span | None) -> HloInstruction:
            if channels is None:
                return o
            if o in made and self._has(o, channels):
                return made[o]
            if (o, channels) not in moved:
                moved[o, channels] = _transposed(e, o, channels)
            return moved[o, channels]

        replacements: dict[HloInstruction, HloInstruction] = {}
        for i, way in self.ways.items():
            if self._group(i) in kept:
                operands = [operand(*pair) for pair in zip(i.operands, way.operands, strict=True)]
                make = self.makers.get(i, partial(written, way))
                made[i] = make(e, i, operands)
                replacements[i] = _transposed_back(e, made[i], way.result)
        return rebuild(self.computation, replacements)


def _moved_operands(i: HloInstruction, way: Way) -> Iterator[tuple[HloInstruction, Span]]:
    for o, channels in zip(i.operands, way.operands, strict=True):
        if channels is not None:
            yield o, channels


def _is_plain(i: HloInstruction) -> bool:
    """True for what no rule but its opcode's holds."""
    values = (i, *i.operands)
    is_static = all(v.shape.is_array and not v.shape.is_dynamic for v in values)
    return is_static and not i.note.control_predecessors


def _transposed_ns(value: HloInstruction, channels: Span) -> float:
    """To move a dimension; nothing for what is made in that order anyway."""
    dims = value.shape.dims
    is_spread = value.opcode == "broadcast" and value.operands[0].shape.rank < 2
    if not dims or is_spread or value.opcode == "constant" or is_free(dims, channels):
        return 0.0
    slow = 4 if prod(dims[channels.first : channels.end]) < FEW_CHANNELS else 1
    return TRANSPOSED_NS * slow * value.shape.nbytes / 4


def _transposed(e: Emitter, value: HloInstruction, channels: Span) -> HloInstruction:
    """A value with a dimension moved behind all others."""
    rank = value.shape.rank
    if value.opcode != "broadcast":
        return e.transpose(value, order_with_last(rank, channels))
    (source,) = value.operands
    at = [place_of(d, channels, rank) for d in value["dimensions"]]
    order = sorted(range(len(at)), key=lambda n: at[n])
    dims = with_last(value.shape.dims, channels)
    return e.broadcast(e.transpose(source, order), dims, sorted(at))


def _transposed_back(e: Emitter, value: HloInstruction, channels: Span) -> HloInstruction:
    rank = value.shape.rank
    return e.transpose(value, tuple(place_of(d, channels, rank) for d in range(rank)))
