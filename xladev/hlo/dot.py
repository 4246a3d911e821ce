"""An HLO module as a graph in Graphviz's DOT language.

One cluster per computation, one node per instruction, edges from operands and, dashed, to the
computations that are called. Colours tell families of opcodes apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from xladev.errors import printable
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule

_COLOURS: Mapping[str, str] = MappingProxyType(
    {
        "elementwise": "#fff3bf",
        "shape": "#e9ecef",
        "dot": "#a5d8ff",
        "conv": "#a5d8ff",
        "reduce": "#d0bfff",
        "training": "#d0bfff",
        "control": "#ffc9c9",
        "fusion": "#ffd8a8",
        "collective": "#96f2d7",
        "linalg": "#b2f2bb",
    }
)
_OTHER = "#ffffff"
_LONGEST = 60


def module_to_dot(module: HloModule) -> str:
    """The graph of a module; linear in its instructions."""
    numbers = {
        i: f"n{n}" for n, i in enumerate(i for c in module.computations for i in c.instructions)
    }
    lines = [
        f"digraph {_quoted(module.name)} {{",
        "  rankdir=TB;",
        '  node [shape=box, style=filled, fontname="Helvetica", fontsize=10];',
        '  edge [fontname="Helvetica", fontsize=9];',
    ]
    for number, computation in enumerate(module.computations):
        entry = computation is module.entry
        lines.extend(_cluster(computation, number, entry, numbers))
    for computation in module.computations:
        lines.extend(_edges(computation, numbers))
    return "\n".join([*lines, "}", ""])


def family_colour(instruction: HloInstruction) -> str:
    """The colour of an instruction's family of opcodes, as ``#rrggbb``."""
    return _COLOURS.get(instruction.op.category, _OTHER)


def shown_value(constant: HloInstruction) -> str:
    """A constant in a few characters: the value of a scalar, the shape of anything else."""
    if constant.shape.is_scalar and not constant["literal"].elided:
        return _shortened(str(constant["literal"].value))
    return _shortened(constant.shape.to_string(layout=False))


def _cluster(
    computation: HloComputation, number: int, entry: bool, names: Mapping[HloInstruction, str]
) -> Iterator[str]:
    label = f"ENTRY {computation.name}" if entry else computation.name
    yield f"  subgraph cluster_{number} {{"
    yield f"    label={_quoted(label)};"
    for i in computation.instructions:
        colour = family_colour(i)
        border = ", penwidth=3" if i is computation.root else ""
        text = _quoted(f"{i.opcode}\n{i.name}\n{_shortened(i.shape.to_string())}{_value(i)}")
        yield f'    {names[i]} [label={text}, fillcolor="{colour}"{border}];'
    yield "  }"


def _edges(computation: HloComputation, names: Mapping[HloInstruction, str]) -> Iterator[str]:
    for i in computation.instructions:
        for number, operand in enumerate(i.operands):
            label = f' [label="{number}"]' if len(i.operands) > 1 else ""
            yield f"  {names[operand]} -> {names[i]}{label};"
        for before in i.note.control_predecessors:
            yield f'  {names[before]} -> {names[i]} [style=dotted, color="#868e96"];'
        for called in i.called:
            yield f'  {names[called.root]} -> {names[i]} [style=dashed, color="#868e96"];'


def _value(i: HloInstruction) -> str:
    """The number of a parameter, the value of a scalar constant, the source line."""
    if i.opcode == "parameter":
        return f"\nparameter {i['parameter_number']}"
    if i.opcode == "constant" and i.shape.is_scalar and not i["literal"].elided:
        return f"\n{i['literal'].value}"
    location = i.note.metadata.location
    return f"\n{_shortened(location)}" if location else ""


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _quoted(text: str) -> str:
    escaped = printable(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
