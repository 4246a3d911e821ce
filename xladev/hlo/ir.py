"""The IR: frozen instructions, computations and modules.

An instruction refers to its operands and to the computations it calls, and compares by identity;
`structural equality` is asked of modules (``==``) and of computations (``structural_key``). Nothing
here is ever changed after it was made: passes rebuild (see `hlo/rebuild.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from xladev.errors import VerifyError, printable_name
from xladev.hlo.attributes import NO_METADATA, Metadata, ModuleAlias, Origin, Sharding
from xladev.hlo.opdef import AttrKind, OpDef
from xladev.hlo.place_attributes import PLACE_KEYS
from xladev.hlo.shape import Shape, ShapeIndex

StringPairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Annotations:
    """What an instruction carries besides its meaning; kept by rewrites.

    Attributes:
        metadata: the op and source line it came from.
        sharding: how its value is laid out over devices.
        frontend_attributes: sorted (key, value) pairs.
        backend_config: text for one backend; JSON or opaque.
        control_predecessors: instructions that must run before it.
        origin: the values it stood for before optimisation.
        statistics: (name, value) pairs to visualise.
        device: name of the device that an assignment put it on; None if unassigned.
    """

    metadata: Metadata = NO_METADATA
    sharding: Sharding | None = None
    frontend_attributes: StringPairs = ()
    backend_config: str = ""
    control_predecessors: tuple[HloInstruction, ...] = ()
    origin: Origin | None = None
    statistics: tuple[tuple[str, float], ...] = ()
    device: str | None = None

    @property
    def place(self) -> Annotations:
        """What instructions carry that are made for this one's sake.

        Metadata, device, and what is to be together (`PLACE_KEYS`).
        """
        if self is NO_ANNOTATIONS:
            return self
        kept = tuple(pair for pair in self.frontend_attributes if pair[0] in PLACE_KEYS)
        return Annotations(metadata=self.metadata, frontend_attributes=kept, device=self.device)


NO_ANNOTATIONS = Annotations()
_NO_ATTRS: Mapping[str, Any] = MappingProxyType({})


def _no_attrs() -> Mapping[str, Any]:
    return _NO_ATTRS


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class HloInstruction:
    """One operation and its result.

    Attributes:
        op: its entry in the opset.
        shape: type of the result.
        operands: the instructions whose results it takes.
        attrs: its attributes by text name; those at their default are left out.
        name: unique among the module's instructions.
        note: metadata, sharding and the like.
    """

    op: OpDef
    shape: Shape
    operands: tuple[HloInstruction, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=_no_attrs)
    name: str = ""
    note: Annotations = NO_ANNOTATIONS

    def __post_init__(self) -> None:
        if self.attrs is not _NO_ATTRS:
            kept = _without_defaults(self.op, self.attrs)
            object.__setattr__(self, "attrs", MappingProxyType(kept) if kept else _NO_ATTRS)

    def with_operands(self, operands: tuple[HloInstruction, ...]) -> HloInstruction:
        """As `dataclasses.replace`, without going through the attributes again."""
        return _made(self.op, self.shape, operands, self.attrs, self.name, self.note)

    def with_name(self, name: str) -> HloInstruction:
        """The same under another name."""
        return _made(self.op, self.shape, self.operands, self.attrs, name, self.note)

    def with_note(self, note: Annotations) -> HloInstruction:
        """The same with other annotations."""
        return _made(self.op, self.shape, self.operands, self.attrs, self.name, note)

    @property
    def opcode(self) -> str:
        """Spelling of the opcode in text."""
        return self.op.name

    def __getitem__(self, name: str) -> Any:
        """The attribute, or its default; a ShapeError if the opcode has no such attribute."""
        if name in self.attrs:
            return self.attrs[name]
        return self.op.attr(name).default

    @property
    def called(self) -> tuple[HloComputation, ...]:
        """The computations it calls, in attribute order."""
        if not self.op.calling:
            return ()
        return tuple(c for _, cs in called_by_attr(self) for c in cs)

    def __repr__(self) -> str:
        name, *operands = map(printable_name, (self.name, *(o.name for o in self.operands)))
        return f"<{name} = {self.shape} {self.opcode}({', '.join(operands)})>"


def _made(
    op: OpDef,
    shape: Shape,
    operands: tuple[HloInstruction, ...],
    attrs: Mapping[str, Any],
    name: str,
    note: Annotations,
) -> HloInstruction:
    """An instruction whose attributes are those of another one, and need no look."""
    made, put = object.__new__(HloInstruction), object.__setattr__
    put(made, "op", op)
    put(made, "shape", shape)
    put(made, "operands", operands)
    put(made, "attrs", attrs)
    put(made, "name", name)
    put(made, "note", note)
    return made


def _without_defaults(op: OpDef, attrs: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in attrs.items():
        default = op.attr(name).default
        if value is not None and (value is not default) and (default is None or value != default):
            kept[name] = value
    return kept


def called_by_attr(instruction: HloInstruction) -> Iterator[tuple[str, tuple[HloComputation, ...]]]:
    """Yields (attribute name, computations it names) for attributes that name computations."""
    for attr in instruction.op.calling:
        value = instruction.attrs.get(attr.name)
        if value is None:
            continue
        yield attr.name, (value,) if attr.kind is AttrKind.COMPUTATION else tuple(value)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class HloComputation:
    """A function: instructions in an order where operands come first.

    Attributes:
        name: unique in the module.
        instructions: all of them, topologically ordered.
        root: the one whose value is the result.
        execution_thread: empty for the main thread.
        parameters: its parameter instructions by number.
    """

    name: str
    instructions: tuple[HloInstruction, ...]
    root: HloInstruction
    execution_thread: str = ""
    parameters: tuple[HloInstruction, ...] = field(init=False)

    def __post_init__(self) -> None:
        parameters = [i for i in self.instructions if i.opcode == "parameter"]
        found = {i["parameter_number"]: i for i in parameters}
        if sorted(found) != list(range(len(parameters))):
            numbers = sorted(i["parameter_number"] for i in parameters)
            raise VerifyError(
                f"parameters of computation {self.name} are numbered {numbers}",
                why="constraint parameter_c1: numbers are 0, 1, 2, ..., each once",
            )
        object.__setattr__(self, "parameters", tuple(found[n] for n in range(len(found))))

    def __repr__(self) -> str:
        return f"<computation {printable_name(self.name)}, {len(self.instructions)} instructions>"


@dataclass(frozen=True, slots=True)
class ProgramShape:
    """Parameter and result shapes, with layouts, of an entry computation."""

    parameters: tuple[Shape, ...]
    result: Shape


@dataclass(frozen=True, slots=True)
class StackFrames:
    """Tables that ``stack_frame_id`` of metadata points into; ids count from 1.

    Attributes:
        files, functions: names.
        locations: (file id, function id, line, end line, column, end column).
        frames: (location id, parent frame id or 0).
    """

    files: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    locations: tuple[tuple[int, int, int, int, int, int], ...] = ()
    frames: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ModuleHeader:
    """What a module says besides its computations.

    Attributes:
        is_scheduled: instruction order is the execution order.
        replica_count, num_partitions: how many devices run it.
        aliases: results that may or must reuse a parameter's buffer.
        buffer_donors: (parameter, index) parts whose buffers may be reused.
        alias_passthrough_params: parameters returned unchanged may alias.
        entry_layout: layouts of the interface; None where they are those of the entry.
        frontend_attributes: sorted (key, value) pairs.
        propagate_to_parameters, propagate_to_output: per value, may sharding be chosen.
        origin_recovery_table: text kept as given.
        debug_attributes: text kept as given.
        backend_config: text for one backend; JSON or opaque.
        stack_frames: tables for metadata.
    """

    is_scheduled: bool = False
    replica_count: int = 1
    num_partitions: int = 1
    aliases: tuple[ModuleAlias, ...] = ()
    buffer_donors: tuple[tuple[int, ShapeIndex], ...] = ()
    alias_passthrough_params: bool = False
    entry_layout: ProgramShape | None = None
    frontend_attributes: StringPairs = ()
    propagate_to_parameters: tuple[bool, ...] = ()
    propagate_to_output: tuple[bool, ...] = ()
    origin_recovery_table: str = ""
    debug_attributes: str = ""
    backend_config: str = ""
    stack_frames: StackFrames = StackFrames()


DEFAULT_HEADER = ModuleHeader()


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class HloModule:
    """A program.

    Attributes:
        name: name of the module.
        entry: the computation that is run.
        computations: all that are reachable from the entry, callees before callers.
        header: aliasing, layouts, replica counts and the like.
    """

    name: str
    entry: HloComputation
    header: ModuleHeader = DEFAULT_HEADER
    computations: tuple[HloComputation, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "computations", reachable(self.entry))
        given = self.header.entry_layout
        if given is not None:
            layout = _with_default_layouts(given)
            kept = None if layout == default_entry_layout(self.entry) else layout
            object.__setattr__(self, "header", replace(self.header, entry_layout=kept))

    @property
    def entry_layout(self) -> ProgramShape:
        """Shapes and layouts of the interface."""
        return self.header.entry_layout or default_entry_layout(self.entry)

    @property
    def instruction_count(self) -> int:
        """Number of instructions in all computations."""
        return sum(len(c.instructions) for c in self.computations)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HloModule):
            return NotImplemented
        if self is other:
            return True
        return (
            self.name == other.name
            and self.header == other.header
            and len(self.computations) == len(other.computations)
            and all(map(same_computation, self.computations, other.computations))
        )

    def __hash__(self) -> int:
        return hash((self.name, len(self.computations), self.instruction_count))

    def __repr__(self) -> str:
        return f"<module {printable_name(self.name)}, {self.instruction_count} instructions>"


def default_entry_layout(entry: HloComputation) -> ProgramShape:
    """The interface that an entry computation has where the module says nothing."""
    return _with_default_layouts(
        ProgramShape(tuple(p.shape for p in entry.parameters), entry.root.shape)
    )


def _with_default_layouts(given: ProgramShape) -> ProgramShape:
    parameters = tuple(shape.with_default_layout() for shape in given.parameters)
    return ProgramShape(parameters, given.result.with_default_layout())


def reachable(entry: HloComputation) -> tuple[HloComputation, ...]:
    """All computations that ``entry`` calls, directly or not, callees first; iterative."""
    done: dict[HloComputation, None] = {}
    stack: list[tuple[HloComputation, Iterator[HloComputation]]] = [(entry, _callees(entry))]
    opened = {entry}
    while stack:
        computation, callees = stack[-1]
        following = next((c for c in callees if c not in opened), None)
        if following is None:
            done[computation] = None
            stack.pop()
        else:
            opened.add(following)
            stack.append((following, _callees(following)))
    return tuple(done)


def _callees(computation: HloComputation) -> Iterator[HloComputation]:
    return (c for i in computation.instructions for c in i.called)


def same_computation(a: HloComputation, b: HloComputation) -> bool:
    """True if two computations agree in structure, attributes, layouts, annotations and names.

    Called computations are compared by name, since ``==`` on modules compares each of them once.
    """
    if a.name != b.name or a.execution_thread != b.execution_thread:
        return False
    if len(a.instructions) != len(b.instructions):
        return False
    return a.root.name == b.root.name and all(
        map(_same_instruction, a.instructions, b.instructions)
    )


def _same_instruction(a: HloInstruction, b: HloInstruction) -> bool:
    return (
        a.op is b.op
        and a.name == b.name
        and a.shape == b.shape
        and _names(a.operands) == _names(b.operands)
        and _comparable_attrs(a) == _comparable_attrs(b)
        and _comparable_note(a.note) == _comparable_note(b.note)
    )


def _names(things: Sequence[HloInstruction | HloComputation]) -> tuple[str, ...]:
    return tuple(t.name for t in things)


def _comparable_attrs(instruction: HloInstruction) -> dict[str, Any]:
    named = {attr: _names(cs) for attr, cs in called_by_attr(instruction)}
    return {**instruction.attrs, **named}


def _comparable_note(note: Annotations) -> tuple[Any, ...]:
    if note is NO_ANNOTATIONS:
        return _comparable_note_of_nothing
    return (
        note.metadata, note.sharding, note.frontend_attributes, note.backend_config,
        _names(note.control_predecessors), note.origin, note.statistics, note.device,
    )  # fmt: skip


_comparable_note_of_nothing: tuple[Any, ...] = (
    NO_METADATA, None, (), "", (), None, (), None,
)  # fmt: skip
