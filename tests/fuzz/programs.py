"""Changes programs one decision at a time and infers every shape again, so that most stay legal.

What comes out is a module that the opset's own rules made, or nearly: it gets past the reader and
often past the verifier, to passes, code generation and the run.
"""

import random
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tests.fuzz.strange import INTEGERS, strange
from xladev.errors import XladevError
from xladev.hlo.builder import infer_shape
from xladev.hlo.dtype import ARRAY_TYPES
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule, called_by_attr
from xladev.hlo.literal import Literal, literal_of
from xladev.hlo.opdef import AttrKind
from xladev.hlo.opset import OPSET
from xladev.hlo.shape import Layout, Shape

Edit = Callable[[HloInstruction], HloInstruction]
MOST_LITERAL = 1 << 16


def changed_program(module: HloModule, draw: random.Random) -> HloModule:
    """The module with one to three decisions changed.

    Raises:
        XladevError, TypeError, ValueError, ArithmeticError: no such module can be built.
    """
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        module = draw.choice(_CHANGES)(module, draw)
    return module


# whole program


def _change_one(module: HloModule, draw: random.Random) -> HloModule:
    """One instruction, changed in one way."""
    computation = draw.choice(module.computations)
    chosen = draw.choice(computation.instructions)
    edit = draw.choice(_EDITS)
    return _rebuilt(module, lambda i: edit(module, computation, i, draw) if i is chosen else i)


def _change_size(module: HloModule, draw: random.Random) -> HloModule:
    """Every dimension of one size gets another, as if the program had been made for it."""
    sizes = {d for c in module.computations for i in c.instructions for d in _dims(i.shape)}
    old = draw.choice(sorted(sizes)) if sizes else 1
    new = draw.choice((*INTEGERS, old + 1, 2 * old, 3, 17, 33))
    return _rebuilt(module, lambda i: _resized(i, old, new))


def _change_type(module: HloModule, draw: random.Random) -> HloModule:
    """Every value of one element type gets another."""
    types = {s.element_type for c in module.computations for i in c.instructions
             for _, s in i.shape.leaves() if s.is_array}  # fmt: skip
    if not types:
        return module
    old = draw.choice(sorted(types, key=str))
    new = draw.choice(ARRAY_TYPES)
    return _rebuilt(module, lambda i: _retyped(i, {old: new}))


def _change_header(module: HloModule, draw: random.Random) -> HloModule:
    """One thing that the module says of itself: aliases, donors, replicas, layouts."""
    return replace(module, header=strange(module.header, draw))


_CHANGES = (_change_one, _change_one, _change_one, _change_size, _change_type, _change_header)


# one instruction

_Edit = Callable[[HloModule, HloComputation, HloInstruction, random.Random], HloInstruction]


def _edit_attribute(
    module: HloModule, _: HloComputation, i: HloInstruction, draw: random.Random
) -> HloInstruction:
    if not i.op.attrs:
        return i
    name = draw.choice(i.op.attrs).name
    value = i[name]
    changed = 1 if value is None else strange(value, draw, module.computations)
    return replace(i, attrs={**i.attrs, name: changed})


def _edit_opcode(
    _: HloModule, __: HloComputation, i: HloInstruction, draw: random.Random
) -> HloInstruction:
    others = [op for op in OPSET.values() if op.accepts(len(i.operands))]
    op = draw.choice(others)
    known = {name: value for name, value in i.attrs.items() if name in op.by_name}
    return replace(i, op=op, attrs=known)


def _edit_operands(
    _: HloModule, computation: HloComputation, i: HloInstruction, draw: random.Random
) -> HloInstruction:
    before = computation.instructions[: computation.instructions.index(i)]
    operands = list(i.operands)
    what = draw.random()
    if not operands or not before or what < 0.1:
        return replace(i, operands=(*operands, *draw.choices(before, k=1)) if before else ())
    at = draw.randrange(len(operands))
    if what < 0.6:
        operands[at] = draw.choice(before)
    elif what < 0.8:
        draw.shuffle(operands)
    else:
        del operands[at]
    return replace(i, operands=tuple(operands))


def _edit_shape(
    _: HloModule, __: HloComputation, i: HloInstruction, draw: random.Random
) -> HloInstruction:
    return replace(i, shape=_changed_shape(i.shape, draw))


def _edit_type(
    _: HloModule, __: HloComputation, i: HloInstruction, draw: random.Random
) -> HloInstruction:
    if not i.shape.is_array:
        return i
    return _retyped(i, {i.shape.element_type: draw.choice(ARRAY_TYPES)})


_EDITS: tuple[_Edit, ...] = (
    _edit_attribute, _edit_attribute, _edit_attribute, _edit_opcode, _edit_operands, _edit_shape,
    _edit_type,
)  # fmt: skip


