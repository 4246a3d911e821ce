"""Prints modules, computations and instructions as HLO text that reads back as an equal module."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import NO_METADATA
from xladev.hlo.device_attribute import with_device
from xladev.hlo.ir import (
    NO_ANNOTATIONS,
    Annotations,
    HloComputation,
    HloInstruction,
    HloModule,
)
from xladev.hlo.opdef import COMPUTATION_KINDS, Attr, AttrKind
from xladev.hlo.shape import Shape
from xladev.hlo.text.codecs import CODECS
from xladev.hlo.text.cursor import escape
from xladev.hlo.text.devices import sharding_text
from xladev.hlo.text.header_text import header_text
from xladev.hlo.text.literals import literal_text
from xladev.hlo.text.metadata import (
    frontend_attributes_text,
    metadata_text,
    origin_text,
    quoted,
    statistics_text,
    string_or_json_text,
)


@dataclass(frozen=True, slots=True)
class PrintOptions:
    """How HLO text looks. The defaults give the short style and lose nothing.

    Attributes:
        percent: write ``%`` before every name.
        operand_shapes: write the shape of each operand.
        signatures: write parameters and result of each computation.
        layouts: write layouts of shapes.
        metadata: write where instructions came from, and the stack frame tables.
        backend_config: write configurations for backends.
        large_constants: write constants of more than ten elements, and tuples.
    """

    percent: bool = False
    operand_shapes: bool = False
    signatures: bool = False
    layouts: bool = True
    metadata: bool = True
    backend_config: bool = True
    large_constants: bool = True


SHORT = PrintOptions()
"""JAX's style: bare names."""
LONG = PrintOptions(percent=True, operand_shapes=True, signatures=True)
"""TensorFlow's style: ``%names``, operand shapes, computation signatures."""

_MOST_SHOWN_ELEMENTS = 10
_PLAIN_NAME = re.compile(r"[A-Za-z_][\w.\-]*\Z", re.ASCII)
_SPELLED_NAME = re.compile(r"[\w.\-]+\Z", re.ASCII)
_RESERVED = frozenset(
    {
        *(t.name for t in dt.ARRAY_TYPES), "token", "opaque", "HloModule", "ENTRY", "ROOT",
        "FileNames", "FunctionNames", "FileLocations", "StackFrames", "true", "false", "inf",
        "nan", "replicated", "maximal", "manual", "unreduced", "unknown", "shard_as",
        "shard_like", "last_tile_dim_replicate",
    }
)  # fmt: skip
"""Words of the grammar, which are names only after ``%``."""


def print_module(module: HloModule, options: PrintOptions = SHORT) -> str:
    """HLO text of a module; with the default options ``parse_module`` gives an equal module."""
    texts = [header_text(module, _name(module.name, SHORT), stack_frames=options.metadata)]
    for computation in module.computations:
        entry = "ENTRY " if computation is module.entry else ""
        texts.append(entry + print_computation(computation, options))
    return "\n\n".join(texts) + "\n"


def print_computation(computation: HloComputation, options: PrintOptions = SHORT) -> str:
    """HLO text of one computation, without the ``ENTRY`` that a module writes before it."""
    head = _name(computation.name, options)
    if options.signatures:
        head += " " + _signature(computation)
    lines = [head + " {"]
    for instruction in computation.instructions:
        mark = "  ROOT " if instruction is computation.root else "  "
        lines.append(mark + print_instruction(instruction, options))
    thread = computation.execution_thread
    lines.append("}" + (f", execution_thread={quoted(thread)}" if thread else ""))
    return "\n".join(lines)


def print_instruction(instruction: HloInstruction, options: PrintOptions = SHORT) -> str:
    """One line of HLO text: ``name = shape opcode(operands), attributes``."""
    shape = _shape_text(instruction.shape, options)
    inside = _POSITIONAL.get(instruction.opcode, _operands_text)(instruction, options)
    text = f"{_name(instruction.name, options)} = {shape} {instruction.opcode}({inside})"
    extras = [f"{n}={t}" for n, t in _attribute_texts(instruction, options)]
    if instruction.note is not NO_ANNOTATIONS:
        extras.extend(f"{n}={t}" for n, t in _note_texts(instruction.note, options))
    return ", ".join((text, *extras))


