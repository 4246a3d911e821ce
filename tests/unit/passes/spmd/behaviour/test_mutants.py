"""The mistakes that a partitioner makes, made on purpose: a check of values sees each of them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tests.unit.passes.spmd.sharded_programs import check
from xladev.errors import XladevError
from xladev.hlo.sharding.grid import Grid
from xladev.hlo.text import parse_module
from xladev.passes.spmd import halo, reshard
from xladev.passes.spmd.kinds import indexing, reduction
from xladev.passes.spmd.local_builder import LocalBuilder

ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"
ROWS = "sharding={devices=[4,1]<=[4]}"
ROW_OF_2 = "sharding={devices=[2,1,2]<=[4] last_tile_dim_replicate}"
PROGRAMS = {
    "sum": f"""x = f32[5,3] parameter(0), {ROWS}
  z = f32[] constant(2)
  ROOT r = f32[3] reduce(x, z), dimensions={{0}}, to_apply=add""",
    "product": """x = f32[3,21] parameter(0), sharding={devices=[1,4]<=[4]}
  ROOT r = f32[3,3] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}""",
    "window": f"""x = f32[8,3] parameter(0), {ROWS}
  z = f32[] constant(0)
  ROOT r = f32[8,3] reduce-window(x, z), window={{size=3x1 pad=1_1x0_0}}, to_apply=add, {ROWS}""",
    "moved": """x = f32[8,4] parameter(0), sharding={devices=[2,2]<=[4]}
  ROOT r = f32[8,4] negate(x), sharding={devices=[2,2]<=[2,2]T(1,0)}""",
    "joined": """x = f32[8,4] parameter(0), sharding={devices=[4,1]<=[2,2]T(1,0)}
  ROOT r = f32[8,4] sine(x), sharding={replicated}""",
    "half joined": f"""x = f32[8,4] parameter(0), {ROW_OF_2}
  ROOT r = f32[8,4] sine(x), sharding={{replicated}}""",
    "exchanged": f"""x = f32[8,4] parameter(0), {ROWS}
  ROOT r = f32[8,4] negate(x), sharding={{devices=[1,4]<=[4]}}""",
    "looked up": f"""x = f32[8,4] parameter(0), {ROWS}
  i = s32[3,1] constant({{{{7}}, {{0}}, {{2}}}})
  ROOT r = f32[3,4] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, """
    "start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}",
    "counted": f"""x = f32[8,4] parameter(0), {ROWS}
  i = f32[8,4] iota(), iota_dimension=0
  ROOT r = f32[8,4] add(x, i), {ROWS}""",
    "partly": f"""x = f32[8,4] parameter(0), {ROW_OF_2}
  ROOT r = f32[8,4] negate(x), {ROWS}""",
}


@dataclass(frozen=True)
class Mutant:
    """A mistake.

    Attributes:
        owner, name: what is replaced.
        wrong: given the right function, the wrong one.
        seen: programs that show it.
    """

    owner: Any
    name: str
    wrong: Callable[[Any], Any]
    seen: tuple[str, ...]


def _operand(number: int) -> Callable[[Any], Any]:
    """Gives an argument as it is."""
    return lambda _: lambda *arguments, **__: arguments[number]


def _turned(right: Any) -> Any:
    return lambda self, atoms: tuple(tuple(reversed(row)) for row in right(self, atoms))


def _other_groups(right: Any) -> Any:
    def groups(self: Grid, atoms: tuple[int, ...]) -> Any:
        others = tuple(a for a in range(len(self.atoms)) if a not in atoms)
        same = len(atoms) == len(others)
        return right(self, others if same else atoms)

    return groups


def _one_too_short(right: Any) -> Any:
    return lambda self, distance: right(self, distance) if distance <= 0 else []


def _swapped(right: Any) -> Any:
    def all_gather(self: Any, x: Any, grid: Grid, atoms: tuple[int, ...], dimension: int) -> Any:
        return right(self, x, grid, tuple(reversed(atoms)), dimension)

    return all_gather


def _behind(right: Any) -> Any:
    def start(self: Any, cut: Any, dims: Any, dimension: int) -> Any:
        return right(self, replace(cut, dims=((),) * len(cut.dims)), dims, dimension)

    return start


MUTANTS = {
    "a forgotten mask": Mutant(LocalBuilder, "masked", _operand(1), ("sum", "product")),
    "a lost reduction": Mutant(LocalBuilder, "all_reduce", _operand(1), ("sum", "product")),
    "groups of other devices": Mutant(Grid, "groups", _other_groups, ("half joined",)),
    "members in the wrong order": Mutant(Grid, "groups", _turned, ("joined", "exchanged")),
    "a halo one too short": Mutant(halo.Ranges, "sources", _one_too_short, ("window",)),
    "axes in the wrong order": Mutant(LocalBuilder, "all_gather", _swapped, ("joined",)),
    "a permutation left out": Mutant(LocalBuilder, "permute", _operand(1), ("moved", "window")),
    "counted from zero": Mutant(LocalBuilder, "start", _behind, ("counted", "looked up")),
    "the initial value left out": Mutant(reduction, "with_init", _operand(1), ("sum",)),
    "rows of others kept": Mutant(indexing, "_select_rows", _operand(3), ("looked up",)),
}


def run(name: str) -> None:
    module = parse_module(f"HloModule m, num_partitions=4\n{ADD}\nENTRY e {{ {PROGRAMS[name]} }}")
    dims = module.entry.parameters[0].shape.dims
    values = np.random.default_rng(1).standard_normal(dims).astype(np.float32)
    check(module, [values], 4)


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_mistakes(name: str) -> None:
    run(name)


@pytest.mark.parametrize("name", MUTANTS)
def test_mistakes_are_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = MUTANTS[name]
    monkeypatch.setattr(mutant.owner, mutant.name, mutant.wrong(getattr(mutant.owner, mutant.name)))
    reshard.plan.cache_clear()
    try:
        for program in mutant.seen:
            with pytest.raises((AssertionError, XladevError)):
                run(program)
    finally:
        reshard.plan.cache_clear()
