"""Reshards: any sharding to any other, run on devices and held to how the target cuts the whole."""

import random

import numpy as np
import pytest

from xladev.hlo import dtype as dt
from xladev.hlo.ir import ModuleHeader
from xladev.hlo.multi_device import evaluate_replicated
from xladev.hlo.shape import array
from xladev.hlo.sharding.axis_sharding import AxisSharding
from xladev.hlo.sharding.grid import Grid, mesh_grid
from xladev.hlo.verifier import verify
from xladev.passes.spmd.local_builder import LocalBuilder
from xladev.passes.spmd.reshard import moved_bytes, plan, reshard

MESHES = ((("x", 4), ("y", 2)), (("x", 2), ("y", 3)), (("d", 8),))
XY = mesh_grid(MESHES[0])
(X0, X1, Y) = range(3)


def random_sharding(rng: random.Random, grid: Grid, rank: int) -> AxisSharding:
    atoms = rng.sample(range(len(grid.atoms)), rng.randint(0, len(grid.atoms)))
    dims: list[tuple[int, ...]] = [()] * rank
    for atom in atoms:
        d = rng.randrange(rank)
        dims[d] = (*dims[d], atom)
    return AxisSharding(grid, tuple(dims))


def check(dims: tuple[int, ...], source: AxisSharding, target: AxisSharding, replicas: int) -> None:
    whole = np.arange(1, np.prod(dims) + 1, dtype=np.int32).reshape(dims)
    b = LocalBuilder("reshard", replicas)
    shape = array(dt.S32, dims)
    x = b.parameter(source.local(shape))
    made = reshard(b, x, shape, source, target)
    count = source.grid.size
    module = b.module(made, ModuleHeader(replica_count=replicas, num_partitions=count))
    verify(module)
    rows = [
        [source.cut(whole * (r + 1), d, fill=-77)] for r in range(replicas) for d in range(count)
    ]
    results = evaluate_replicated(module, rows)
    for r in range(replicas):
        parts = results[r * count : (r + 1) * count]
        for device, part in enumerate(parts):
            wanted = target.cut(whole * (r + 1), device, fill=0)
            inside = target.cut(np.ones_like(whole), device, fill=0) > 0
            assert part.shape == wanted.shape
            np.testing.assert_array_equal(
                part[inside], wanted[inside], str(plan(dims, source, target))
            )


@pytest.mark.parametrize("seed", range(80))
def test_random_reshards(seed: int) -> None:
    rng = random.Random(seed)
    grid = mesh_grid(rng.choice(MESHES))
    other = grid
    if rng.random() < 0.2:
        other = Grid(grid.atoms, tuple(rng.sample(range(grid.size), grid.size)))
    rank = rng.randint(1, 3)
    even = rng.random() < 0.6
    dims = tuple(grid.size * rng.randint(1, 2) if even else rng.randint(1, 9) for _ in range(rank))
    source, target = random_sharding(rng, grid, rank), random_sharding(rng, other, rank)
    check(dims, source, target, rng.choice((1, 1, 1, 2)))


@pytest.mark.parametrize("seed", range(20))
def test_sums_kept_apart(seed: int) -> None:
    """The summands of the devices along unreduced atoms add up to the whole, before and after."""
    rng = random.Random(seed)
    dims = (rng.choice((8, 6)), 8)
    source, target = (random_sum(rng) for _ in range(2))
    whole = np.arange(1, np.prod(dims) + 1, dtype=np.int32).reshape(dims)
    b = LocalBuilder("reshard")
    shape = array(dt.S32, dims)
    made = reshard(b, b.parameter(source.local(shape)), shape, source, target)
    module = b.module(made, ModuleHeader(num_partitions=8))
    verify(module)
    rows = [[summand(source, whole, d)] for d in range(8)]
    found = evaluate_replicated(module, rows)
    for group in XY.groups(target.unreduced):
        total = sum(np.asarray(found[d]) for d in group)
        wanted = target.cut(whole, group[0])
        inside = target.cut(np.ones_like(whole), group[0]) > 0
        np.testing.assert_array_equal(total[inside], wanted[inside])


def random_sum(rng: random.Random) -> AxisSharding:
    atoms = rng.sample(range(3), 3)
    cut, summed = sorted(rng.randint(0, 3) for _ in range(2))
    return AxisSharding(XY, (tuple(atoms[:cut]), ()), tuple(atoms[cut:summed]))


def summand(sharding: AxisSharding, whole: np.ndarray, device: int) -> np.ndarray:
    """Five on all devices but the first, which has the rest."""
    place = XY.index(sharding.unreduced)[device]
    count = XY.count(sharding.unreduced)
    part = sharding.cut(whole, device)
    return np.full_like(part, 5) if place else part - 5 * (count - 1)


def kinds(source: tuple[tuple[int, ...], ...], target: tuple[tuple[int, ...], ...]) -> list[str]:
    return [s.kind for s in plan((8, 8), AxisSharding(XY, source), AxisSharding(XY, target))]


def test_each_change_takes_its_own_step() -> None:
    assert kinds(((X0, X1), ()), ((X0, X1), ())) == []
    assert kinds(((), ()), ((X0, X1), (Y,))) == ["slice", "slice"]
    assert kinds(((X0, X1), (Y,)), ((X0, X1), ())) == ["all-gather"]
    assert kinds(((X0, X1), ()), ((), (X0, X1))) == ["all-to-all"]
    assert kinds(((X0, X1), ()), ((X0,), (X1,))) == ["all-to-all"]
    assert kinds(((X0,), (Y,)), ((Y,), (X0,))) == ["collective-permute"]
    assert kinds(((X1, X0), ()), ((X0, X1), ())) == ["collective-permute"]
    assert kinds(((X0, X1), ()), ((Y,), (X0, X1))) == ["all-to-all", "slice"]
    assert kinds(((X0,), ()), ((Y,), ())) == ["collective-permute"]


def test_bytes_that_move() -> None:
    shape = array(dt.F32, (8, 8))
    rows, columns, whole = (
        AxisSharding(XY, dims) for dims in (((X0, X1), ()), ((), (X0, X1)), ((), ()))
    )
    assert moved_bytes(shape, rows, whole) == 3 * 64
    assert moved_bytes(shape, rows, columns) == 48
    assert moved_bytes(shape, whole, rows) == 0
    halves = AxisSharding(XY, ((X0,), ()))
    assert moved_bytes(shape, rows, halves) == 64
    assert moved_bytes(shape, halves, AxisSharding(XY, ((Y,), ()))) == 128
