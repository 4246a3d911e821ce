"""Rules that place instructions by name: the text of an option, and what it says of a module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from xladev.compiler.options import Placement
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.rebuild import map_computations, rebuild
from xladev.passes.pass_ import HloModulePass


def _name(i: HloInstruction) -> str:
    return i.name


def _opcode(i: HloInstruction) -> str:
    return i.opcode


def _op(i: HloInstruction) -> str:
    return i.note.metadata.op_name


_SUBJECTS = {"name": _name, "opcode": _opcode, "op": _op}
"""What a pattern is compared with, by the word before it."""

_UNPLACED = frozenset({"parameter", "constant", "tuple", "get-tuple-element"})
"""Opcodes that no rule places: they are where their users are."""


@dataclass(frozen=True, slots=True)
class PlacementRule:
    """Places the instructions that a pattern matches.

    Attributes:
        subject: ``name``, ``opcode``, ``op`` (the name that a framework gave the operation, with
            its scopes: `OpMetadata.op_name`), or empty for any of them.
        pattern: with ``*``, ``?`` and ``[...]`` as in file names; letters of either case differ.
        device: name of the device.
    """

    subject: str
    pattern: str
    device: str

    @staticmethod
    def of(pattern: str, device: str) -> PlacementRule:
        """The rule of a pattern such as ``opcode:dot`` or ``*/decoder/*``."""
        word, colon, rest = pattern.partition(":")
        if colon and word in _SUBJECTS:
            return PlacementRule(word, rest, device)
        return PlacementRule("", pattern, device)

    def matches(self, i: HloInstruction) -> bool:
        """Whether the rule is about an instruction."""
        if self.subject:
            return fnmatchcase(_SUBJECTS[self.subject](i), self.pattern)
        return any(fnmatchcase(subject(i), self.pattern) for subject in _SUBJECTS.values())


@dataclass(frozen=True, slots=True)
class ApplyPlacementRules(HloModulePass):
    """Gives each instruction without a device that of the first rule that matches it.

    What a rule says of a loop, a branch or a call it says of all within that has no device yet.

    Attributes:
        rules: in order.
        names: the one spelling of each device's name, by the spellings that are used.
    """

    name = "apply-placement-rules"
    rules: Placement = ()
    names: tuple[tuple[str, str], ...] = ()

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        spelled = dict(self.names)
        wanted = _wanted(module, [PlacementRule.of(*pair) for pair in self.rules])

        def change(computation: HloComputation) -> HloComputation:
            made: dict[HloInstruction, HloInstruction] = {}
            for i in computation.instructions:
                device = wanted.get((computation.name, i.name), i.note.device)
                device = device and spelled.get(device, device)
                if device != i.note.device:
                    made[i] = replace(i, note=replace(i.note, device=device))
            return rebuild(computation, made) if made else computation

        return map_computations(module, change)


_CALLING = frozenset({"while", "conditional", "call"})
_Placed = dict[tuple[str, str], str]
"""Devices by names of computation and instruction."""


def _wanted(module: HloModule, rules: Sequence[PlacementRule]) -> _Placed:
    """The device of each instruction that gets one now, callers before what they call."""
    wanted: _Placed = {}
    if not rules and not _places_calls(module):
        return wanted
    outer: dict[HloComputation, str] = {}
    run = {module.entry}
    for computation in reversed(module.computations):
        if computation not in run:
            continue
        for i, device in _within(computation, rules, outer.get(computation, "")):
            wanted[computation.name, i.name] = device
        for i in computation.instructions:
            if i.opcode in _CALLING:
                run.update(i.called)
                device = wanted.get((computation.name, i.name)) or i.note.device or ""
                outer.update((c, device) for c in i.called if device and c not in outer)
    return wanted


def _places_calls(module: HloModule) -> bool:
    """Whether a loop, a branch or a call has a device, which is that of what is within."""
    return any(
        i.note.device and i.opcode in _CALLING
        for computation in module.computations
        for i in computation.instructions
    )


def _within(
    computation: HloComputation, rules: Sequence[PlacementRule], outer: str
) -> Iterator[tuple[HloInstruction, str]]:
    for i in computation.instructions:
        if i.opcode in _UNPLACED or i.note.device:
            continue
        device = next((rule.device for rule in rules if rule.matches(i)), outer)
        if device:
            yield i, device
