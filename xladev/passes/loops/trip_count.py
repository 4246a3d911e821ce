"""How often a loop runs, where its counter, step and limit are plain to see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.passes.loops.loop import KnownLoop

_SWAPPED: Mapping[str, str] = MappingProxyType(
    {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "EQ": "EQ", "NE": "NE"}
)


@dataclass(frozen=True, slots=True)
class Counter:
    """A part of a loop's state that counts.

    Attributes:
        part: its number in the state.
        first: its first value.
        step: what each iteration adds.
        direction: the loop goes on while ``counter direction limit``.
        limit: what it is compared with.
        element_type: its type; integers.
    """

    part: int
    first: int
    step: int
    direction: str
    limit: int
    element_type: PrimitiveType

    @property
    def iterations(self) -> int | None:
        """How often the body runs; None if the counter would wrap first, or never get there."""
        count = _ITERATIONS[self.direction](self.limit - self.first, self.step)
        if count is None:
            return None
        signed, bits = self.element_type.is_signed, self.element_type.bits
        least = -(1 << bits - 1) if signed else 0
        last = self.first + count * self.step
        return count if least <= last < least + (1 << bits) else None


def _until_reached(distance: int, step: int) -> int | None:
    if distance <= 0:
        return 0
    return -(-distance // step) if step > 0 else None


def _until_passed(distance: int, step: int) -> int | None:
    return _until_reached(distance + 1, step)


def _until_equal(distance: int, step: int) -> int | None:
    if distance == 0:
        return 0
    exact = step and distance % step == 0 and distance // step > 0
    return distance // step if exact else None


def _while_equal(distance: int, step: int) -> int | None:
    if distance:
        return 0
    return 1 if step else None


_ITERATIONS: Mapping[str, Callable[[int, int], int | None]] = MappingProxyType(
    {
        "LT": _until_reached,
        "LE": _until_passed,
        "GT": lambda distance, step: _until_reached(-distance, -step),
        "GE": lambda distance, step: _until_passed(-distance, -step),
        "NE": _until_equal,
        "EQ": _while_equal,
    }
)
"""Number of iterations from (limit - first, step), by direction."""


def counter_of(loop: KnownLoop) -> Counter | None:
    """What the loop counts; None if its condition is no comparison of a counter with a constant."""
    test = loop.condition.root
    if test.opcode != "compare" or not test.operands[0].shape.element_type.is_integral:
        return None
    left, right = test.operands
    found = _counter(loop, left, right, test["direction"])
    return found or _counter(loop, right, left, _SWAPPED[test["direction"]])


def trip_count(loop: KnownLoop) -> int | None:
    """How often the body runs; None if that is not plain to see."""
    counter = counter_of(loop)
    return None if counter is None else counter.iterations


def _counter(
    loop: KnownLoop, counted: HloInstruction, limit: HloInstruction, direction: str
) -> Counter | None:
    part = _state_part(counted, loop.condition.parameters[0])
    if part is None:
        return None
    first, step = _integer(loop.first(part)), _step(loop, part)
    most = _value(loop, limit, loop.condition.parameters[0])
    if first is None or step is None or most is None:
        return None
    return Counter(part, first, step, direction, most, counted.shape.element_type)


def _state_part(i: HloInstruction, parameter: HloInstruction) -> int | None:
    """Number of the part that an instruction takes from the state."""
    while i.opcode == "copy":
        i = i.operands[0]
    if i.opcode != "get-tuple-element" or i.operands[0] is not parameter:
        return None
    index: int = i["index"]
    return index


def _value(loop: KnownLoop, i: HloInstruction, parameter: HloInstruction) -> int | None:
    """A constant, or a part of the state that is one in every iteration."""
    if i.opcode == "constant":
        return _integer(i)
    part = _state_part(i, parameter)
    return None if part is None else _integer(loop.held(part))


def _step(loop: KnownLoop, part: int) -> int | None:
    """What an iteration adds to a part."""
    following, parameter = loop.following[part], loop.body.parameters[0]
    if following.opcode not in ("add", "subtract"):
        return None
    x, y = following.operands
    if following.opcode == "add" and _state_part(x, parameter) != part:
        x, y = y, x
    if _state_part(x, parameter) != part:
        return None
    step = _value(loop, y, parameter)
    if step is None:
        return None
    return step if following.opcode == "add" else -step


def _integer(i: HloInstruction | None) -> int | None:
    """The number that an instruction is, if it is a constant integer."""
    if i is None or i.opcode != "constant" or not i.shape.is_scalar:
        return None
    literal = i["literal"]
    known = i.shape.element_type.is_integral and not literal.elided
    return int(literal.array) if known else None
