"""Programs whose values are cut in some way, partitioned, run on devices, and held to the whole."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from xladev.hlo.attributes import IotaTile, Sharding
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.literal import Array, Value
from xladev.hlo.multi_device import evaluate_replicated
from xladev.hlo.rebuild import rebuild
from xladev.hlo.shape import Shape, flattened_shapes
from xladev.hlo.sharding.axis_sharding import AxisSharding
from xladev.hlo.verifier import verify
from xladev.passes.spmd.program import PartitionedProgram, partition
from xladev.testing.differential import compare_results
from xladev.testing.noise import leaves
from xladev.testing.random_inputs import random_arguments
from xladev.testing.random_program import random_program
from xladev.testing.recipes.table import RECIPES

NO_VALUE = -(2**40)
UNPARTITIONED = frozenset(
    {"infeed", "outfeed", "send", "recv", "rng", "partition-id", "async-start"}
)


def random_sharding(rng: random.Random, shape: Shape, count: int) -> Sharding:
    """A tile assignment of an array; or replicated."""
    left, tile = count, []
    for _ in shape.dims:
        parts = rng.choice([n for n in range(1, left + 1) if left % n == 0])
        tile.append(parts)
        left //= parts
    rng.shuffle(tile)
    if all(n == 1 for n in tile):
        return Sharding("replicated")
    dims = (*tile, left) if left > 1 else tuple(tile)
    last = ("replicated",) if left > 1 else ()
    factors = [f for f in (2, 2, 2) if count == 8] or [f for f in (2, 3) if count == 6] or [count]
    order = rng.sample(range(len(factors)), len(factors))
    if rng.random() < 0.3:
        ids = tuple(rng.sample(range(count), count))
        return Sharding("tiled", tile_dims=dims, devices=ids, last_tile_dims=last)
    devices = IotaTile(dims, tuple(factors), tuple(order))
    return Sharding("tiled", tile_dims=dims, devices=devices, last_tile_dims=last)


def annotated(module: HloModule, seed: int, count: int, share: float = 0.6) -> HloModule:
    """The module with shardings on a share of the entry's arrays, parameters and results."""
    rng = random.Random(f"shardings {seed}")
    made: dict[HloInstruction, HloInstruction] = {}

    def drawn(shape: Shape) -> Sharding:
        if not shape.is_array or shape.is_dynamic or rng.random() > share:
            return Sharding("replicated")
        return random_sharding(rng, shape, count)

    for i in module.entry.instructions:
        is_interface = i is module.entry.root or i.opcode == "parameter"
        if not is_interface and rng.random() > share:
            continue
        parts = tuple(map(drawn, flattened_shapes(i.shape)))
        sharding = Sharding("tuple", parts=parts) if i.shape.is_tuple else parts[0]
        made[i] = replace(i, note=replace(i.note, sharding=sharding))
    entry = rebuild(module.entry, made)
    return replace(module, entry=entry, header=replace(module.header, num_partitions=count))


def flat(value: Value) -> list[Array]:
    return [np.asarray(leaf) for leaf in leaves(value)]


def poison(dtype: np.dtype) -> object:  # type: ignore[type-arg]
    """What padding of arguments holds."""
    if dtype.kind in "iu":
        return np.iinfo(dtype).max
    return True if dtype.kind == "b" else np.nan


def run(
    program: PartitionedProgram, arguments: Sequence[Value], replicas: int = 1
) -> list[list[Array]]:
    """The results of each device; every replica is given the same arguments."""
    count = program.module.header.num_partitions
    shapes = [p.shape for p in program.module.entry.parameters]
    rows = []
    for device in range(count):
        pairs = zip(program.parameters, flat(tuple(arguments)), strict=True)
        parts = iter([_part(cut, a, device) for cut, a in pairs])
        rows.append([_nested(shape, parts) for shape in shapes])
    found = evaluate_replicated(program.module, rows * replicas)
    return [flat(value) for value in found]


def _part(cut: AxisSharding, whole: Array, device: int) -> Array:
    """A device's part; of a sum that is kept apart, all is in one summand."""
    part = cut.cut(whole, device, fill=_fill(whole))
    is_first = not cut.unreduced or cut.grid.index(cut.unreduced)[device] == 0
    return part if is_first else np.zeros_like(part)


def _nested(shape: Shape, parts: Iterator[Array]) -> Value:
    if shape.is_tuple:
        return tuple(_nested(each, parts) for each in shape.tuple_shapes)
    return next(parts) if shape.is_array else None


def _fill(array: Array) -> object:
    try:
        return poison(array.dtype)
    except ValueError:  # integers and floats of other packages
        return 1


def joined(
    program: PartitionedProgram, found: Sequence[Sequence[Array]], shapes: Sequence[Shape]
) -> list[Array]:
    """Whole results, of the parts of the devices of one replica; sums kept apart are added up."""
    return [
        cut.join(_added_up(cut, [row[n] for row in found]), shape.dims)
        for n, (cut, shape) in enumerate(zip(program.results, shapes, strict=True))
    ]


def _added_up(cut: AxisSharding, parts: Sequence[Array]) -> list[Array]:
    if not cut.unreduced:
        return list(parts)
    sums = {d: sum(parts[each] for each in g) for g in cut.grid.groups(cut.unreduced) for d in g}
    return [np.asarray(sums[d], parts[d].dtype) for d in range(len(parts))]


def check(module: HloModule, arguments: Sequence[Value], count: int) -> PartitionedProgram:
    """Partitions a program, with poisoned padding, and compares it with the whole."""
    verify(module)
    program = partition(module, count, poison=True)
    verify(program.module)
    whole = replace(module, header=replace(module.header, num_partitions=1))
    replicas = module.header.replica_count
    wanted = [flat(v) for v in evaluate_replicated(whole, [list(arguments)] * replicas)]
    found = run(program, arguments, replicas)
    shapes = [s for s in flattened_shapes(module.entry.root.shape) if s.is_array]
    rows = [found[r * count : (r + 1) * count] for r in range(replicas)]
    got = [array for row in rows for array in joined(program, row, shapes)]
    # partial sums of narrow floats are added up in these, as XLA's partitioner has it
    every = [array for row in wanted for array in row]
    finding = compare_results(whole, arguments, got, every, coarse_sums=True)
    assert finding is None, finding
    return program


def drawn_program(
    seed: int, opcodes: Sequence[str] = (), steps: int | None = None
) -> tuple[HloModule, list[Array]] | None:
    """A random program and its arguments; None where the partitioner has nothing to do."""
    module = random_program(seed, RECIPES, opcodes=opcodes or None, steps=steps)
    used = {i.opcode for c in module.computations for i in c.instructions}
    shapes = [s for p in module.entry.parameters for s in (p.shape, *flattened_shapes(p.shape))]
    shapes += flattened_shapes(module.entry.root.shape)
    if used & UNPARTITIONED or any(not s.is_array or s.is_dynamic for s in shapes):
        return None
    if any(name.endswith(("-start", "-done")) for name in used):
        return None
    every = [i for c in module.computations for i in c.instructions]
    if any("channel_id" in i.op.by_name and i["channel_id"] for i in every):
        return None
    return module, [np.asarray(a) for a in random_arguments(module, seed)]
