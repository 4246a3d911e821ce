"""A program as the plain data that pages and pictures are drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xladev.compiler.cost import InstructionCost, program_cost
from xladev.hlo.dot import family_colour, shown_value
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.text.printer import PrintOptions, print_instruction
from xladev.profiling.graph.layout import layered

_SHORT = PrintOptions(layouts=True, metadata=False, backend_config=False, large_constants=False)
_LONGEST_TEXT = 2000

Marks = Mapping[HloInstruction, str]
"""A word about an instruction that differs from another program: removed, added, rewired."""
Times = Mapping[str, float]
"""Seconds by name of an instruction or kernel."""


def graph_data(
    module: HloModule, *, times: Times | None = None, marks: Marks | None = None
) -> dict[str, Any]:
    """What a page shows of a module.

    Constants are no nodes: they stand in what uses them.

    Args:
        module: the program, or its kernels.
        times: measured times, for colours.
        marks: differences from another program, for colours.
    """
    numbers = {c: n for n, c in enumerate(module.computations)}
    cost = program_cost(module)
    costs = {each.instruction: each for each in cost.instructions}
    builder = _Builder(numbers, costs, times or {}, marks or {})
    return {
        "module": module.name,
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
        times: Times,
        marks: Marks,
    ) -> None:
        self._numbers = numbers
        self._costs = costs
        self._times = times
        self._marks = marks

    def computation(self, computation: HloComputation) -> dict[str, Any]:
        """One computation, placed."""
        shown = [i for i in computation.instructions if not _is_inline(i, computation)]
        at = {i: n for n, i in enumerate(shown)}
        edges = list(dict.fromkeys((at[o], at[i]) for i in shown for o in i.operands if o in at))
        layout = layered(len(shown), edges)
        return {
            "name": computation.name,
            "nodes": [self._node(i, computation) for i in shown],
            "edges": [[a, b, list(r)] for (a, b), r in zip(edges, layout.routes, strict=True)],
            "rows": [[[item, round(x, 2)] for item, x in row] for row in layout.rows],
        }

    def _node(self, i: HloInstruction, computation: HloComputation) -> dict[str, Any]:
        cost = self._costs.get(i)
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
            "op": metadata.op_name,
            "source": metadata.location,
            "device": i.note.device or "",
            "mark": self._marks.get(i, ""),
            "time": self._times.get(i.name),
        }
        if cost is not None:
            total = cost.total
            data |= {"turns": cost.turns, "flops": total.flops + total.transcendentals}
            data["bytes"] = total.bytes_accessed
        return {key: value for key, value in data.items() if value not in ("", [], False, None)}


def _is_inline(i: HloInstruction, computation: HloComputation) -> bool:
    return i.opcode == "constant" and i is not computation.root
