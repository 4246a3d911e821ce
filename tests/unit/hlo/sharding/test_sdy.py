"""Shardy's texts are read and written."""

import random

import pytest

from xladev.errors import ParseError
from xladev.hlo.attributes import AxisRef
from xladev.hlo.devices import MeshAxes
from xladev.hlo.sharding.sdy import (
    SdyDimension,
    SdySharding,
    mesh_text,
    read_shardings,
    sharding_attribute,
)


def test_one_value() -> None:
    dims = '{"x", "y":(2)2}, {"z", ?}p1, {?}, {}'
    text = f'#sdy.sharding<@mesh, [{dims}], replicated={{"a"}}, unreduced={{"b"}}>'
    (found,) = read_shardings(text)
    assert found.mesh == "mesh"
    assert found.dims == (
        SdyDimension((AxisRef("x"), AxisRef("y", 2, 2))),
        SdyDimension((AxisRef("z"),), True, 1),
        SdyDimension((), True),
        SdyDimension(),
    )
    assert (found.replicated, found.unreduced) == ((AxisRef("a"),), (AxisRef("b"),))
    assert sharding_attribute(found) == text
    assert read_shardings(text.replace('"', '\\"')) == (found,)


def test_several_values_and_meshes_within() -> None:
    inner = 'mesh<["x"=4, "y"=2], device_ids=[3, 2, 1, 0, 4, 5, 6, 7]>'
    text = f'#sdy.sharding_per_value<[<@m, [{{"x"}}]>, <{inner}, []>]>'
    first, second = read_shardings(text)
    assert str(first) == '<@m, [{"x"}]>'
    mesh = MeshAxes((("x", 4), ("y", 2)), (3, 2, 1, 0, 4, 5, 6, 7))
    assert second == SdySharding(mesh, ())
    assert second.mesh_in({}) == mesh and first.mesh_in({"m": mesh}) == mesh
    assert first.mesh_in({}) is None
    assert mesh_text(MeshAxes((), (1,))) == "mesh<[], device_ids=[1]>"
    assert read_shardings("#sdy.sharding<mesh<[], device_ids=[1]>, []>")[0].mesh == MeshAxes(
        (), (1,)
    )


@pytest.mark.parametrize("seed", range(30))
def test_random_texts(seed: int) -> None:
    rng = random.Random(seed)

    def axes() -> tuple[AxisRef, ...]:
        refs = (AxisRef("x"), AxisRef("y", 2, 4), AxisRef("long-name.1"))
        return tuple(rng.sample(refs, rng.randint(0, 3)))

    dims = tuple(
        SdyDimension(axes(), rng.random() < 0.5, rng.choice((0, 0, 1, 12)))
        for _ in range(rng.randint(0, 4))
    )
    sharding = SdySharding(rng.choice(("mesh", "mesh_0")), dims, axes(), axes())
    assert read_shardings(sharding_attribute(sharding)) == (sharding,)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "#sdy.other<>",
        "#sdy.sharding<@m, [{x}]>",
        "#sdy.sharding<@m, [{}",
        "#sdy.sharding<@m, [{}]> more",
        "#sdy.sharding<@m, [{}], other={}>",
        "#sdy.sharding<8, [{}]>",
        '#sdy.sharding<mesh<["x"=y]>, []>',
    ],
)
def test_damaged_texts(text: str) -> None:
    with pytest.raises(ParseError, match="does not read on"):
        read_shardings(text)
