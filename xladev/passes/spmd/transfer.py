"""Transfers: what each holder of a box of an array receives to have another box of it.

Where parts have padding, or begin elsewhere, no collective on whole parts fits. Each holder then
needs some boxes out of others' parts. Boxes of one size that go from distinct holders to distinct
ones make a round, which is one collective-permute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

from xladev.hlo.ir import HloInstruction
from xladev.passes.spmd.local_builder import LocalBuilder

Pairs = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Box:
    """A range of each of some dimensions; empty where an end is not behind its start."""

    starts: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def is_empty(self) -> bool:
        """True if it has no element."""
        return any(e <= s for s, e in zip(self.starts, self.ends, strict=True))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of elements by dimension."""
        return tuple(e - s for s, e in zip(self.starts, self.ends, strict=True))

    def common(self, other: Box) -> Box:
        """What both have."""
        starts = tuple(map(max, self.starts, other.starts))
        return Box(starts, tuple(map(min, self.ends, other.ends)))

    def offset(self, origin: Sequence[int]) -> tuple[int, ...]:
        """Where it begins, seen from a place."""
        return tuple(s - o for s, o in zip(self.starts, origin, strict=True))


@dataclass(slots=True)
class Round:
    """Boxes of one size, moved at once.

    Attributes:
        sizes: of each box.
        sources: by target, the holder it comes from; the target itself where nothing moves.
        taken: by source, where in its part its box begins.
        put: by target, where its box begins in what it needs.
    """

    sizes: tuple[int, ...]
    sources: dict[int, int] = field(default_factory=dict[int, int])
    taken: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    put: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])

    @property
    def pairs(self) -> Pairs:
        """Sources and targets, where they differ."""
        return [(s, t) for t, s in self.sources.items() if s != t]

    @property
    def moved(self) -> int:
        """How many elements all holders receive together."""
        return prod(self.sizes) * len(self.pairs)

    def has_room(self, source: int, target: int, offset: tuple[int, ...]) -> bool:
        """True if a box can go along."""
        is_same = self.taken.get(source, offset) == offset
        return is_same and target not in self.sources and source not in self.sources.values()


def rounds(
    has: Sequence[Box], needs: Sequence[Box], origins: Sequence[Sequence[int]]
) -> list[Round]:
    """How holders get what they need.

    Args:
        has: by holder its box; boxes are the same or have nothing in common.
        needs: by holder a box that all boxes together cover.
        origins: by holder, where what it needs is counted from.
    """
    holders: dict[Box, list[int]] = {}
    for holder, box in enumerate(has):
        if not box.is_empty:
            holders.setdefault(box, []).append(holder)
    sent: Counter[int] = Counter()
    found: dict[tuple[tuple[int, ...], bool], list[Round]] = {}
    for target, need in enumerate(needs):
        for box, owners in holders.items():
            common = box.common(need)
            if common.is_empty:
                continue
            source = _source(target, owners, sent, len(has))
            put, taken = common.offset(origins[target]), common.offset(box.starts)
            listed = found.setdefault((common.sizes, source == target), [])
            _add(listed, common.sizes, (source, taken), (target, put))
    return [each for listed in found.values() for each in listed]


def _source(target: int, owners: Sequence[int], sent: Counter[int], count: int) -> int:
    """The target itself, or the owner that has sent least."""
    if target in owners:
        return target
    source = min(owners, key=lambda o: (sent[o], (o - target) % count))
    sent[source] += 1
    return source


def _add(
    listed: list[Round],
    sizes: tuple[int, ...],
    source: tuple[int, tuple[int, ...]],
    target: tuple[int, tuple[int, ...]],
) -> None:
    chosen = next((r for r in listed if r.has_room(source[0], target[0], source[1])), None)
    if chosen is None:
        chosen = Round(sizes)
        listed.append(chosen)
    chosen.sources[target[0]] = source[0]
    chosen.taken[source[0]] = source[1]
    chosen.put[target[0]] = target[1]


def emit(
    b: LocalBuilder,
    x: HloInstruction,
    into: HloInstruction,
    steps: Sequence[Round],
    holder_of: Sequence[int],
    pairs_of: Callable[[Pairs], Pairs],
    dimensions: Sequence[int],
) -> HloInstruction:
    """The code of a transfer.

    Args:
        b: takes it.
        x: the part that this device has.
        into: what the boxes are put into.
        steps: see `rounds`.
        holder_of: by device, which holder it is.
        pairs_of: pairs of devices, from pairs of holders.
        dimensions: those of the boxes; all others are taken whole.
    """
    for step in steps:
        sizes = _with(x.shape.dims, dimensions, step.sizes)
        box = b.dynamic_slice(x, _starts(b, x, dimensions, step.taken, holder_of), sizes)
        if step.pairs:
            box = b.permute(box, pairs_of(step.pairs))
        put = b.dynamic_update_slice(into, box, _starts(b, x, dimensions, step.put, holder_of))
        if all(holder in step.sources for holder in holder_of):
            into = put
            continue
        is_target = b.compare("EQ", b.chosen([int(h in step.sources) for h in holder_of]), 1)
        into = b.op("select", b.broadcast(is_target, put.shape.dims, ()), put, into)
    return into


def _with(dims: Sequence[int], dimensions: Sequence[int], sizes: Sequence[int]) -> list[int]:
    found = list(dims)
    for d, size in zip(dimensions, sizes, strict=True):
        found[d] = size
    return found


def _starts(
    b: LocalBuilder,
    x: HloInstruction,
    dimensions: Sequence[int],
    at: dict[int, tuple[int, ...]],
    holder_of: Sequence[int],
) -> list[HloInstruction | int]:
    found: list[HloInstruction | int] = [0] * x.shape.rank
    for n, d in enumerate(dimensions):
        found[d] = b.chosen([at[h][n] if h in at else 0 for h in holder_of])
    return found
