"""Dynamic padder: bounded dynamic arrays become full-size arrays and s32 sizes.

Every dynamic dimension gets a size that is computed beside the data; what is not live never takes
part: it is masked where elements meet, and indices are kept inside. An opcode without a rule is run
on dynamic arrays made for it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from xladev.hlo.ir import (
    NO_ANNOTATIONS,
    Annotations,
    HloComputation,
    HloInstruction,
    HloModule,
    ModuleHeader,
    ProgramShape,
)
from xladev.hlo.names import with_unique_names
from xladev.hlo.ops.control import branch_attributes
from xladev.hlo.rebuild import with_operands
from xladev.hlo.shape import Shape, flattened_shapes, tuple_of
from xladev.passes.expansions.emit import Emitter
from xladev.passes.padding.table import rule_of
from xladev.passes.padding.values import (
    Padded,
    Value,
    as_dynamic,
    flat_shapes,
    flattened,
    from_dynamic,
    gathered,
    has_dynamic_part,
    materialized,
)
from xladev.passes.pass_ import HloModulePass

_CONTROL = frozenset({"while", "conditional", "call"})


@dataclass(frozen=True, slots=True)
class DynamicPadder(HloModulePass):
    """Makes every shape static.

    The interface changes if it was dynamic: each dynamic dimension of a parameter's leaves adds an
    s32[] parameter at the end, in order; the result becomes ``(result, sizes...)``. These are the
    buffers that a caller of the dynamic program passes, in the same order.
    """

    name = "dynamic-padder"

    def run(self, module: HloModule) -> HloModule:
        """See the class."""
        dynamic = _dynamic_computations(module)
        if module.entry not in dynamic:
            return module
        changed: dict[HloComputation, HloComputation] = {}
        for computation in module.computations:
            if computation in dynamic and computation is not module.entry:
                changed[computation] = _Padding(computation, changed).function()
        entry = _Padding(module.entry, changed).entry()
        made = HloModule(module.name, entry, _static_header(module))
        return with_unique_names(made)


def has_dynamic_shape(shapes: Iterable[Shape]) -> bool:
    """True if one of the shapes, or a part of one, has a dynamic dimension."""
    return any(leaf.is_dynamic for shape in shapes for _, leaf in shape.leaves())


def _dynamic_computations(module: HloModule) -> set[HloComputation]:
    """Computations with a dynamic shape in them or in what their control flow calls."""
    found: set[HloComputation] = set()
    for computation in module.computations:
        own = has_dynamic_shape(i.shape for i in computation.instructions)
        if own or any(_calls(i, found) for i in computation.instructions):
            found.add(computation)
    return found


def _calls(instruction: HloInstruction, dynamic: set[HloComputation]) -> bool:
    return instruction.opcode in _CONTROL and any(c in dynamic for c in instruction.called)


def _static_header(module: HloModule) -> ModuleHeader:
    """The header for the interface with sizes."""
    header, entry = module.header, module.entry
    result, layout = entry.root.shape, module.header.entry_layout
    grows = has_dynamic_shape([result])
    if grows:
        aliases = tuple(replace(a, output_index=(0, *a.output_index)) for a in header.aliases)
        header = replace(header, aliases=aliases, propagate_to_output=())
    if layout is None:
        return header
    extra = [s for p in entry.parameters for s in _size_shapes(p.shape)]
    parameters = (*(s.static() for s in layout.parameters), *extra)
    made = layout.result.static()
    made = tuple_of(made, *_size_shapes(result)) if grows else made
    return replace(header, entry_layout=ProgramShape(parameters, made))


def _size_shapes(shape: Shape) -> list[Shape]:
    return flat_shapes(shape)[len(flattened_shapes(shape)) :]


class _NotingEmitter(Emitter):
    """Gives what it makes the place in the source and the device of what is being replaced."""

    note: Annotations = NO_ANNOTATIONS

    def append(self, instruction: HloInstruction) -> HloInstruction:
        """Appends one instruction."""
        if instruction.note is NO_ANNOTATIONS and self.note is not NO_ANNOTATIONS:
            instruction = replace(instruction, note=self.note)
        return super().append(instruction)

    def begin(self, instruction: HloInstruction) -> None:
        """From now on, what is made stands for ``instruction``."""
        self.note = instruction.note.place


class _Padding:
    """Makes the static form of one computation.

    Attributes:
        computation: the original.
        changed: static forms of computations that it may call; see `function`.
    """

    def __init__(
        self, computation: HloComputation, changed: Mapping[HloComputation, HloComputation]
    ) -> None:
        self.computation = computation
        self.changed = changed
        self._e = _NotingEmitter(computation.name)
        self._values: dict[HloInstruction, Value] = {}

    def entry(self) -> HloComputation:
        """Parameters as before, then sizes; the result, with its sizes if it has some."""
        parameters = self.computation.parameters
        data = [self._e.parameter(p.shape.static(), p.name) for p in parameters]
        for parameter, made in zip(parameters, data, strict=True):
            shape = parameter.shape
            sizes = [self._e.parameter(s) for s in _size_shapes(shape)]
            if sizes:
                leaves = list(self._leaves(made))
                self._values[parameter] = gathered([*leaves, *sizes], shape)
            else:
                self._values[parameter] = Padded(made)
        root, shape = self._root(), self.computation.root.shape
        if not has_dynamic_shape([shape]):
            return self._e.build(materialized(self._e, root))
        flat = flattened(self._e, root, shape)
        count = len(flattened_shapes(shape))
        whole = materialized(self._e, gathered(flat, shape))
        return self._e.build(self._e.op("tuple", whole, *flat[count:]))

    def function(self, result: Shape | None = None) -> HloComputation:
        """Takes a tuple of leaves, then sizes, per parameter, and gives one.

        Args:
            result: shape whose dynamic dimensions get sizes; by default the root's.
        """
        self._take_tuples()
        flat = flattened(self._e, self._root(), result or self.computation.root.shape)
        return self._e.build(self._e.op("tuple", *flat))

    def predicate(self) -> HloComputation:
        """As `function`, for the condition of a loop, which gives one pred."""
        self._take_tuples()
        return self._e.build(materialized(self._e, self._root()))

    def _take_tuples(self) -> None:
        for parameter in self.computation.parameters:
            shapes = flat_shapes(parameter.shape)
            parts = self._e.parts(self._e.parameter(tuple_of(*shapes)))
            self._values[parameter] = gathered(parts, parameter.shape)

    def _leaves(self, value: HloInstruction) -> Iterable[HloInstruction]:
        if not value.shape.is_tuple:
            return [value]
        return [leaf for part in self._e.parts(value) for leaf in self._leaves(part)]

    def _root(self) -> Value:
        for instruction in self.computation.instructions:
            if instruction not in self._values:
                self._e.begin(instruction)
                self._values[instruction] = self._made(instruction)
        return self._values[self.computation.root]

    def _made(self, i: HloInstruction) -> Value:
        values = [self._values[o] for o in i.operands]
        if i.opcode in _CONTROL and any(c in self.changed for c in i.called):
            return self._control(i, values)
        dynamic = has_dynamic_shape([i.shape]) or any(map(has_dynamic_part, values))
        rule = rule_of(i) if dynamic or i.opcode in ("tuple", "get-tuple-element") else None
        made = rule(self._e, i, values) if rule is not None else None
        if made is not None:
            return made
        return self._dynamic_copy(i, values) if dynamic else Padded(self._copy(i, values))

    def _copy(self, i: HloInstruction, values: Sequence[Value]) -> HloInstruction:
        """The same on static operands."""
        copy = with_operands(i, tuple(materialized(self._e, v) for v in values))
        return self._e.append(self._after(replace(copy, shape=i.shape.static()), i))

    def _dynamic_copy(self, i: HloInstruction, values: Sequence[Value]) -> Value:
        """The same on dynamic operands, made for it and taken apart again."""
        operands = tuple(as_dynamic(self._e, v) for v in values)
        return from_dynamic(self._e, self._e.append(self._after(with_operands(i, operands), i)))

    def _after(self, copy: HloInstruction, i: HloInstruction) -> HloInstruction:
        before = i.note.control_predecessors
        if not before:
            return copy
        now = tuple(materialized(self._e, self._values[p]) for p in before)
        return replace(copy, note=replace(copy.note, control_predecessors=now))

    # Control flow

    def _control(self, i: HloInstruction, values: Sequence[Value]) -> Value:
        if i.opcode == "while":
            condition = _Padding(i["condition"], self.changed).predicate()
            body = self._function(i["body"])
            state = self._flat(values[0], i.operands[0])
            made = self._e.op("while", state, condition=condition, body=body)
        elif i.opcode == "conditional":
            rows = [self._flat(v, o) for v, o in zip(values[1:], i.operands[1:], strict=True)]
            selector = materialized(self._e, values[0])
            bodies = tuple(_Padding(c, self.changed).function(i.shape) for c in i.called)
            attrs = branch_attributes(selector.shape, bodies)
            made = self._e.op("conditional", selector, *rows, **attrs)
        else:
            rows = [self._flat(v, o) for v, o in zip(values, i.operands, strict=True)]
            made = self._e.op("call", *rows, to_apply=self._function(i["to_apply"]))
        return gathered(self._e.parts(made), i.shape)

    def _flat(self, value: Value, original: HloInstruction) -> HloInstruction:
        return self._e.op("tuple", *flattened(self._e, value, original.shape))

    def _function(self, computation: HloComputation) -> HloComputation:
        """The static form, also of a computation without dynamic shapes."""
        found = self.changed.get(computation)
        return _Padding(computation, {}).function() if found is None else found
