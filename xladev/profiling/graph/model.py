"""A program as the plain data that pages and pictures are drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xladev.compiler.cost import InstructionCost, program_cost
from xladev.errors import printable
from xladev.hlo.dot import family_colour, shown_value
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.text.printer import PrintOptions, print_instruction
from xladev.profiling.graph.layout import layered

_SHORT = PrintOptions(layouts=True, metadata=False, backend_config=False, large_constants=False)
_LONGEST_TEXT = 2000
_MOST_LAYOUTS = 8

Marks = Mapping[HloInstruction, str]
"""A word about an instruction that differs from another program: removed, added, rewired."""
Words = Mapping[str, str]
"""A word by name of an instruction."""


@dataclass(frozen=True, slots=True)
class MeasuredNode:
    """What a trace says of an instruction or kernel.

    Attributes:
        seconds: of all its runs together.
        count: of runs.
    """

    seconds: float = 0.0
    count: int = 0

    def plus(self, seconds: float) -> MeasuredNode:
        """With one more run."""
        return MeasuredNode(self.seconds + seconds, self.count + 1)


@dataclass(frozen=True, slots=True)
class Colouring:
    """What is known of instructions besides the program, for colours.

    Attributes:
        times: measured times, by name of an instruction or kernel.
        marks: differences from another program.
        devices: where each runs; default: where its own attribute wants it.
        fusions: the kernel that each becomes; default: the `fusion` that it is a part of.
    """

    times: Mapping[str, MeasuredNode] = field(default_factory=dict[str, MeasuredNode])
    marks: Marks = field(default_factory=dict[HloInstruction, str])
    devices: Words = field(default_factory=dict[str, str])
    fusions: Words = field(default_factory=dict[str, str])


def graph_data(module: HloModule, colouring: Colouring | None = None) -> dict[str, Any]:
    """What a page shows of a module.

    Constants are no nodes: they stand in what uses them.

    Args:
        module: the program, or its kernels.
        colouring: what is known of its instructions.
    """
    numbers = {c: n for n, c in enumerate(module.computations)}
    cost = program_cost(module)
    costs = {each.instruction: each for each in cost.instructions}
    builder = _Builder(numbers, costs, colouring or Colouring(), _fusions_of(module))
    return {
        "module": printable(module.name),
        "entry": numbers[module.entry],
        "computations": [builder.computation(c) for c in module.computations],
        "flops": cost.total.flops,
        "bytes": cost.total.bytes_accessed,
    }


class _Builder:
    def __init__(
        self,
        numbers: Mapping[HloComputation, int],
        costs: Mapping[HloInstruction, InstructionCost],
        colouring: Colouring,
        within: Mapping[HloComputation, str],
    ) -> None:
        self._numbers = numbers
        self._costs = costs
        self._known = colouring
        self._within = within

    def computation(self, computation: HloComputation) -> dict[str, Any]:
        """One computation, placed."""
        shown = [i for i in computation.instructions if not _is_inline(i, computation)]
        at = {i: n for n, i in enumerate(shown)}
        edges = list(dict.fromkeys((at[o], at[i]) for i in shown for o in i.operands if o in at))
        layout = layered(len(shown), edges)
        return {
            "name": printable(computation.name),
            "nodes": [self._node(i, computation) for i in shown],
            "edges": [[a, b, list(r)] for (a, b), r in zip(edges, layout.routes, strict=True)],
            "rows": [[[item, round(x, 2)] for item, x in row] for row in layout.rows],
        }

    def _node(self, i: HloInstruction, computation: HloComputation) -> dict[str, Any]:
        cost, time = self._costs.get(i), self._known.times.get(i.name)
        metadata = i.note.metadata
        data: dict[str, Any] = {
            "name": i.name,
            "opcode": i.opcode,
            "shape": i.shape.to_string(layout=False),
            "colour": family_colour(i),
            "text": print_instruction(i, _SHORT)[:_LONGEST_TEXT],
            "given": [shown_value(o) if _is_inline(o, computation) else "" for o in i.operands],
            "calls": [self._numbers[c] for c in i.called],
            "root": i is computation.root,
            "layout": _layouts(i),
            "op": metadata.op_name,
            "type": metadata.op_type,
            "source": metadata.location,
            "family": i.op.category,
            "device": self._known.devices.get(i.name, "") or i.note.device or "",
            "fusion": self._fusion(i, computation),
            "mark": self._known.marks.get(i, ""),
        }
        if time is not None:
            data |= {"time": time.seconds, "runs": time.count}
        if cost is not None:
            total = cost.total
            data |= {"iterations": cost.iterations, "flops": total.flops + total.transcendentals}
            data["bytes"] = total.bytes_accessed
        return {key: _shown(v) for key, v in data.items() if v not in ("", [], False, None)}

    def _fusion(self, i: HloInstruction, computation: HloComputation) -> str:
        if i.opcode == "fusion":
            return i.name
        return self._known.fusions.get(i.name, "") or self._within.get(computation, "")


def _shown(value: Any) -> Any:
    return printable(value) if isinstance(value, str) else value


def _fusions_of(module: HloModule) -> dict[HloComputation, str]:
    """The name of the first fusion that calls each computation."""
    found: dict[HloComputation, str] = {}
    for computation in module.computations:
        for i in computation.instructions:
            if i.opcode == "fusion":
                found.setdefault(i["calls"], i.name)
    return found


def _layouts(i: HloInstruction) -> str:
    """The layouts of its arrays, where they have any that can be chosen."""
    leaves = [leaf for _, leaf in i.shape.leaves() if leaf.is_array and leaf.rank]
    return ", ".join("any" if x.layout is None else str(x.layout) for x in leaves[:_MOST_LAYOUTS])


def _is_inline(i: HloInstruction, computation: HloComputation) -> bool:
    return i.opcode == "constant" and i is not computation.root
