"""One or more small modules for every opcode, which together set every attribute of the opset.

`data/opcodes.txt` has one example per entry, ``result opcode(operand shapes), attributes``, with
continued lines indented; operands become parameters of the entry computation. The computations
that attributes name are those of `data/computations.txt`. `data/modules.txt` has whole modules.
Layouts are written out, and names are those that XLA would give, so that its answers are equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from xladev.hlo.opset import OPSET

DATA = Path(__file__).parent / "data"

_NAMED = re.compile(r"[a-z]+[0-9a-z_]*")
_FILLED = {"parameter": "0", "constant": "{1, -2.5}"}


def opcode_examples() -> Iterator[tuple[str, str]]:
    """Yields (name, text); a name is the opcode with a number."""
    count: dict[str, int] = {}
    entries = (DATA / "opcodes.txt").read_text().replace("\n    ", " ").splitlines()
    for entry in (*_elementwise(entries), *entries):
        opcode, text = _module_text(entry)
        count[opcode] = count.get(opcode, 0) + 1
        yield f"{opcode}.{count[opcode]}", text


def module_examples() -> Iterator[tuple[str, str]]:
    """Yields (name, text) of whole modules; the name is that of the module."""
    for text in (DATA / "modules.txt").read_text().split("\n----\n"):
        yield text.split(None, 2)[1].rstrip(","), text.strip() + "\n"


def all_examples() -> dict[str, str]:
    """Text by name."""
    return {**dict(opcode_examples()), **dict(module_examples())}


def _elementwise(entries: list[str]) -> Iterator[str]:
    """Examples on f32 of elementwise opcodes that the file leaves out."""
    written = {_split(entry)[1] for entry in entries}
    for op in OPSET.values():
        if op.category == "elementwise" and op.name not in written:
            operands = ", ".join(["f32[4]{0}"] * op.arity_range[0])
            yield f"f32[4]{{0}} {op.name}({operands})"
            if "result_accuracy" in op.by_name:
                yield f"f32[4]{{0}} {op.name}({operands}), result_accuracy={{mode=highest}}"
                tolerance = "{tolerance={atol=0.5,rtol=0.25,ulps=2}}"
                yield f"f32[4]{{0}} {op.name}({operands}), result_accuracy={tolerance}"


def _split(entry: str) -> tuple[str, str, list[str], str]:
    """Result, opcode, operand shapes and attributes of an example."""
    at = _closing(entry, 0) if entry[0] == "(" else entry.index(" ")
    result, rest = entry[:at], entry[at + 1 :]
    opening = rest.index("(")
    closing = _closing(rest, opening)
    operands = _split_list(rest[opening + 1 : closing - 1])
    return result, rest[:opening], operands, rest[closing:]


def _closing(text: str, opening: int) -> int:
    """Offset behind the parenthesis that closes the one at ``opening``."""
    depth = 0
    for i in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    raise ValueError(text)


def _split_list(text: str) -> list[str]:
    parts, depth = [""], 0
    for char in text:
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [p.strip() for p in parts if p.strip()]


def _module_text(entry: str) -> tuple[str, str]:
    result, opcode, operands, attributes = _split(entry)
    lines = [f"  p{i} = {shape} parameter({i})" for i, shape in enumerate(operands)]
    inside = _FILLED.get(opcode, ", ".join(f"p{i}" for i in range(len(operands))))
    lines.append(f"  ROOT r = {result} {opcode}({inside}){attributes}")
    named = set(_NAMED.findall(attributes))
    used = [text for name, text in _computations().items() if name in named]
    if 'thread="parallel"' in attributes:
        used = [text + ', execution_thread="parallel"' for text in used]
    header = f"HloModule {opcode.replace('-', '_')}"
    entry_text = "\n".join(["ENTRY e {", *lines, "}"])
    return opcode, "\n\n".join([header, *used, entry_text]) + "\n"


def _computations() -> dict[str, str]:
    texts = (DATA / "computations.txt").read_text().strip().split("\n\n")
    return {text.split()[0]: text for text in texts}
