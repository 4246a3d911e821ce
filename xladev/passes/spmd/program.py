"""From a program on whole arrays, whose values are to be cut, to the program of one device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xladev.errors import UnsupportedError
from xladev.hlo.custom_calls.manual import has_manual_region
from xladev.hlo.ir import (
    HloInstruction,
    HloModule,
    ModuleHeader,
    ProgramShape,
)
from xladev.hlo.names import with_unique_names
from xladev.hlo.placement import RESULT
from xladev.hlo.shape import Shape, flattened_indices, flattened_shapes
from xladev.hlo.sharding.axis_sharding import AxisSharding, whole_on
from xladev.hlo.sharding.rules.table import REFUSED
from xladev.hlo.verifier import source_line
from xladev.passes.call_inliner import CallInliner
from xladev.passes.dce import DeadCodeElimination
from xladev.passes.sharding.asked import ON_ONE_DEVICE, Annotations, annotations_of
from xladev.passes.sharding.choose import choose
from xladev.passes.spmd.held import Cuts, local_shape
from xladev.passes.spmd.once import with_marks
from xladev.passes.spmd.partitioner import Partitioner
from xladev.passes.spmd.report import PartitionReport


@dataclass(frozen=True, slots=True)
class PartitionedProgram:
    """The program of one device.

    Attributes:
        module: takes and gives this device's parts.
        parameters: for each array among the parameters, in order, how it is cut.
        results: for each array of the result.
        report: where each value lies, and what was moved.
    """

    module: HloModule
    parameters: tuple[AxisSharding, ...]
    results: tuple[AxisSharding, ...]
    report: PartitionReport


def partition(module: HloModule, count: int, *, poison: bool = False) -> PartitionedProgram:
    """Partitions a program.

    Args:
        module: verified; its values are whole arrays.
        count: number of partitions, one or more.
        poison: True to fill padding with NaN and extremes, for tests.

    Raises:
        UnsupportedError: of code ``SHARDING``; the program needs what is not there yet.
    """
    inlined = CallInliner().run(with_marks(module))
    annotations = annotations_of(inlined, count)
    refuse(inlined, annotations)
    choice = choose(inlined, annotations)
    partitioner = Partitioner(choice.chosen, inlined.header.replica_count, poison)
    entry, results = partitioner.computation(inlined.entry, choice.parameters, choice.results)
    wanted = _even(inlined, results, choice.results)
    if wanted != choice.results:
        partitioner = Partitioner(choice.chosen, inlined.header.replica_count, poison)
        entry, results = partitioner.computation(inlined.entry, choice.parameters, wanted)
    header = _header(inlined, count, choice.parameters, results)
    made = with_unique_names(HloModule(inlined.name, entry, header))
    pairs = zip(entry.parameters, choice.parameters, strict=True)
    flat = tuple(cut for p, cuts in pairs for cut in _of_arrays(p.shape, cuts))
    return PartitionedProgram(
        DeadCodeElimination().run(made),
        flat,
        _of_arrays(entry.root.shape, results),
        partitioner.report,
    )


def _of_arrays(shape: Shape, cuts: Cuts) -> tuple[AxisSharding, ...]:
    """Those of arrays: tokens are not cut, wherever they went through."""
    pairs = zip(flattened_shapes(shape), cuts, strict=True)
    return tuple(cut for leaf, cut in pairs if leaf.is_array and cut is not None)


def _even(module: HloModule, results: Cuts, wanted: Cuts) -> Cuts:
    """What may lie in any way lies in even parts: frameworks have no others."""
    shapes = flattened_shapes(module.entry.root.shape)
    return tuple(
        whole_on(found.grid, shape.rank)
        if want is None and found is not None and not found.is_even(shape.dims)
        else want
        for shape, found, want in zip(shapes, results, wanted, strict=True)
    )


def _header(
    module: HloModule, count: int, parameters: Sequence[Cuts], results: Cuts
) -> ModuleHeader:
    """The header, for shapes of parts; what is cut in two ways now shares no memory."""
    header, entry = module.header, module.entry
    layout = header.entry_layout
    if layout is not None:
        cut = tuple(map(local_shape, layout.parameters, parameters))
        layout = ProgramShape(cut, local_shape(layout.result, results))
    places = _places(entry.root.shape)
    sources = [_places(p.shape) for p in entry.parameters]
    aliases = tuple(
        alias
        for alias in header.aliases
        if parameters[alias.parameter][sources[alias.parameter][alias.parameter_index]]
        == results[places[alias.output_index]]
    )
    return replace(
        header,
        num_partitions=count,
        entry_layout=layout,
        aliases=aliases,
        propagate_to_parameters=(),
        propagate_to_output=(),
    )


def _places(shape: Shape) -> dict[tuple[int, ...], int]:
    """The number of each leaf, by its index."""
    return {index: number for number, index in enumerate(flattened_indices(shape))}


def refuse(module: HloModule, annotations: Annotations) -> None:
    """Refuses what cannot be partitioned.

    Raises:
        UnsupportedError: of code ``SHARDING``; it names the first such instruction.
    """
    is_manual = has_manual_region(module)
    for computation in module.computations:
        for i in computation.instructions:
            why = REFUSED.get(i.opcode) or _fault(module, i, annotations)
            if not is_manual and not why:
                why = _names_partitions(i)
            if why:
                raise _refusal(module, i, annotations.count, why)


def _names_partitions(i: HloInstruction) -> str:
    """Why an instruction belongs in a manual region."""
    joins = "channel_id" in i.op.by_name and bool(i["channel_id"])
    if i.opcode != "partition-id" and not joins:
        return ""
    return "outside of manual regions, which device has what is the partitioner's to say"


def _fault(module: HloModule, i: HloInstruction, annotations: Annotations) -> str:
    """Why the sharding of an instruction cannot be had; what is within is computed everywhere."""
    entry = module.entry
    is_at_interface = i is entry.root or i in entry.parameters or _is_result(i)
    for asked in annotations.of(i):
        if asked is not None and asked.fault and (is_at_interface or asked.fault != ON_ONE_DEVICE):
            return asked.fault
    return ""


def _is_result(i: HloInstruction) -> bool:
    return i.opcode == "custom-call" and i["custom_call_target"] == RESULT


def _refusal(module: HloModule, i: HloInstruction, count: int, why: str) -> UnsupportedError:
    places = [f"{i.opcode} {i.name}", source_line(module, i)]
    return UnsupportedError(
        f"{module.name} cannot be partitioned over {count} devices",
        where=", ".join(filter(None, places)),
        why=why,
        hint="docs/reference/sharding.md says what is partitioned; jax.shard_map says what each "
        "device does",
        code="SHARDING",
    )
