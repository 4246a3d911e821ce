"""Shrinks a module, with its arguments, to a small one that still shows a behaviour.

Delta debugging on the data-flow graph: the root is moved down, and values are cut off and given as
arguments instead, computed by the evaluator. Loops and branches are opened up on the way. The
behaviour is whatever the caller's predicate recognises: a wrong result, an error, a crash, a hang.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import (
    DEFAULT_HEADER,
    HloComputation,
    HloInstruction,
    HloModule,
    ModuleHeader,
)
from xladev.hlo.literal import Value
from xladev.hlo.opset import opdef
from xladev.hlo.rebuild import rebuild
from xladev.hlo.shape import tuple_of
from xladev.passes.call_inliner import CallInliner

Case = tuple[HloModule, tuple[Value, ...]]
"""A module and its arguments."""

_MOST_ITERATIONS = 1000

Interesting = Callable[[HloModule, Sequence[Value]], bool]
"""Whether a smaller case still shows the behaviour."""


@dataclass(frozen=True, slots=True)
class ReducedProgram:
    """The result of a reduction.

    Attributes:
        module: the smallest module found.
        arguments: one value per parameter.
        tried: how many candidates were tried.
        complete: False if time ran out before nothing smaller was left.
    """

    module: HloModule
    arguments: tuple[Value, ...]
    tried: int
    complete: bool


def reduce_module(
    module: HloModule,
    arguments: Sequence[Value],
    interesting: Interesting,
    *,
    budget_s: float = 120.0,
) -> ReducedProgram:
    """The smallest case found that is still interesting.

    Args:
        module: shows the behaviour; it is not asked again.
        arguments: one value per parameter.
        interesting: the behaviour; must not raise.
        budget_s: seconds after which the best case so far is returned.
    """
    deadline = time.monotonic() + budget_s
    best: Case = (module, tuple(arguments))
    plain: Case = (replace(module, header=DEFAULT_HEADER), best[1])
    if module.header != DEFAULT_HEADER and interesting(*plain):
        best = plain
    tried = 0
    progress = True
    while progress:
        progress = False
        for candidate in _candidates(best):
            if time.monotonic() > deadline:
                return ReducedProgram(*best, tried, complete=False)
            if candidate[0].instruction_count >= best[0].instruction_count:
                continue
            tried += 1
            if interesting(*candidate):
                best, progress = candidate, True
                break
    return ReducedProgram(*best, tried, complete=True)


def _candidates(case: Case) -> Iterator[Case]:
    """Smaller cases, boldest first."""
    module, arguments = case
    yield _inlined(module), arguments
    values = _values(module, arguments)
    yield from _segments(module, values)
    yield from _fewer_results(case, values)
    yield from _near_root(case, values)
    yield from _last_iterations(module, values)
    yield from _opened(case)
    yield from _lower_roots(case, values)
    yield from _single_cuts(case, values)


def _inlined(module: HloModule) -> HloModule:
    return CallInliner().run(replace(module, header=_header(module)))


def _header(module: HloModule) -> ModuleHeader:
    """Of what the header says, only how many replicas run the program."""
    return replace(DEFAULT_HEADER, replica_count=module.header.replica_count)


Values = dict[HloInstruction, Value]


def _values(module: HloModule, arguments: Sequence[Value]) -> Values:
    """What the evaluator gives each instruction of the entry, as far as it gets."""
    values: Values = {}
    evaluator = HloEvaluator()
    for instruction in module.entry.instructions:
        if any(o not in values for o in instruction.operands):
            continue
        try:
            values[instruction] = evaluator.instruction(instruction, values, arguments)
        except Exception:  # noqa: BLE001 - on one device, what is meant for several may do anything
            continue
    return values


def _extract(
    module: HloModule, root: HloInstruction, cut: set[HloInstruction], values: Values
) -> Case | None:
    """The part of the entry that computes ``root`` from values cut off; None if one is unknown."""
    made: dict[HloInstruction, HloInstruction] = {}
    arguments: list[Value] = []
    stack: list[tuple[HloInstruction, bool]] = [(root, False)]
    while stack:
        old, ready = stack.pop()
        if old in made:
            continue
        if old.opcode == "parameter" or (old in cut and old.opcode != "constant"):
            if old not in values:
                return None
            made[old] = _parameter(old, len(arguments))
            arguments.append(values[old])
        elif ready:
            note = replace(old.note, control_predecessors=())
            operands = tuple(made[o] for o in old.operands)
            made[old] = replace(old, operands=operands, note=note)
        else:
            stack.append((old, True))
            stack.extend((o, False) for o in old.operands)
    entry = HloComputation(module.entry.name, tuple(made.values()), made[root])
    return HloModule(module.name, entry, _header(module)), tuple(arguments)


def _segments(module: HloModule, values: Values) -> Iterator[Case]:
    """Halves of the entry, and the half in the middle: what comes before is given."""
    whole = [i for i in module.entry.instructions if i.opcode not in ("parameter", "constant")]
    quarter = len(whole) // 4
    if quarter == 0:
        return
    for start in (0, 2 * quarter, quarter):
        end = len(whole) if start == 2 * quarter else start + 2 * quarter
        found = _segment(module, whole[start:end], values)
        if found is not None:
            yield found


def _segment(module: HloModule, chosen: Sequence[HloInstruction], values: Values) -> Case | None:
    """Some instructions as a program: it gives all that is used outside of them."""
    inside = set(chosen)
    others = (i for i in module.entry.instructions if i not in inside)
    used = {o for i in others for o in i.operands} | {module.entry.root}
    results = tuple(i for i in chosen if i in used)
    cut = {o for i in chosen for o in i.operands if o not in inside}
    if not results or any(i.shape.is_token for i in (*results, *cut)):
        return None
    shape = tuple_of(*(i.shape for i in results))
    root = results[0] if len(results) == 1 else HloInstruction(_TUPLE, shape, results, name="all")
    return _extract(module, root, cut, values)


_TUPLE = opdef("tuple")


def _parameter(old: HloInstruction, number: int) -> HloInstruction:
    attrs = {"parameter_number": number}
    return HloInstruction(opdef("parameter"), old.shape, (), attrs, old.name)


def _fewer_results(case: Case, values: Values) -> Iterator[Case]:
    """Halves, then single ones, of the results of a tuple."""
    module, _ = case
    root = module.entry.root
    if root.opcode != "tuple" or len(root.operands) < 2:
        return
    count = len(root.operands)
    halves = [root.operands[: count // 2], root.operands[count // 2 :]] if count > 3 else []
    for kept in (*halves, *((o,) for o in root.operands)):
        new_root = (
            kept[0]
            if len(kept) == 1
            else replace(root, operands=kept, shape=tuple_of(*(o.shape for o in kept)))
        )
        found = _extract(module, new_root, set(), values)
        if found is not None:
            yield found


def _near_root(case: Case, values: Values) -> Iterator[Case]:
    """Only what is within 1, 2, 4... steps of the root; the rest is given."""
    module, _ = case
    distance = _distances(module.entry)
    reach, furthest = 1, max(distance.values(), default=0)
    while reach <= furthest:
        cut = {i for i, d in distance.items() if d == reach}
        found = _extract(module, module.entry.root, cut, values)
        if found is not None:
            yield found
        reach *= 2


def _distances(entry: HloComputation) -> dict[HloInstruction, int]:
    """Fewest steps from the root to each instruction that it needs."""
    distance = {entry.root: 0}
    layer = [entry.root]
    while layer:
        following: list[HloInstruction] = []
        for instruction in layer:
            for operand in instruction.operands:
                if operand not in distance:
                    distance[operand] = distance[instruction] + 1
                    following.append(operand)
        layer = following
    return distance


def _lower_roots(case: Case, values: Values) -> Iterator[Case]:
    """Earlier instructions as the root, from the front."""
    module, _ = case
    for instruction in module.entry.instructions:
        if instruction.opcode in ("parameter", "constant") or instruction is module.entry.root:
            continue
        found = _extract(module, instruction, set(), values)
        if found is not None:
            yield found


def _single_cuts(case: Case, values: Values) -> Iterator[Case]:
    """One value given instead of computed, those with the most behind them first."""
    module, _ = case
    for instruction in reversed(module.entry.instructions):
        if instruction.opcode in ("parameter", "constant") or instruction is module.entry.root:
            continue
        found = _extract(module, module.entry.root, {instruction}, values)
        if found is not None:
            yield found


def _last_iterations(module: HloModule, values: Values) -> Iterator[Case]:
    """The body of each loop as the program, on the state before its last iteration."""
    for instruction in module.entry.instructions:
        if instruction.opcode != "while" or instruction.operands[0] not in values:
            continue
        state = _last_state(instruction, values[instruction.operands[0]])
        if state is not None:
            body = HloModule(module.name, instruction["body"], _header(module))
            yield _inlined(body), (state,)


def _last_state(loop: HloInstruction, state: Value) -> Value | None:
    """What the last iteration begins with; None if there is none, or none soon."""
    evaluator = HloEvaluator()
    last: Value | None = None
    for _ in range(_MOST_ITERATIONS):
        try:
            if not evaluator.call(loop["condition"], (state,)):
                return last
            last, state = state, evaluator.call(loop["body"], (state,))
        except Exception:  # noqa: BLE001 - as in `_values`
            return None
    return None


def _opened(case: Case) -> Iterator[Case]:
    """Loops replaced by their initial state or one iteration, branches by one of them."""
    module, arguments = case
    for instruction in module.entry.instructions:
        for simpler in _simpler(instruction):
            entry = rebuild(module.entry, {instruction: simpler})
            yield _inlined(replace(module, entry=entry)), arguments


def _simpler(instruction: HloInstruction) -> Iterator[HloInstruction]:
    if instruction.opcode == "while":
        yield instruction.operands[0]
        yield _call(instruction, instruction["body"], instruction.operands)
    elif instruction.opcode == "conditional":
        for computation, operand in zip(instruction.called, instruction.operands[1:], strict=True):
            yield _call(instruction, computation, (operand,))
    elif instruction.opcode == "fusion":
        yield _call(instruction, instruction["calls"], instruction.operands)


def _call(
    instruction: HloInstruction,
    computation: HloComputation,
    operands: tuple[HloInstruction, ...],
) -> HloInstruction:
    attrs = {"to_apply": computation}
    name = f"{instruction.name}.opened"
    return HloInstruction(opdef("call"), instruction.shape, operands, attrs, name)
