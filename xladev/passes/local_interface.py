"""Parameters and results of which each device has its part already: the program takes the part.

An array that only enters manual regions, cut as it is, needs no partitioner: the border makes of
it what the device has. So does one that leaves a manual region and is a result. `localize` takes
such borders away. Everything else stays as it is, for `compiler.sharding_check` to judge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xladev.hlo.builder import make_instruction
from xladev.hlo.custom_calls.manual import (
    ENTER,
    LEAVE,
    module_meshes,
    named_shardings,
)
from xladev.hlo.devices import MeshAxes
from xladev.hlo.ir import (
    HloComputation,
    HloInstruction,
    HloModule,
    ModuleHeader,
    ProgramShape,
)
from xladev.hlo.placement import (
    CONSTRAINT,
    RESULT,
    SDY_SHARDING,
    Placement,
    border_placements,
    given_placement,
    whole,
)
from xladev.hlo.rebuild import postorder, rebuild, users_of
from xladev.hlo.shape import Shape, tuple_of
from xladev.passes.effects import acts, computations_with_effects

_IN_SHARDINGS = "xla.sdy.in_shardings"
_GROUP = "xla.sdy.ShardingGroup"
_MARKERS = (*ENTER, *LEAVE, CONSTRAINT, RESULT, _GROUP)


@dataclass(frozen=True, slots=True)
class LocalInterface:
    """A program, and how what it takes and gives is laid out over its partitions.

    Attributes:
        module: the program; parameters and results that are cut have the shapes of their parts.
        parameters: for each array among the parameters; empty if it is not known.
        results: for each array of the result; empty if it is not known.
    """

    module: HloModule
    parameters: tuple[Placement, ...] = ()
    results: tuple[Placement, ...] = ()


def localize(module: HloModule, count: int) -> LocalInterface:
    """Takes parameters and results as the devices hold them, where borders show how.

    Where a parameter or result has no sharding, it gets that of its border if the header's
    ``propagate_to_parameters`` or ``propagate_to_output`` says that it may be chosen.

    Args:
        module: verified; what takes or gives tuples within tuples, or tokens, stays as it is.
        count: partitions.
    """
    root = module.entry.root.shape
    results = root.tuple_shapes if root.is_tuple else (root,)
    if count == 1 or not all(s.is_array for s in (*_shapes(module), *results)):
        return LocalInterface(module)
    return _Localizer(module, count).run()


def _shapes(module: HloModule) -> Iterator[Shape]:
    return (p.shape for p in module.entry.parameters)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """An array of the result.

    Attributes:
        value: the instruction that the root takes it from.
        source: the same without custom calls that only say how it is laid out.
        given: how it is said to be laid out; None if nothing is said.
    """

    value: HloInstruction
    source: HloInstruction
    given: Placement | None


@dataclass(slots=True)
class _Localizer:
    module: HloModule
    count: int
    meshes: Mapping[str, MeshAxes] = field(init=False)

    def __post_init__(self) -> None:
        self.meshes = module_meshes(self.module)

    def run(self) -> LocalInterface:
        """See `localize`."""
        entry = self.module.entry
        leaves = self._leaves()
        held = {p: self._taken(i, p, leaves) for i, p in enumerate(entry.parameters)}
        given = [self._given(i, leaf, held) for i, leaf in enumerate(leaves)]
        parameters = tuple(found or self._said(p) for p, found in held.items())
        root = entry.root.shape
        shapes = root.tuple_shapes if root.is_tuple else (root,)
        results = tuple(g or self._whole(shape) for g, shape in zip(given, shapes, strict=True))
        cut = {p: placement for p, placement in held.items() if placement}
        if not cut and not any(given):
            return LocalInterface(self.module, parameters, results)
        changed = self._rewritten(cut, leaves, given)
        header = self._header(parameters, results)
        return LocalInterface(
            replace(self.module, entry=changed, header=header), parameters, results
        )

    # What is how

    def _whole(self, shape: Shape) -> Placement:
        return whole(shape.rank, self.count)

    def _said(self, parameter: HloInstruction) -> Placement:
        """How a parameter is laid out that stays as it is."""
        said = given_placement(self.meshes, parameter, self.count)
        return said or self._whole(parameter.shape)

    def _taken(
        self, number: int, parameter: HloInstruction, leaves: Sequence[_Leaf]
    ) -> Placement | None:
        """How a parameter is laid out whose every use takes it so; None if it stays as it is."""
        uses = list(self._uses(parameter))
        wanted = given_placement(self.meshes, parameter, self.count)
        if wanted is None and uses and _flag(self.module.header.propagate_to_parameters, number):
            wanted = uses[0]
        if wanted is None or wanted.is_whole or wanted.local(parameter.shape) is None:
            return None
        uses += [leaf.given for leaf in leaves if leaf.source is parameter and leaf.given]
        return wanted if all(use == wanted for use in uses) else None

    def _uses(self, value: HloInstruction) -> Iterator[Placement | None]:
        """How the users of a value take it; None for one that takes it whole.

        What is returned as it is fits any sharding that its result has.
        """
        root = self.module.entry.root
        for user in users_of(self.module.entry)[value]:
            if _is_call(user, ENTER):
                borders = border_placements(self.meshes, user, self.count)
                pairs = zip(user.operands, borders, strict=True)
                yield from (border for operand, border in pairs if operand is value)
            elif _is_call(user, (CONSTRAINT,)) and self._says_the_same(user, value):
                yield from self._uses(user)
            elif not _is_call(user, (RESULT,)) and not (user is root and root.opcode == "tuple"):
                yield None

    def _says_the_same(self, constraint: HloInstruction, value: HloInstruction) -> bool:
        said = given_placement(self.meshes, constraint, self.count)
        return said is not None and said == given_placement(self.meshes, value, self.count)

    # Results

    def _leaves(self) -> list[_Leaf]:
        root = self.module.entry.root
        values = root.operands if root.opcode == "tuple" else (root,)
        if root.shape.is_tuple and root.opcode != "tuple":
            return [_Leaf(root, root, None) for _ in root.shape.tuple_shapes]
        return [self._leaf(value) for value in values]

    def _leaf(self, value: HloInstruction) -> _Leaf:
        source, given = value, None
        is_named = bool(self.meshes)
        while True:
            part = _tuple_part(source)
            if part is not None:
                source = part
                continue
            marks = _is_call(source, (RESULT, CONSTRAINT))
            if (marks or (source is value and not is_named)) and given is None:
                given = given_placement(self.meshes, source, self.count)
            if not marks:
                return _Leaf(value, source, given)
            source = source.operands[0]

    def _given(
        self, number: int, leaf: _Leaf, held: Mapping[HloInstruction, Placement | None]
    ) -> Placement | None:
        """How a result is laid out that is a part already; None if it stays as it is."""
        border = held.get(leaf.source) or self._border(leaf.source)
        if border is None or border.is_whole:
            return None
        is_free = leaf.given is None and (
            leaf.source in held or _flag(self.module.header.propagate_to_output, number)
        )
        return border if is_free or leaf.given == border else None

    def _border(self, source: HloInstruction) -> Placement | None:
        """How an array is laid out that leaves a manual region."""
        call = source.operands[0] if source.opcode == "get-tuple-element" else source
        if not _is_call(call, LEAVE):
            return None
        number = source["index"] if call is not source else 0
        return border_placements(self.meshes, call, self.count)[number]

    # The program

    def _rewritten(
        self,
        cut: Mapping[HloInstruction, Placement],
        leaves: Sequence[_Leaf],
        given: Sequence[Placement | None],
    ) -> HloComputation:
        entry = self.module.entry
        local = {p: _part(p, placement) for p, placement in cut.items()}
        made = dict(local)
        for instruction in entry.instructions:
            if _is_call(instruction, (CONSTRAINT, RESULT)) and instruction.operands[0] in made:
                made[instruction] = made[instruction.operands[0]]
            elif _is_call(instruction, ENTER) and any(o in made for o in instruction.operands):
                made[instruction] = _entered(instruction, made)
        values = [
            leaf.value if g is None else made.get(leaf.source) or _left(leaf.source)
            for leaf, g in zip(leaves, given, strict=True)
        ]
        changed = rebuild(entry, made, root=self._root(values, made))
        return self._without_dead_borders(changed)

    def _root(
        self, values: Sequence[HloInstruction], made: Mapping[HloInstruction, HloInstruction]
    ) -> HloInstruction | None:
        root = self.module.entry.root
        now = [made.get(value, value) for value in values]
        if root.shape.is_tuple and root.opcode != "tuple":
            return None
        return make_instruction("tuple", now, name=root.name) if root.shape.is_tuple else now[0]

    def _without_dead_borders(self, entry: HloComputation) -> HloComputation:
        """What says how dead values are laid out has an effect only in name."""
        effects = {c.name for c in computations_with_effects(self.module)}
        alive = [i for i in entry.instructions if acts(i, effects) and not _is_call(i, _MARKERS)]
        kept = set(postorder([entry.root, *entry.parameters, *alive]))
        return HloComputation(
            entry.name,
            tuple(i for i in entry.instructions if i in kept),
            entry.root,
            entry.execution_thread,
        )

    def _header(
        self, parameters: Sequence[Placement], results: Sequence[Placement]
    ) -> ModuleHeader:
        """The header, for shapes of parts; what is of two sizes now shares no memory."""
        header = self.module.header
        aliases = tuple(
            alias
            for alias in header.aliases
            if parameters[alias.parameter].counts == results[(*alias.output_index, 0)[0]].counts
        )
        return replace(
            header,
            num_partitions=self.count,
            entry_layout=_cut_layout(header.entry_layout, parameters, results),
            aliases=aliases,
            propagate_to_parameters=(),
            propagate_to_output=(),
        )


def _cut_layout(
    given: ProgramShape | None, parameters: Sequence[Placement], results: Sequence[Placement]
) -> ProgramShape | None:
    if given is None:
        return None
    parts = given.result.tuple_shapes if given.result.is_tuple else (given.result,)
    cut = tuple(map(_cut_shape, parts, results))
    return ProgramShape(
        tuple(map(_cut_shape, given.parameters, parameters)),
        tuple_of(*cut) if given.result.is_tuple else cut[0],
    )


def _flag(flags: Sequence[bool], number: int) -> bool:
    """One flag is for all."""
    if len(flags) == 1:
        return flags[0]
    return number < len(flags) and flags[number]


def _is_call(instruction: HloInstruction, targets: Sequence[str]) -> bool:
    return instruction.opcode == "custom-call" and instruction["custom_call_target"] in targets


def _tuple_part(value: HloInstruction) -> HloInstruction | None:
    if value.opcode != "get-tuple-element" or value.operands[0].opcode != "tuple":
        return None
    part: HloInstruction = value.operands[0].operands[value["index"]]
    return part


def _cut_shape(shape: Shape, placement: Placement) -> Shape:
    return placement.local(shape) or shape


def _part(parameter: HloInstruction, placement: Placement) -> HloInstruction:
    attributes = tuple(a for a in parameter.note.frontend_attributes if a[0] != SDY_SHARDING)
    note = replace(parameter.note, sharding=None, frontend_attributes=attributes)
    return replace(parameter, shape=_cut_shape(parameter.shape, placement), note=note)


def _left(source: HloInstruction) -> HloInstruction:
    """What a manual region gives, before it is joined."""
    if source.opcode == "get-tuple-element":
        part: HloInstruction = source.operands[0].operands[source["index"]]
        return part
    return source.operands[0]


def _entered(call: HloInstruction, made: Mapping[HloInstruction, HloInstruction]) -> HloInstruction:
    """What enters a manual region: parts as they are, and the rest one by one."""
    if not call.shape.is_tuple:
        return made[call.operands[0]]
    values = [made.get(o) or _entered_alone(call, i) for i, o in enumerate(call.operands)]
    return make_instruction("tuple", values, name=call.name)


def _entered_alone(call: HloInstruction, number: int) -> HloInstruction:
    attributes = dict(call.note.frontend_attributes)
    text = named_shardings(attributes[_IN_SHARDINGS])[number].text
    attributes[_IN_SHARDINGS] = f"#sdy.sharding_per_value<[{text}>]>"
    note = replace(call.note, frontend_attributes=tuple(sorted(attributes.items())))
    return replace(
        call,
        shape=call.shape.tuple_shapes[number],
        operands=(call.operands[number],),
        name=f"{call.name}.{number}",
        note=note,
    )
