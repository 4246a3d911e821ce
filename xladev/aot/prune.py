"""Cuts a program down to what is wanted of it, and fits it to what is fed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from xladev.aot.selection import Binding, Selection, bound_literal
from xladev.errors import ArgumentError
from xladev.hlo.attributes import ModuleAlias
from xladev.hlo.builder import make_instruction
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.rebuild import postorder, with_operands
from xladev.hlo.shape import Shape, ShapeIndex
from xladev.passes.dce import DeadCodeElimination

Substitutes = Mapping[HloInstruction, HloInstruction]
_NONE = "the entry computation has none of that name"
_RESULTS = "give the index of a result, or a name that `xladev convert FILE` shows"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A value in the program: a part of what an instruction gives.

    Attributes:
        instruction: what gives it.
        index: which part of it.
        name: of the result in C; empty for one made from its source.
        source: what it is in HLO.
        result: the index of the program's result that it is; None for another value.
    """

    instruction: HloInstruction
    index: ShapeIndex
    name: str
    source: str
    result: ShapeIndex | None = None


@dataclass(frozen=True, slots=True)
class Pruned:
    """A program cut down.

    Attributes:
        module: what is left.
        arguments: for each parameter of ``module``, the instruction that it stands for in the
            program given, and its name in C where one was asked for.
        results: what each part of the result is; empty where it is the result of the program.
    """

    module: HloModule
    arguments: tuple[tuple[HloInstruction, str], ...]
    results: tuple[Wanted, ...] = ()


def prune(module: HloModule, selection: Selection) -> Pruned:
    """The program with only what a selection asks for.

    Args:
        module: the program.
        selection: what is fed, bound and fetched.

    Raises:
        ArgumentError: a name or index that the program has not got, one named twice, or a value
            that does not fit.
        FileError: the file of a binding cannot be read.
    """
    entry = module.entry
    if selection.is_everything:
        return Pruned(module, tuple((p, "") for p in entry.parameters))
    fed = {_fed(module, feed.what, "feed"): feed.name for feed in selection.feeds}
    bound = {_fed(module, binding.what, "constant"): binding for binding in selection.bindings}
    _refuse_twice(selection, fed, bound)
    wanted = [_fetched(module, fetch.what, fetch.name) for fetch in selection.fetches]
    stops = fed.keys() | bound.keys()
    roots = [part.instruction for part in wanted] or [entry.root]
    needed = tuple(postorder(roots, set(stops)))
    rest = (p for p in entry.parameters if p in set(needed))
    arguments = tuple(fed.items()) + tuple((p, "") for p in rest)
    made = _substitutes([a for a, _ in arguments], bound)
    root = _relinked(needed, made, wanted) or made[entry.root]
    cut = HloComputation(entry.name, _body(made, arguments, root), root)
    header = replace(
        module.header,
        is_scheduled=False,
        aliases=_aliases(module, wanted, [a for a, _ in arguments]),
        buffer_donors=(),
        entry_layout=None,
        propagate_to_parameters=(),
        propagate_to_output=(),
    )
    left = DeadCodeElimination().run(HloModule(module.name, cut, header))
    return Pruned(left, arguments, tuple(wanted))


def _fed(module: HloModule, what: str, option: str) -> HloInstruction:
    """The instruction that a feed or a binding means."""
    parameters = module.entry.parameters
    if what.isdecimal():
        if (number := _number(what)) < len(parameters):
            return parameters[number]
        raise ArgumentError(
            f"{option} {what!r}: {module.name} has {len(parameters)} parameters",
            where=f"entry computation {module.entry.name}",
            why="parameters are counted from 0",
        )
    return _named(module, what, option)


def _named(module: HloModule, what: str, option: str) -> HloInstruction:
    by_name = {i.name: i for i in module.entry.instructions}
    found = by_name.get(what.lstrip("%"))
    if found is not None:
        return found
    inside = next((c for c in module.computations for i in c.instructions if i.name == what), None)
    near = get_close_matches(what, by_name, n=3)
    parameters = ", ".join(p.name for p in module.entry.parameters[:8])
    known = f"parameters are {parameters}" if option != "fetch" else _RESULTS
    raise ArgumentError(
        f"{option} {what!r} is no instruction of {module.name}",
        where=f"entry computation {module.entry.name}",
        why=f"it is in computation {inside.name}, which is called" if inside is not None else _NONE,
        hint=f"did you mean {' or '.join(near)}?" if near else known,
    )


def _refuse_twice(
    selection: Selection,
    fed: Mapping[HloInstruction, str],
    bound: Mapping[HloInstruction, Binding],
) -> None:
    both = next((i for i in fed if i in bound), None)
    if both is None and len(fed) == len(selection.feeds) and len(bound) == len(selection.bindings):
        return
    at = both or next(iter(fed or bound))
    raise ArgumentError(
        "a value is fed or bound twice" if both is None else f"{at.name} is both fed and bound",
        why="each value comes from one place",
        hint="a parameter's number and its name mean the same",
    )