def _changed_shape(shape: Shape, draw: random.Random) -> Shape:
    if shape.is_tuple:
        return (
            strange(shape, draw)
            if draw.random() < 0.3
            else replace(
                shape, tuple_shapes=tuple(_changed_shape(s, draw) for s in shape.tuple_shapes)
            )
        )
    what = draw.random()
    if what < 0.5:
        return replace(shape, dims=strange(shape.dims, draw), layout=None)
    if what < 0.7:
        return replace(shape, dynamic=tuple(draw.random() < 0.5 for _ in shape.dims))
    order = list(range(shape.rank))
    draw.shuffle(order)
    layout = Layout(tuple(order))
    return replace(shape, layout=layout if what < 0.9 else strange(layout, draw))


# the same size and type everywhere


def _dims(shape: Shape) -> set[int]:
    return {d for _, leaf in shape.leaves() for d in leaf.dims}


def _resized(i: HloInstruction, old: int, new: int) -> HloInstruction:
    attrs = {name: _with_size(value, old, new) for name, value in i.attrs.items()}
    shape = _resized_shape(i.shape, old, new)
    if i.opcode == "constant" and shape != i.shape:
        attrs["literal"] = _fitting_literal(i["literal"], shape)
    return replace(i, shape=shape, attrs=attrs)


def _resized_shape(shape: Shape, old: int, new: int) -> Shape:
    if shape.is_tuple:
        return replace(
            shape, tuple_shapes=tuple(_resized_shape(s, old, new) for s in shape.tuple_shapes)
        )
    return replace(shape, dims=tuple(new if d == old else d for d in shape.dims))


def _with_size(value: Any, old: int, new: int) -> Any:
    """Sizes in lists and slices follow; lists of dimension numbers change by mistake, seldom."""
    if isinstance(value, tuple) and value and all(type(v) is int for v in value):
        return tuple(new if v == old and v > 3 else v for v in value)
    if isinstance(value, tuple) and value and hasattr(value[0], "limit"):
        return tuple(replace(v, limit=new) if v.limit == old else v for v in value)
    return value


def _retyped(i: HloInstruction, types: Mapping[Any, Any]) -> HloInstruction:
    shape = _retyped_shape(i.shape, types)
    attrs = dict(i.attrs)
    if i.opcode == "constant" and shape != i.shape:
        attrs["literal"] = _fitting_literal(i["literal"], shape)
    return replace(i, shape=shape, attrs=attrs)


def _retyped_shape(shape: Shape, types: Mapping[Any, Any]) -> Shape:
    if shape.is_tuple:
        return replace(
            shape, tuple_shapes=tuple(_retyped_shape(s, types) for s in shape.tuple_shapes)
        )
    return replace(shape, element_type=types.get(shape.element_type, shape.element_type))


def _fitting_literal(literal: Literal, shape: Shape) -> Literal:
    """The same numbers again and again; the literal itself where it would be too large."""
    if not shape.is_array or not 0 <= shape.size <= MOST_LITERAL or min(shape.dims, default=0) < 0:
        return literal
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy tells that complex numbers lose a part
        values = np.resize(np.asarray(literal.array), shape.dims).astype(shape.element_type.np)
    return literal_of(values, shape.element_type)


# rebuilding


def _rebuilt(module: HloModule, edit: Edit) -> HloModule:
    """Every instruction made again, callees first, its shape inferred where that is possible."""
    computations: dict[HloComputation, HloComputation] = {}
    for computation in module.computations:
        made: dict[HloInstruction, HloInstruction] = {}
        for old in computation.instructions:
            made[old] = _remade(edit(old), made, computations)
        computations[computation] = HloComputation(
            computation.name,
            tuple(made.values()),
            made[computation.root],
            computation.execution_thread,
        )
    header = replace(module.header, entry_layout=None)
    return HloModule(module.name, computations[module.entry], header)


def _remade(
    i: HloInstruction,
    made: Mapping[HloInstruction, HloInstruction],
    computations: Mapping[HloComputation, HloComputation],
) -> HloInstruction:
    operands = tuple(made[o] for o in i.operands)
    attrs = dict(i.attrs)
    for name, called in called_by_attr(i):
        new = tuple(computations.get(c, c) for c in called)
        single = i.op.attr(name).kind is AttrKind.COMPUTATION
        attrs[name] = new[0] if single and new else new
    before = tuple(made[p] for p in i.note.control_predecessors if p in made)
    note = replace(i.note, control_predecessors=before)
    shape = i.shape
    try:
        inferred = infer_shape(i.op, operands, attrs, shape)
        if not inferred.equal_ignoring_layout(shape):
            shape = inferred
    except (XladevError, ArithmeticError, TypeError, ValueError, LookupError, AttributeError):
        pass
    return HloInstruction(i.op, shape, operands, attrs, i.name, note)
