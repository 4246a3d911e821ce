"""Names of instructions: unique in a module, as text and proto need them."""

from __future__ import annotations

from dataclasses import dataclass, field

from xladev.hlo.ir import HloComputation, HloModule
from xladev.hlo.rebuild import map_computations, rebuild


@dataclass(slots=True)
class UniqueNames:
    """Hands out names, each once: ``add.3`` if free, else ``add`` with the next free number."""

    taken: set[str] = field(default_factory=set[str])
    _next: dict[str, int] = field(default_factory=dict[str, int])

    def take(self, name: str) -> str:
        """``name`` if nobody has it, or its stem with a number that nobody has."""
        if name not in self.taken:
            self.taken.add(name)
            return name
        stem = name_stem(name)
        number = self._next.get(stem, 1)
        while f"{stem}.{number}" in self.taken:
            number += 1
        self._next[stem] = number + 1
        self.taken.add(f"{stem}.{number}")
        return f"{stem}.{number}"


def name_stem(name: str) -> str:
    """``name`` without the number after its last dot."""
    stem, _, last = name.rpartition(".")
    return stem if stem and last.isdigit() else name


def with_unique_names(module: HloModule) -> HloModule:
    """The module with every computation and instruction named differently from all others.

    Names of the entry are kept, then those of computations listed first. Gives the module itself
    if no name repeats.
    """
    if not _repeats(module):
        return module
    names, computation_names = UniqueNames(), UniqueNames()
    wanted: dict[HloComputation, tuple[str, list[str]]] = {}
    for computation in (module.entry, *module.computations[:-1]):
        inside = [names.take(i.name or i.opcode) for i in computation.instructions]
        wanted[computation] = computation_names.take(computation.name), inside
    listed = iter(module.computations)
    return map_computations(module, lambda c: _renamed(c, *wanted[next(listed)]))


def _renamed(computation: HloComputation, name: str, inside: list[str]) -> HloComputation:
    changes = {
        i: i.with_name(new)
        for i, new in zip(computation.instructions, inside, strict=True)
        if i.name != new
    }
    after = rebuild(computation, changes)
    return after if after.name == name else with_name(after, name)


def with_name(computation: HloComputation, name: str) -> HloComputation:
    """The computation under another name."""
    return HloComputation(
        name, computation.instructions, computation.root, computation.execution_thread
    )


def _repeats(module: HloModule) -> bool:
    names = {i.name for c in module.computations for i in c.instructions}
    computations = {c.name for c in module.computations}
    return (
        len(names) < module.instruction_count
        or len(computations) < len(module.computations)
        or "" in names
    )
