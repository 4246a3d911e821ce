"""Tile assignments, named axes and atoms say the same: held to which device holds which element."""

import random
from math import prod

import numpy as np
import pytest

from xladev.hlo.attributes import AxisRef, IotaTile, Mesh, Sharding
from xladev.hlo.sharding.axis_sharding import AxisSharding, whole_on
from xladev.hlo.sharding.grid import Grid, mesh_grid, prime_factors
from xladev.hlo.sharding.tiles import (
    axes_atoms,
    expressed,
    placement_grid,
    tile_placement,
    to_named,
    to_tiles,
)
from xladev.hlo.text import parse_module, print_module

MESHES = ((("x", 4), ("y", 2)), (("x", 6), ("y", 2)), (("a", 2), ("b", 3), ("c", 2)), (("d", 8),))


def held_by_tiles(sharding: Sharding, dims: tuple[int, ...], device: int) -> set[tuple[int, ...]]:
    """Indices of the elements that a device holds, straight from the tile assignment."""
    ids = sharding.devices
    array = np.asarray(ids if isinstance(ids, tuple) else ids.device_ids())
    tile = np.argwhere(array.reshape(sharding.tile_dims) == device)[0]
    return {
        index
        for index in np.ndindex(*dims)
        if all(
            i // -(-n // parts) == at
            for i, n, parts, at in zip(index, dims, sharding.tile_dims, tile, strict=False)
        )
    }


def held(sharding: AxisSharding, dims: tuple[int, ...], device: int) -> set[tuple[int, ...]]:
    numbers = np.arange(prod(dims)).reshape(dims)
    part = sharding.cut(numbers, device, fill=-1)
    return {tuple(map(int, np.unravel_index(n, dims))) for n in part.reshape(-1) if n >= 0}


def random_tiles(rng: random.Random) -> tuple[Sharding, tuple[int, ...]]:
    """A tile assignment of one of its forms, and dimensions of an array."""
    count = rng.choice((4, 6, 8, 12))
    left, tile = count, []
    for _ in range(rng.randint(1, 3)):
        parts = rng.choice([n for n in range(1, left + 1) if left % n == 0])
        tile.append(parts)
        left //= parts
    dims = tuple(rng.randint(1, 7) for _ in tile)
    last = ("replicated",) if left > 1 or rng.random() < 0.2 else ()
    tile_dims = (*tile, left) if last else tuple(tile)
    if rng.random() < 0.5:
        sizes = list(prime_factors(prod(tile_dims)))
        rng.shuffle(sizes)
        order = rng.sample(range(len(sizes)), len(sizes))
        devices: IotaTile | tuple[int, ...] = IotaTile(tile_dims, tuple(sizes), tuple(order))
    else:
        devices = tuple(rng.sample(range(prod(tile_dims)), prod(tile_dims)))
    return Sharding("tiled", tile_dims=tile_dims, devices=devices, last_tile_dims=last), dims


@pytest.mark.parametrize("seed", range(60))
def test_tiles_to_axes_and_back(seed: int) -> None:
    sharding, dims = random_tiles(random.Random(seed))
    count = prod(sharding.tile_dims)
    placement = tile_placement(sharding, len(dims), count)
    assert placement is not None
    axes = expressed([], placement)
    for device in range(count):
        assert held(axes, dims, device) == held_by_tiles(sharding, dims, device)
    again = to_tiles(axes)
    if again.kind != "replicated":
        for device in range(count):
            assert held(axes, dims, device) == held_by_tiles(again, dims, device)


@pytest.mark.parametrize("seed", range(40))
def test_axes_to_tiles_to_named_and_back(seed: int) -> None:
    rng = random.Random(seed)
    grid = mesh_grid(rng.choice(MESHES))
    if rng.random() < 0.3:
        grid = Grid(grid.atoms, tuple(rng.sample(range(grid.size), grid.size)))
    atoms = rng.sample(range(len(grid.atoms)), rng.randint(0, len(grid.atoms)))
    cut = rng.randint(0, len(atoms))
    sharding = AxisSharding(grid, (tuple(atoms[:cut]), tuple(atoms[cut:])))
    for form in (to_tiles(sharding), to_named(sharding)):
        placement = tile_placement(form, 2, grid.size)
        assert placement is not None
        assert placement == sharding.placement, form
        assert expressed([grid], placement).placement == placement
        text = "HloModule m\nENTRY e { ROOT p = f32[4,4] parameter(0), sharding={0} }"
        module = parse_module(text.replace("{0}", _text(form)))
        assert module.entry.root.note.sharding == form
        assert print_module(parse_module(print_module(module))) == print_module(module)


def _text(sharding: Sharding) -> str:
    from xladev.hlo.text.devices import sharding_text

    return sharding_text(sharding)


def test_join_is_the_inverse_of_cut_with_padding_ignored() -> None:
    grid = mesh_grid((("x", 4), ("y", 2)))
    whole = np.arange(5 * 7).reshape(5, 7)
    for dims in (((0, 1), (2,)), ((2,), (1, 0)), ((), ()), ((0,), ())):
        sharding = AxisSharding(grid, dims)
        parts = [sharding.cut(whole, d, fill=-9) for d in range(8)]
        np.testing.assert_array_equal(sharding.join(parts, whole.shape), whole)
        assert parts[0].shape == sharding.local_dims(whole.shape)


def test_forms_in_text() -> None:
    grid = mesh_grid((("x", 4), ("y", 2)))
    (x0, x1, y) = range(3)
    assert grid.axes((x0, x1)) == (AxisRef("x"),)
    assert grid.text((x1, y)) == '"x":(2)2, "y"'
    assert AxisSharding(grid, ((x0,), (y,))).text == '[{"x":(1)2}, {"y"}]'
    whole = to_tiles(whole_on(grid, 2))
    assert whole.kind == "replicated"
    rows = to_tiles(AxisSharding(grid, ((x0, x1), ())))
    assert _text(rows) == "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"
    turned = to_tiles(AxisSharding(grid, ((y,), (x0, x1))))
    assert _text(turned) == "{devices=[2,4]<=[4,2]T(1,0)}"


def test_axes_that_the_grid_does_not_cut() -> None:
    grid = mesh_grid((("x", 4),))
    assert axes_atoms(grid, (AxisRef("x", 2, 2),)) == (1,)
    assert axes_atoms(grid, (AxisRef("x"),)) == (0, 1)
    assert axes_atoms(mesh_grid((("x", 6),)), (AxisRef("x", 3, 2),)) is None
    assert axes_atoms(mesh_grid((("x", 6),), (), [AxisRef("x", 3, 2)]), (AxisRef("x", 3, 2),)) == (
        1,
    )


def test_kinds_that_give_no_part_to_each() -> None:
    for sharding in (
        Sharding("maximal", device=1),
        Sharding("tiled", tile_dims=(2,), devices=(1, 0)),  # of 4 devices
        Sharding("named", mesh=Mesh((("x", 2),)), dim_axes=(((AxisRef("x"),), True),)),
    ):
        assert tile_placement(sharding, 1, 4) is None
    manual = Sharding(
        "tiled", tile_dims=(2, 2), devices=IotaTile((2, 2), (4,), (0,)), last_tile_dims=("manual",)
    )
    placement = tile_placement(manual, 1, 4)
    assert placement is not None and placement.counts == (2,)
    assert placement_grid(placement).size == 4
