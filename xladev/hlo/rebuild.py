"""Makes changed copies of computations and modules, sharing what did not change.

A pass collects replacements (old instruction -> new one, which may refer to old and new
instructions alike) and rebuilds each computation once; all functions here are iterative and
linear in the instructions they visit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from xladev.hlo.ir import (
    HloComputation,
    HloInstruction,
    HloModule,
    called_by_attr,
)
from xladev.hlo.opdef import AttrKind

Users = Mapping[HloInstruction, tuple[HloInstruction, ...]]
Replacements = Mapping[HloInstruction, HloInstruction]


def users_of(computation: HloComputation) -> Users:
    """Instructions that take each instruction as operand, each once, in program order."""
    found: dict[HloInstruction, dict[HloInstruction, None]] = {
        i: {} for i in computation.instructions
    }
    for user in computation.instructions:
        for operand in user.operands:
            found[operand][user] = None
    return {i: tuple(us) for i, us in found.items()}


def postorder(
    roots: Sequence[HloInstruction], done: set[HloInstruction] | None = None
) -> Iterator[HloInstruction]:
    """Yields what the roots need, operands and control predecessors first; iterative.

    Args:
        roots: where to start.
        done: instructions taken as yielded already; those yielded are added.
    """
    seen: set[HloInstruction] = set() if done is None else done
    for root in roots:
        stack = [(root, _needs(root))] if root not in seen else []
        seen.add(root)
        while stack:
            instruction, needs = stack[-1]
            following = next((n for n in needs if n not in seen), None)
            if following is None:
                yield instruction
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, _needs(following)))


def _needs(instruction: HloInstruction) -> Iterator[HloInstruction]:
    yield from instruction.operands
    yield from instruction.note.control_predecessors


def with_operands(
    instruction: HloInstruction, operands: tuple[HloInstruction, ...]
) -> HloInstruction:
    """The instruction with other operands; itself where they are the same."""
    same = operands == instruction.operands  # instructions are equal to themselves alone
    return instruction if same else instruction.with_operands(operands)


def rebuild(
    computation: HloComputation,
    replacements: Replacements,
    *,
    root: HloInstruction | None = None,
) -> HloComputation:
    """The computation with instructions replaced wherever they are used.

    Replaced instructions disappear; others stay, dead or not, in their order. A replacement may
    use the instruction it replaces (wrapping it): that use then keeps the old one. Chains of
    replacements are followed. Names are made unique.

    Args:
        computation: what to change; never modified.
        replacements: old instruction to new one; a new one may be old too.
        root: new root, old or new; the old root's replacement by default.
    """
    if not replacements and root is None:
        return computation
    final = _follow(replacements)
    order = _new_order(computation, final, root)
    made: dict[HloInstruction, HloInstruction] = {}
    names: set[str] = set()
    for old in order:
        new = _relink(old, made, final)
        made[old] = _uniquely_named(new, names)
    new_root = root if root is not None else final.get(computation.root, computation.root)
    return HloComputation(
        computation.name, tuple(made.values()), made[new_root], computation.execution_thread
    )


def _follow(replacements: Replacements) -> dict[HloInstruction, HloInstruction]:
    """Replacements with chains followed to their ends."""
    final: dict[HloInstruction, HloInstruction] = {}
    for old in replacements:
        path = [old]
        target = replacements[old]
        while target in replacements and target not in path:
            path.append(target)
            target = final.get(target) or replacements[target]
        for step in path:
            final[step] = target
    return final


def _new_order(
    computation: HloComputation,
    final: Mapping[HloInstruction, HloInstruction],
    root: HloInstruction | None,
) -> list[HloInstruction]:
    """All instructions that remain or are new, in an order where needs come first."""
    order: list[HloInstruction] = []
    seen: set[HloInstruction] = set()
    starts = [final.get(i, i) for i in computation.instructions]
    if root is not None:
        starts.append(final.get(root, root))
    for start in starts:
        if start in seen:
            continue
        seen.add(start)
        if _is_ready(start, final, seen):
            order.append(start)
            continue
        stack = [(start, _remapped_needs(start, final))]
        while stack:
            instruction, needs = stack[-1]
            following = next((n for n in needs if n not in seen), None)
            if following is None:
                order.append(instruction)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, _remapped_needs(following, final)))
    return order


def _is_ready(
    instruction: HloInstruction,
    final: Mapping[HloInstruction, HloInstruction],
    seen: set[HloInstruction],
) -> bool:
    """True if all that an instruction needs was seen before, as is so for most of them."""
    if instruction.note.control_predecessors:
        return False
    for need in instruction.operands:
        target = final.get(need, need)
        if (need if target is instruction else target) not in seen:
            return False
    return True


def _remapped_needs(
    instruction: HloInstruction, final: Mapping[HloInstruction, HloInstruction]
) -> Iterator[HloInstruction]:
    for need in _needs(instruction):
        target = final.get(need, need)
        yield need if target is instruction else target


def _relink(
    old: HloInstruction,
    made: Mapping[HloInstruction, HloInstruction],
    final: Mapping[HloInstruction, HloInstruction],
) -> HloInstruction:
    new = with_operands(old, _now(old, old.operands, made, final))
    before = old.note.control_predecessors
    if not before:
        return new
    after = _now(old, before, made, final)
    return new if after == before else new.with_note(replace(new.note, control_predecessors=after))


def _now(
    old: HloInstruction,
    needed: tuple[HloInstruction, ...],
    made: Mapping[HloInstruction, HloInstruction],
    final: Mapping[HloInstruction, HloInstruction],
) -> tuple[HloInstruction, ...]:
    """What stands for what an instruction needs."""
    found: list[HloInstruction] = []
    for need in needed:
        target = final.get(need, need)
        found.append(made[need if target is old else target])
    return tuple(found)


def _uniquely_named(instruction: HloInstruction, names: set[str]) -> HloInstruction:
    name = instruction.name or f"{instruction.opcode}.1"
    if name in names:
        stem, _, last = name.rpartition(".")
        stem = stem if stem and last.isdigit() else name
        count = len(names)
        while f"{stem}.{count}" in names:
            count += 1
        name = f"{stem}.{count}"
    names.add(name)
    return instruction if name == instruction.name else instruction.with_name(name)


def with_called(
    instruction: HloInstruction, changed: Mapping[HloComputation, HloComputation]
) -> HloInstruction:
    """The instruction calling changed computations instead of the old ones."""
    attrs = dict(instruction.attrs)
    touched = False
    for name, computations in called_by_attr(instruction):
        now = tuple(changed.get(c, c) for c in computations)
        if all(map(lambda a, b: a is b, now, computations)):
            continue
        touched = True
        single = instruction.op.attr(name).kind is AttrKind.COMPUTATION
        attrs[name] = now[0] if single else now
    return replace(instruction, attrs=attrs) if touched else instruction


def map_computations(
    module: HloModule, change: Callable[[HloComputation], HloComputation]
) -> HloModule:
    """The module with ``change`` applied to each computation, callees first.

    Each computation is given to ``change`` with its calls already pointing to changed callees.
    """
    changed: dict[HloComputation, HloComputation] = {}
    for computation in module.computations:
        relinked = _relink_calls(computation, changed)
        after = change(relinked)
        if after is not computation:
            changed[computation] = after
    if not changed:
        return module
    return replace(module, entry=changed.get(module.entry, module.entry))


def _relink_calls(
    computation: HloComputation, changed: Mapping[HloComputation, HloComputation]
) -> HloComputation:
    if not changed:
        return computation
    replacements: dict[HloInstruction, HloInstruction] = {}
    for instruction in computation.instructions:
        if instruction.op.calling and any(c in changed for c in instruction.called):
            replacements[instruction] = with_called(instruction, changed)
    return rebuild(computation, replacements)