def _fetched(module: HloModule, what: str, name: str) -> Wanted:
    """The value that a fetch means: a result by its index, or an instruction."""
    if not what.replace(".", "").isdecimal():
        found = _named(module, what, "fetch")
        return Wanted(found, (), name, found.name)
    index = tuple(_number(n) for n in what.split(".") if n)
    root = module.entry.root
    if not root.shape.is_tuple and index == (0,):
        return Wanted(root, (), name, "result", ())
    if not _has_index(root.shape, index):
        raise ArgumentError(
            f"fetch {what!r}: the result of {module.name} has no such part",
            where=f"entry computation {module.entry.name}",
            why=f"the result is {root.shape.without_layout()}",
            hint="parts of tuples are counted from 0: 1, or 1.0 for the first of the second",
        )
    at = 0
    while root.opcode == "tuple" and at < len(index):
        root = root.operands[index[at]]
        at += 1
    source = f"result{{{','.join(map(str, index))}}}"
    return Wanted(root, index[at:], name, source, index)


def _number(digits: str) -> int:
    """The number, or one that is too large for anything; Python reads no more than 4300 digits."""
    return int(digits[:_MOST_DIGITS])


_MOST_DIGITS = 1000


def _has_index(shape: Shape, index: ShapeIndex) -> bool:
    for number in index:
        if not shape.is_tuple or number >= len(shape.tuple_shapes):
            return False
        shape = shape.tuple_shapes[number]
    return True


def _substitutes(
    arguments: Sequence[HloInstruction], bound: Mapping[HloInstruction, Binding]
) -> dict[HloInstruction, HloInstruction]:
    """The parameters and constants that stand for what is fed and bound."""
    made = {
        old: make_instruction(
            "parameter",
            attrs={"parameter_number": number},
            shape=old.shape,
            name=old.name,
            note=replace(old.note, control_predecessors=()),
        )
        for number, old in enumerate(arguments)
    }
    for old, binding in bound.items():
        literal = bound_literal(binding, old.shape).in_layout_of(old.shape)
        made[old] = make_instruction(
            "constant",
            attrs={"literal": literal},
            shape=literal.shape,
            name=old.name,
            note=replace(old.note, control_predecessors=()),
        )
    return made


def _relinked(
    needed: Sequence[HloInstruction],
    made: dict[HloInstruction, HloInstruction],
    wanted: Sequence[Wanted],
) -> HloInstruction | None:
    """Fills ``made`` with copies of what is needed; the new root, if parts are wanted."""
    for old in needed:
        if old not in made:
            made[old] = _relink(old, made)
    parts = [_taken(made[part.instruction], part.index) for part in wanted]
    if len(parts) < 2:
        return parts[0] if parts else None
    return make_instruction("tuple", parts, name="fetched")


def _relink(old: HloInstruction, made: Substitutes) -> HloInstruction:
    new = with_operands(old, tuple(made[o] for o in old.operands))
    before = old.note.control_predecessors
    if not before:
        return new
    after = tuple(made[p] for p in before if p in made)
    return replace(new, note=replace(new.note, control_predecessors=after))


def _taken(value: HloInstruction, index: ShapeIndex) -> HloInstruction:
    for number in index:
        name = f"{value.name}.part{number}"
        value = make_instruction("get-tuple-element", [value], {"index": number}, name=name)
    return value


def _body(
    made: Substitutes,
    arguments: Sequence[tuple[HloInstruction, str]],
    root: HloInstruction,
) -> tuple[HloInstruction, ...]:
    """All parameters, used or not, and what the root needs."""
    return tuple(postorder([*(made[a] for a, _ in arguments), root]))


def _aliases(
    module: HloModule, wanted: Sequence[Wanted], arguments: Sequence[HloInstruction]
) -> tuple[ModuleAlias, ...]:
    """The aliases between arguments and results that are left."""
    numbers = {a: number for number, a in enumerate(arguments)}
    kept: list[ModuleAlias] = []
    for alias in module.header.aliases:
        number = numbers.get(module.entry.parameters[alias.parameter])
        place = _place(alias.output_index, wanted)
        if number is not None and place is not None:
            kept.append(ModuleAlias(place, number, alias.parameter_index, alias.kind))
    return tuple(kept)


def _place(index: ShapeIndex, wanted: Sequence[Wanted]) -> ShapeIndex | None:
    """Where a part of the program's result is in what is wanted; None if it is not."""
    if not wanted:
        return index
    for number, part in enumerate(wanted):
        if part.result is not None and index[: len(part.result)] == part.result:
            inside = index[len(part.result) :]
            return (number, *inside) if len(wanted) > 1 else inside
    return None
