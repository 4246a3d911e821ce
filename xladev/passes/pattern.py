"""HloMatcher: patterns of instructions, such as ``m.Add(m.Op("x"), m.All(0))``.

A pattern says what opcode an instruction has, what its operands match, and further conditions. A
capture, named by a string, stands for one instruction wherever it occurs: `Subtract(Op("x"),
Op("x"))` matches ``x - x``. Opcodes that commute match their operands in either order.

Example:
    >>> from xladev.hlo.text import parse_module
    >>> from xladev.passes import pattern as m
    >>> root = parse_module("r = f32[2] add(f32[2] x, f32[2] y)").entry.root
    >>> sorted(m.Add(m.Op("x"), m.Op("y")).match(root))
    ['x', 'y']
    >>> m.Add(m.Op("x"), m.Op("x")).explain(root)
    'y is not x, captured as the same'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.ir import HloInstruction
from xladev.passes.splats import all_elements
from xladev.passes.value_numbers import COMMUTATIVE

Match = Mapping[str, HloInstruction]
"""What each capture stands for."""
Uses = Callable[[HloInstruction], int]
"""How many instructions use one."""
Condition = Callable[[HloInstruction], bool]


class _Matching:
    """State of one attempt: captures, what was matched below the root, the first refusal."""

    __slots__ = ("captures", "inner", "reason", "uses")

    def __init__(self, uses: Uses | None, explain: bool) -> None:
        self.captures: dict[str, HloInstruction] = {}
        self.inner: list[HloInstruction] = []
        self.uses = uses
        self.reason: list[str] | None = [] if explain else None

    def refuse(self, make_reason: Callable[[], str]) -> bool:
        """False, remembering why if that was asked for."""
        if self.reason is not None:
            self.reason.append(make_reason())
        return False


@dataclass(frozen=True, slots=True)
class Pattern:
    """What an instruction must be like; see the functions below for how to make one.

    Attributes:
        opcodes: allowed opcodes; empty for any.
        operands: patterns of its operands; None for any operands.
        any_order: True if the two operands may be swapped.
        capture: name of the capture; empty for none.
        conditions: (condition, what it asks for) of further conditions.
        single_use: True if exactly one instruction may use it.
        seen_through: opcodes of instructions that may stand before it: what they read is matched.
    """

    opcodes: frozenset[str] = frozenset()
    operands: tuple[Pattern, ...] | None = None
    any_order: bool = False
    capture: str = ""
    conditions: tuple[tuple[Condition, str], ...] = ()
    single_use: bool = False
    seen_through: frozenset[str] = frozenset()
    admitted: frozenset[str] = field(init=False, repr=False, compare=False)
    """Opcodes that it, or what is before it, may have; empty for any."""

    def __post_init__(self) -> None:
        admitted = self.opcodes | self.seen_through if self.opcodes else frozenset[str]()
        object.__setattr__(self, "admitted", admitted)

    # Refinement

    def named(self, capture: str) -> Pattern:
        """The same, captured under a name."""
        return replace(self, capture=capture)

    def one_use(self) -> Pattern:
        """The same, used by exactly one instruction."""
        return replace(self, single_use=True)

    def behind(self, *opcodes: str) -> Pattern:
        """The same, behind any number of instructions of these opcodes, by their first operand.

        The capture stands for what is behind them.
        """
        return replace(self, seen_through=frozenset(opcodes))

    def where(self, condition: Condition, wanted: str) -> Pattern:
        """The same, with a further condition; ``wanted`` completes "x is opcode, not ..."."""
        return replace(self, conditions=(*self.conditions, (condition, wanted)))

    def typed(self, *element_types: PrimitiveType) -> Pattern:
        """The same, of one of these element types."""
        names = " or ".join(t.name for t in element_types)
        return self.where(lambda i: i.shape.element_type in element_types, f"of type {names}")

    def shaped(self, *dims: int) -> Pattern:
        """The same, an array of these dimensions."""
        return self.where(lambda i: i.shape.is_array and i.shape.dims == dims, f"of {list(dims)}")

    def ranked(self, rank: int) -> Pattern:
        """The same, an array of this rank."""
        return self.where(lambda i: i.shape.is_array and i.shape.rank == rank, f"of rank {rank}")

    def having(self, **attrs: object) -> Pattern:
        """The same, with these values of attributes."""
        wanted = ", ".join(f"{k}={v}" for k, v in attrs.items())
        return self.where(lambda i: all(i[k] == v for k, v in attrs.items()), f"with {wanted}")

    # Matching

    def captures(self) -> frozenset[str]:
        """Names of all captures."""
        own = {self.capture} if self.capture else set[str]()
        return frozenset(own.union(*(p.captures() for p in self.operands or ())))

    @property
    def counts_uses(self) -> bool:
        """True if whether it matches depends on what else uses an instruction."""
        return self.single_use or any(p.counts_uses for p in self.operands or ())

    def match(self, instruction: HloInstruction, uses: Uses | None = None) -> Match | None:
        """What the captures stand for; None if the instruction does not match.

        Args:
            instruction: the root of what is to match.
            uses: number of users of an instruction; wanted by patterns with `one_use`.
        """
        found = self.match_all(instruction, uses)
        return None if found is None else found[0]

    def match_all(
        self, instruction: HloInstruction, uses: Uses | None = None
    ) -> tuple[Match, Sequence[HloInstruction]] | None:
        """Captures, and every instruction matched by opcode (root first); None for no match."""
        if not _may_match(self, instruction):
            return None
        state = _Matching(uses, False)
        return (state.captures, state.inner) if _matches(self, instruction, state) else None

    def explain(self, instruction: HloInstruction, uses: Uses | None = None) -> str:
        """Why an instruction does not match; empty if it does."""
        state = _Matching(uses, True)
        if _matches(self, instruction, state):
            return ""
        assert state.reason is not None
        return "; or ".join(dict.fromkeys(state.reason))


def _may_match(pattern: Pattern, i: HloInstruction) -> bool:
    """False if the opcodes of an instruction and its operands rule a match out, as most do."""
    if pattern.seen_through and i.op.name in pattern.seen_through:
        return True
    if pattern.opcodes and i.op.name not in pattern.opcodes:
        return False
    wanted = pattern.operands
    if wanted is None:
        return True
    if len(wanted) != len(i.operands):
        return False
    fits = _are_among(i.operands, wanted)
    return fits or (pattern.any_order and _are_among(i.operands[::-1], wanted))


def _are_among(operands: Sequence[HloInstruction], wanted: Sequence[Pattern]) -> bool:
    for operand, pattern in zip(operands, wanted, strict=True):
        admitted = pattern.admitted
        if admitted and operand.op.name not in admitted:
            return False
    return True


_Goals = tuple[Pattern, HloInstruction, "_Goals"] | None
"""What is still to be matched, first things first: a linked list."""


def _matches(pattern: Pattern, i: HloInstruction, state: _Matching) -> bool:
    return _solve((pattern, i, None), state)


def _solve(goals: _Goals, state: _Matching) -> bool:
    """Matches all goals; where operands may be swapped, both orders are tried with what follows.

    The depth of recursion is the number of patterns that allow that.
    """
    while goals is not None:
        pattern, i, goals = goals
        while i.op.name in pattern.seen_through:
            state.inner.append(i)
            i = i.operands[0]
        if not _matches_alone(pattern, i, state):
            return False
        wanted = pattern.operands
        if wanted is None:
            continue
        if len(wanted) != len(i.operands):
            return _refuse_count(len(wanted), i, state)
        if pattern.any_order:
            captures, inner = dict(state.captures), list(state.inner)
            if _solve(_with_goals(wanted, i.operands, goals), state):
                return True
            state.captures, state.inner = captures, inner
            goals = _with_goals(wanted, i.operands[::-1], goals)
        else:
            goals = _with_goals(wanted, i.operands, goals)
    return True


def _with_goals(
    wanted: Sequence[Pattern], operands: Sequence[HloInstruction], goals: _Goals
) -> _Goals:
    for pattern, operand in zip(reversed(wanted), reversed(operands), strict=True):
        goals = (pattern, operand, goals)
    return goals


def _matches_alone(pattern: Pattern, i: HloInstruction, state: _Matching) -> bool:
    """Everything but the operands."""
    if pattern.opcodes and i.op.name not in pattern.opcodes:
        return state.refuse(lambda: f"{i.name} is {i.opcode}, not {_names(pattern.opcodes)}")
    if pattern.capture:
        taken = state.captures.setdefault(pattern.capture, i)
        if taken is not i:
            return state.refuse(lambda: f"{i.name} is not {taken.name}, captured as the same")
    for condition, wanted in pattern.conditions:
        if not condition(i):
            return state.refuse(lambda wanted=wanted: f"{i.name} is {i.opcode}, not {wanted}")  # type: ignore[misc]
    if pattern.single_use and state.uses is not None and state.uses(i) != 1:
        return state.refuse(lambda: f"{i.name} has {_count(state, i)} uses, not one")
    if pattern.opcodes:
        state.inner.append(i)
    return True


def _names(opcodes: frozenset[str]) -> str:
    return " or ".join(sorted(opcodes))


def _count(state: _Matching, i: HloInstruction) -> int:
    return state.uses(i) if state.uses is not None else 0


def _refuse_count(wanted: int, i: HloInstruction, state: _Matching) -> bool:
    return state.refuse(lambda: f"{i.name} has {len(i.operands)} operands, not {wanted}")


# What patterns are made with


def Op(capture: str = "") -> Pattern:
    """Any instruction."""
    return Pattern(capture=capture)


def Opcode(opcode: str | Sequence[str], *operands: Pattern, capture: str = "") -> Pattern:
    """An instruction of an opcode, or of one of several; without operands: whatever these are."""
    names = (opcode,) if isinstance(opcode, str) else tuple(opcode)
    commutes = len(operands) == 2 and all(n in COMMUTATIVE for n in names)
    return Pattern(frozenset(names), operands or None, commutes, capture)


def Constant(capture: str = "") -> Pattern:
    """A constant whose value is known."""
    return Opcode("constant", capture=capture).where(
        lambda i: not i["literal"].elided, "a constant with a value"
    )


def ConstantScalar(value: complex | None = None, capture: str = "") -> Pattern:
    """A constant of one element, maybe of a given value (0 is not -0)."""
    pattern = Constant(capture).where(lambda i: i.shape.is_array and i.shape.size == 1, "scalar")
    if value is None:
        return pattern
    return pattern.where(lambda i: all_elements(i, value), f"a constant {value}")


def All(value: complex, capture: str = "") -> Pattern:
    """A constant, or a broadcast of one, all of whose elements have this value (0 is not -0)."""
    return Pattern(capture=capture).where(
        lambda i: all_elements(i, value), f"a value all of whose elements are {value}"
    )


def _maker(opcode: str) -> Callable[..., Pattern]:
    def make(*operands: Pattern, capture: str = "") -> Pattern:
        return Opcode(opcode, *operands, capture=capture)

    make.__doc__ = f"An instruction ``{opcode}``, with operands that match."
    return make


Abs, Add, And = _maker("abs"), _maker("add"), _maker("and")
Bitcast, BitcastConvert = _maker("bitcast"), _maker("bitcast-convert")
Broadcast, Clamp, Compare = _maker("broadcast"), _maker("clamp"), _maker("compare")
Complex, Concatenate, Convert = _maker("complex"), _maker("concatenate"), _maker("convert")
Convolution, Copy, Divide, Dot = (
    _maker("convolution"), _maker("copy"), _maker("divide"), _maker("dot")
)  # fmt: skip
DynamicSlice, DynamicUpdateSlice = _maker("dynamic-slice"), _maker("dynamic-update-slice")
Exp, Gather, GetTupleElement = _maker("exponential"), _maker("gather"), _maker("get-tuple-element")
Imag, Iota, Log, Map = _maker("imag"), _maker("iota"), _maker("log"), _maker("map")
Maximum, Minimum, Multiply = _maker("maximum"), _maker("minimum"), _maker("multiply")
Negate, Not, Or, Pad = _maker("negate"), _maker("not"), _maker("or"), _maker("pad")
Parameter, Power, Real = _maker("parameter"), _maker("power"), _maker("real")
Reduce, ReduceWindow, Remainder = _maker("reduce"), _maker("reduce-window"), _maker("remainder")
Reshape, Reverse, Rsqrt = _maker("reshape"), _maker("reverse"), _maker("rsqrt")
Scatter, Select, Sign, Slice = _maker("scatter"), _maker("select"), _maker("sign"), _maker("slice")
Sort, Sqrt, Subtract = _maker("sort"), _maker("sqrt"), _maker("subtract")
Transpose, Tuple, While, Xor = (
    _maker("transpose"), _maker("tuple"), _maker("while"), _maker("xor")
)  # fmt: skip