def _name(name: str, options: PrintOptions) -> str:
    """A name: bare where it can be, else after ``%``, quoted if it has unusual characters."""
    if not options.percent and _PLAIN_NAME.match(name) and name not in _RESERVED:
        return name
    return f"%{name}" if _SPELLED_NAME.match(name) else f'%"{escape(name)}"'


def _signature(computation: HloComputation) -> str:
    parameters = (
        f"{_name(p.name, SHORT)}: {p.shape.to_string(layout=False)}" for p in computation.parameters
    )
    result = computation.root.shape.to_string(layout=False)
    return f"({', '.join(parameters)}) -> {result}"


def _shape_text(shape: Shape, options: PrintOptions) -> str:
    return shape.to_string(layout=options.layouts)


# -- between the parentheses


def _operands_text(instruction: HloInstruction, options: PrintOptions) -> str:
    names = (_name(o.name, options) for o in instruction.operands)
    if not options.operand_shapes:
        return ", ".join(names)
    shapes = (_shape_text(o.shape, options) for o in instruction.operands)
    return ", ".join(f"{s} {n}" for s, n in zip(shapes, names, strict=True))


def _constant_text(instruction: HloInstruction, options: PrintOptions) -> str:
    largest = None if options.large_constants else _MOST_SHOWN_ELEMENTS
    return literal_text(instruction["literal"], largest=largest)


def _parameter_text(instruction: HloInstruction, options: PrintOptions) -> str:
    return str(instruction["parameter_number"])


_POSITIONAL: Mapping[str, Callable[[HloInstruction, PrintOptions], str]] = MappingProxyType(
    {"constant": _constant_text, "parameter": _parameter_text}
)


# -- behind them


def _attribute_texts(
    instruction: HloInstruction, options: PrintOptions
) -> Iterator[tuple[str, str]]:
    """Attributes that are set, and those at their default that XLA's grammar asks for."""
    for attr in instruction.op.attrs:
        value = instruction.attrs.get(attr.name)
        if value is None:
            value = attr.default if attr.shown else None
        if value is None or _is_positional(instruction.opcode, attr):
            continue
        if attr.kind in COMPUTATION_KINDS:
            yield attr.name, _computations_text(value, options)
        else:
            yield attr.name, CODECS[attr.kind].text(value)


def _is_positional(opcode: str, attr: Attr) -> bool:
    return attr.kind is AttrKind.NUMBER or (attr.kind is AttrKind.LITERAL and opcode in _POSITIONAL)


def _computations_text(value: Any, options: PrintOptions) -> str:
    if isinstance(value, HloComputation):
        return _name(value.name, options)
    return "{" + ", ".join(_name(c.name, options) for c in value) + "}"


def _note_texts(note: Annotations, options: PrintOptions) -> Iterator[tuple[str, str]]:
    if note.sharding is not None:
        yield "sharding", sharding_text(note.sharding)
    attributes = with_device(note.frontend_attributes, note.device)
    if attributes:
        yield "frontend_attributes", frontend_attributes_text(attributes)
    if note.statistics:
        yield "statistics", statistics_text(note.statistics)
    if note.origin is not None:
        yield "origin", origin_text(note.origin)
    if note.control_predecessors:
        yield "control-predecessors", _names_text(note.control_predecessors, options)
    if note.metadata != NO_METADATA and options.metadata:
        yield "metadata", metadata_text(note.metadata)
    if note.backend_config and options.backend_config:
        yield "backend_config", string_or_json_text(note.backend_config)


def _names_text(instructions: Iterable[HloInstruction], options: PrintOptions) -> str:
    return "{" + ", ".join(_name(i.name, options) for i in instructions) + "}"
