"""Rewrite rules: functions that give a replacement for what a pattern matches.

Example:
    >>> from xladev.passes import pattern as m
    >>> from xladev.passes.rewrite import Rewriter, rewrite
    >>> @rewrite(m.Negate(m.Negate(m.Op("x"))))
    ... def negate_twice(r, root, x):
    ...     return x
    >>> negate_twice.name
    'negate-twice'
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from weakref import WeakSet

from xladev.errors import PassError
from xladev.hlo.ir import (
    NO_ANNOTATIONS,
    Annotations,
    HloComputation,
    HloInstruction,
    HloModule,
)
from xladev.hlo.names import with_unique_names
from xladev.hlo.rebuild import map_computations, rebuild, with_operands
from xladev.passes.dce import without_dead
from xladev.passes.effects import computations_with_effects
from xladev.passes.expansions.emit import Emitter
from xladev.passes.pattern import Pattern

RewriteFn = Callable[..., HloInstruction | None]
MOST_RETRIES = 16
"""How often the result of a rule is tried again at once."""
LEAST_REMEMBERED = 16
"""Instructions of a computation from which it is worth remembering that no rule fits."""


class Rewriter(Emitter):
    """Makes the instructions of replacements within one computation.

    Args:
        computation: what is being rewritten; never modified.

    Attributes:
        fresh: what the rule that is running has made so far.
    """

    def __init__(self, computation: HloComputation) -> None:
        super().__init__("new")
        self.fresh: set[HloInstruction] = set()
        self._replaced: Annotations = NO_ANNOTATIONS
        self._uses: dict[HloInstruction, int] = {computation.root: 1}
        uses = self._uses
        for user in computation.instructions:
            for used in user.operands if len(user.operands) < 2 else set(user.operands):
                uses[used] = uses.get(used, 0) + 1

    def append(self, instruction: HloInstruction) -> HloInstruction:
        """Notes one instruction; it is kept if the replacement needs it."""
        if instruction.note is NO_ANNOTATIONS and self._replaced is not NO_ANNOTATIONS:
            instruction = replace(instruction, note=self._replaced.place)
        made = super().append(instruction)
        self.fresh.add(made)
        return made

    def begin(self, root: HloInstruction) -> None:
        """Notes that a rule is about to replace ``root``."""
        self.fresh.clear()
        self._replaced = root.note

    def uses(self, instruction: HloInstruction) -> int:
        """How many instructions use one; being the root counts as a use, too."""
        return self._uses.get(instruction, 1)

    def moved(self, old: HloInstruction, new: HloInstruction) -> None:
        """Notes that the users of ``old`` will use ``new``."""
        self._uses[new] = self._uses.get(new, 0) + self._uses.get(old, 0)


class RewriteRule:
    """A pattern and the function that replaces what it matches.

    Attributes:
        name: for explanations; the function's, with hyphens.
        pattern: what to replace.
        summary: first line of the function's docstring.
        counts_uses: whether what else uses an instruction says what becomes of it, too.
    """

    def __init__(self, pattern: Pattern, function: RewriteFn, *, counts_uses: bool = False) -> None:
        name = getattr(function, "__name__", "rule")
        self.name = name.strip("_").replace("_", "-")
        self.pattern = pattern
        self.counts_uses = counts_uses or pattern.counts_uses
        self.summary = (inspect.getdoc(function) or "").split("\n")[0]
        self._function = function
        taken = list(inspect.signature(function).parameters)[2:]
        if sorted(taken) != sorted(pattern.captures()):
            raise PassError(
                f"rewrite {self.name} takes {taken}",
                why=f"its pattern captures {sorted(pattern.captures())}",
                hint="the parameters after (r, root) are the captures, by name",
            )

    def apply(self, r: Rewriter, root: HloInstruction) -> HloInstruction | None:
        """The replacement of ``root``; None if it does not match or is fine as it is."""
        found = self.pattern.match_all(root, r.uses)
        if found is None:
            return None
        captures, matched = found
        if any(i.note.device != root.note.device for i in matched):
            return None
        new = self._function(r, root, **captures)
        if new is None or new is root:
            return None
        if not new.shape.equal_ignoring_layout(root.shape):
            raise PassError(
                f"rewrite {self.name} gives {new.shape} for {root.shape}",
                where=repr(root),
                why="constraint rewrite_c1: a replacement has the shape of what it replaces",
            )
        return new


def rewrite(pattern: Pattern, *, counts_uses: bool = False) -> Callable[[RewriteFn], RewriteRule]:
    """Makes a rule of a function ``(r, root, captures...) -> replacement or None``.

    Args:
        pattern: what to replace.
        counts_uses: True if the function asks `Rewriter.uses`: it is then asked again about an
            instruction that stayed the same.
    """
    return lambda function: RewriteRule(pattern, function, counts_uses=counts_uses)


class RuleSet:
    """Rules indexed by the opcode of their root.

    Args:
        rules: tried in this order.
        only_static: True to leave alone what has a dynamic dimension, in its result or an operand.
    """

    def __init__(self, rules: Iterable[RewriteRule], *, only_static: bool = False) -> None:
        self.rules = tuple(rules)
        self.only_static = only_static
        self._by_opcode: dict[str, list[RewriteRule]] = {}
        self._any = [rule for rule in self.rules if not rule.pattern.opcodes]
        self._settled: WeakSet[HloComputation] = WeakSet()
        self.unfit: WeakSet[HloInstruction] = WeakSet()
        """To which no rule applies, whatever uses them."""
        for rule in self.rules:
            for opcode in rule.pattern.opcodes:
                self._by_opcode.setdefault(opcode, []).append(rule)
        self._counts_any = any(rule.counts_uses for rule in self._any)
        self._counting = {
            opcode for rule in self.rules if rule.counts_uses for opcode in rule.pattern.opcodes
        }

    @property
    def opcodes(self) -> frozenset[str] | None:
        """Of which a computation has at least one if any rule matches; None if it need not."""
        return None if self._any else frozenset(self._by_opcode)

    def for_opcode(self, opcode: str) -> Sequence[RewriteRule]:
        """Rules that may match an instruction of this opcode, in order."""
        found = self._by_opcode.get(opcode, [])
        return [*found, *self._any] if self._any else found

    def run(self, module: HloModule) -> HloModule:
        """The module with all rules applied in one sweep, and what they left dead removed."""
        effects = {c.name for c in computations_with_effects(module)}

        def change(computation: HloComputation) -> HloComputation:
            after = self.sweep(computation)
            return after if after is computation else without_dead(after, effects)

        changed = map_computations(module, change)
        return module if changed is module else with_unique_names(changed)

    def sweep(self, computation: HloComputation) -> HloComputation:
        """The computation with rules applied once, operands before users.

        What rules do depends on the computation alone, which never changes: one that they left as
        it is will be left as it is again, in a later round or pipeline.
        """
        if computation in self._settled:
            return computation
        names = self._by_opcode
        if not self._any and not any(i.op.name in names for i in computation.instructions):
            return computation
        after = _Sweep(self, computation).run()
        if after is computation and len(computation.instructions) >= LEAST_REMEMBERED:
            self._settled.add(computation)
        return after

    def counts_uses(self, opcode: str) -> bool:
        """True if a rule for an opcode depends on what else uses an instruction."""
        return opcode in self._counting or self._counts_any

    def may_fit(self, instruction: HloInstruction) -> bool:
        """False if no rule is for its opcode."""
        return bool(self._any) or instruction.op.name in self._by_opcode


class _Sweep:
    def __init__(self, rules: RuleSet, computation: HloComputation) -> None:
        self._rules = rules
        self._computation = computation
        self._r = Rewriter(computation)
        self._now: dict[HloInstruction, HloInstruction] = {}
        self._ordered = {
            p for i in computation.instructions for p in i.note.control_predecessors
        } | {i for i in computation.instructions if i.note.control_predecessors}
        self._fired = False

    def run(self) -> HloComputation:
        may_fit = self._rules.may_fit
        for old in self._computation.instructions:
            if not self._now and not may_fit(old):
                continue
            current = with_operands(old, self._operands(old))
            if current is not old:
                self._r.moved(old, current)
            new = self._simplified(current, old)
            if new is not old:
                self._now[old] = new
        return rebuild(self._computation, self._now) if self._fired else self._computation

    def _operands(self, old: HloInstruction) -> tuple[HloInstruction, ...]:
        now = self._now
        return tuple([now.get(o, o) for o in old.operands]) if now else old.operands

    def _simplified(self, current: HloInstruction, old: HloInstruction) -> HloInstruction:
        for _ in range(MOST_RETRIES):
            if self._rules.only_static and _is_dynamic(current):
                return current
            new = self._apply_one(current, old)
            if new is None:
                return current
            self._fired = True
            self._r.moved(current, new)
            current = new
        return current

    def _apply_one(self, current: HloInstruction, old: HloInstruction) -> HloInstruction | None:
        unfit, opcode = self._rules.unfit, current.op.name
        if current in unfit:
            return None
        rules = self._rules.for_opcode(opcode)
        if rules:
            self._r.begin(current)
        applies = False
        for rule in rules:
            new = rule.apply(self._r, current)
            if new is None:
                continue
            applies = True
            if new in self._r.fresh:
                return _inheriting(new, current)
            if old not in self._ordered and _may_stand_for(new, current):
                return new
        if rules and not applies and not self._rules.counts_uses(opcode):
            unfit.add(current)
        return None


def _is_dynamic(instruction: HloInstruction) -> bool:
    return bool(instruction.shape.dynamic) or any(o.shape.dynamic for o in instruction.operands)


def _may_stand_for(existing: HloInstruction, old: HloInstruction) -> bool:
    """True if the layouts are the same; a layout not chosen is row-major, to a bitcast say."""
    a, b = existing.shape, old.shape
    return a == b or a.with_default_layout() == b.with_default_layout()


def _inheriting(new: HloInstruction, old: HloInstruction) -> HloInstruction:
    """A new instruction with layout and annotations of the one it replaces."""
    if new.shape != old.shape:
        new = replace(new, shape=old.shape)
    note = old.note
    if note is NO_ANNOTATIONS or note == new.note:
        return new
    return replace(new, note=replace(note, backend_config=new.note.backend_config))
