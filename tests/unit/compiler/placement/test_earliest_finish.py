"""Branches come to run beside one another where that pays, and chains stay where they are."""

from __future__ import annotations

from tests.unit.compiler.subset_backend import Subset, SubsetCompiler
from xladev.compiler.description import DeviceDescription, Link, MemorySpace
from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.placement.earliest_finish import earliest_finish, fits
from xladev.compiler.placement.estimate import Estimate
from xladev.hlo.ir import HloInstruction
from xladev.hlo.text import parse_module

WIDE = """HloModule wide
ENTRY e { x = f32[64,64] parameter(0)
  a = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = f32[64,64] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  c = f32[64,64] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d = f32[64,64] dot(b, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[64,64] add(c, d) }"""
WORK = 2 * 64**3 / 1e9
"""Seconds of one product."""


def placed(latency: float, groups: tuple[str, ...] = ()) -> dict[str, int]:
    entry = parse_module(WIDE).entry
    found = [i for i in entry.instructions if i.opcode != "parameter"]
    together = [[i for i in found if i.name in groups]] if groups else []
    rest = [[i] for i in found if i.name not in groups]
    links = {"host": Link(1e12, latency)}
    description = DeviceDescription(
        peak_flops={"f32": 1e9}, links=links, memory_spaces=(MemorySpace(bandwidth=1e12),)
    )
    compiler = SubsetCompiler(Subset(lambda i: True))
    devices = [CompileTarget(name, compiler, description) for name in ("npu", "npu:1")]

    def labels(i: HloInstruction) -> frozenset[int]:
        return frozenset({0, 1})

    chosen = earliest_finish([*together, *rest], labels, Estimate(devices))
    return {i.name: label for i, label in chosen.items()}


def test_branches_go_apart() -> None:
    found = placed(WORK / 100)
    assert found["a"] != found["b"]
    assert (found["c"], found["d"]) == (found["a"], found["b"])


def test_not_where_the_way_takes_longer() -> None:
    assert set(placed(10 * WORK).values()) == {0}


def test_groups_stay_together() -> None:
    found = placed(WORK / 100, ("a", "b"))
    assert found["a"] == found["b"]


def test_values_fit() -> None:
    entry = parse_module(WIDE).entry
    devices = dict.fromkeys(entry.instructions[1:], 1)
    nbytes = 5 * 64 * 64 * 4
    assert fits(devices, [0, nbytes]) and fits(devices, [None, None])
    assert not fits(devices, [0, nbytes - 1])
