"""Cumulative sums along dimensions that are cut: totals are exchanged, and no elements."""

import numpy as np
import pytest

from tests.unit.passes.spmd.sharded_programs import check
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.passes.spmd.kinds import cumulative

INITS = {"add": "0", "multiply": "1", "maximum": "-inf", "minimum": "inf"}


def program(size: int, window: str, opcode: str, init: str, tiles: str) -> HloModule:
    return parse_module(f"""HloModule m, num_partitions=4
f {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] {opcode}(a, b) }}
ENTRY e {{
  x = f32[{size},6] parameter(0), sharding={{devices={tiles}<=[4]}}
  z = f32[] constant({init})
  ROOT r = f32[{size},6] reduce-window(x, z), window={{{window}}}, to_apply=f,
    sharding={{devices={tiles}<=[4]}}
}}""")


def elements(size: int) -> np.ndarray:  # type: ignore[type-arg]
    return np.random.default_rng(2).uniform(0.5, 1.5, (size, 6)).astype(np.float32)


def gathered(module: HloModule) -> list[tuple[int, ...]]:
    return [i.shape.dims for i in module.entry.instructions if i.opcode == "all-gather"]


@pytest.mark.parametrize("opcode", INITS)
@pytest.mark.parametrize("size", [8, 11, 5, 40])
@pytest.mark.parametrize("backward", [False, True])
def test_totals_are_exchanged(size: int, opcode: str, backward: bool) -> None:
    pad = f"0_{size - 1}x0_0" if backward else f"{size - 1}_0x0_0"
    window = f"size={size}x1 pad={pad}"
    made = check(program(size, window, opcode, INITS[opcode], "[4,1]"), [elements(size)], 4)
    assert gathered(made.module) == [(4, 6)]


def test_along_two_dimensions() -> None:
    window = "size=11x6 pad=10_0x0_5"
    made = check(program(11, window, "add", "0", "[2,2]"), [elements(11)], 4).module
    assert gathered(made) == [(2, 3), (6, 2)]


def test_beside_a_window_of_neighbours() -> None:
    window = "size=11x3 pad=10_0x1_1"
    made = check(program(11, window, "add", "0", "[2,2]"), [elements(11)], 4).module
    assert gathered(made) == [(2, 3)]
    assert "collective-permute" in {i.opcode for i in made.entry.instructions}


def test_initial_values_that_count_need_elements() -> None:
    made = check(program(8, "size=8x1 pad=7_0x0_0", "add", "3", "[4,1]"), [elements(8)], 4)
    assert not gathered(made.module)
    assert "collective-permute" in {i.opcode for i in made.module.entry.instructions}


@pytest.mark.parametrize("name", ["masked", "with_others"])
def test_mistakes_are_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a mask padding is in the totals; without totals parts stand alone."""
    monkeypatch.setattr(cumulative, name, lambda o, x, d: x)
    with pytest.raises(AssertionError):
        check(program(11, "size=11x1 pad=0_10x0_0", "add", "0", "[4,1]"), [elements(11)], 4)
