"""Mistakes that are planted in what splits programs are seen by what checks it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

import xladev
from xladev.compiler.clustering.cluster_graph import ClusterGraph
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition import partition as cutting
from xladev.compiler.placement import choice
from xladev.compiler.program import procedure_builder
from xladev.compiler.program.program import Program
from xladev.compiler.program.program_check import check_program
from xladev.compiler.program.thunks import Transfer
from xladev.errors import FormatError, XladevError
from xladev.hlo.ir import HloInstruction
from xladev.runtime.registry import Registry

TEXT = """HloModule m
ENTRY e { x = f32[8] parameter(0)
  a = f32[8] sine(x), frontend_attributes={xladev_device="vendor_like:0"}
  b = f32[8] negate(a), frontend_attributes={xladev_device="npu:1"}
  ROOT r = f32[8] add(a, b) }"""
X = np.linspace(0, 1, 8, dtype=np.float32)


def result_is_right(text: str = TEXT, options: CompileOptions | None = None) -> bool:
    program = xladev.compile(text.encode(), "template_npu", options)
    check_program(program.program)
    want = xladev.compile(text.encode(), "interpreter", CompileOptions(placement=()))(X).numpy()
    return bool(np.array_equal(program(X).numpy(), want) or np.allclose(program(X).numpy(), want))


def test_without_a_mistake_all_is_well(registry: Registry) -> None:
    assert result_is_right()


def test_a_missing_transfer(registry: Registry) -> None:
    program = xladev.compile(TEXT.encode(), "template_npu").program
    entry = program.entry
    moves = [t for t in entry.thunks if isinstance(t, Transfer)]
    for lost in moves:
        thunks = tuple(t for t in entry.thunks if t is not lost)
        with pytest.raises(FormatError, match="before it is written"):
            check_program(_with_entry(program, replace(entry, thunks=thunks)))


def _with_entry(program: Program, entry: object) -> Program:
    return replace(program, procedures=(*program.procedures[:-1], entry))  # type: ignore[arg-type]


def test_two_writers(registry: Registry) -> None:
    program = xladev.compile(TEXT.encode(), "template_npu").program
    entry = program.entry
    for at, twice in enumerate(entry.thunks):
        thunks = (*entry.thunks[: at + 1], twice, *entry.thunks[at + 1 :])
        with pytest.raises(FormatError, match="written twice"):
            check_program(_with_entry(program, replace(entry, thunks=thunks)))


def test_a_value_read_where_it_is_not(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A region that is given another device's memory, as if it needed no transfer."""
    monkeypatch.setattr(
        procedure_builder.ProcedureBuilder, "_read", lambda self, value, wanted: self._origin[value]
    )
    with pytest.raises(XladevError):
        assert result_is_right()


def test_a_lost_edge(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regions in an order in which an operand comes too late."""
    whole: Callable[..., Mapping[HloInstruction, int]] = cutting._levels

    def levels(live: cutting.Live, *rest: object, **named: object) -> Mapping[HloInstruction, int]:
        cut_off = {i: set() if i.name == "b" else needed for i, needed in live.items()}
        return whole(cut_off, *rest, **named)

    monkeypatch.setattr(cutting, "_levels", levels)
    with pytest.raises((XladevError, KeyError)):
        result_is_right()


ORDERED = """HloModule ordered
ENTRY e { x = f32[8] parameter(0)
  a = f32[8] sine(x), frontend_attributes={xladev_device="npu:1"}
  b = f32[8] negate(x), control-predecessors={a}, frontend_attributes={xladev_device="npu:0"}
  ROOT r = (f32[8], f32[8]) tuple(a, b) }"""


def order_of_regions() -> list[str]:
    program = xladev.compile(ORDERED.encode(), "template_npu").program
    return [e.signature.platform for e in program.executables]


def test_a_lost_control_edge(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    assert order_of_regions() == ["template_npu:1", "template_npu"]

    def needs(instruction: HloInstruction) -> set[HloInstruction]:
        return {o for o in instruction.operands if o.opcode not in ("parameter", "constant")}

    monkeypatch.setattr(cutting, "needs", needs)
    assert order_of_regions() != ["template_npu:1", "template_npu"]


COLOCATED = """HloModule pair
ENTRY e { x = f32[8] parameter(0)
  a = f32[8] sine(x), frontend_attributes={xladev_colocate="k",xladev_device="vendor_like:1"}
  b = f32[8] cosine(x), frontend_attributes={xladev_colocate="k"}
  ROOT r = f32[8] add(a, b) }"""


def places() -> dict[str, str]:
    program = xladev.compile(COLOCATED.encode(), "vendor_like").program
    return dict(program.instruction_counts)  # type: ignore[arg-type]


def test_a_pair_that_is_split(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    assert places()["vendor_like:1"] >= 2

    def alone(instructions: Sequence[HloInstruction]) -> list[list[HloInstruction]]:
        return [[i] for i in instructions]

    monkeypatch.setattr(choice, "colocated", alone)
    assert places()["vendor_like:1"] < 2


CIRCLE = """HloModule circle
ENTRY e { x = f32[8] parameter(0)
  a = f32[8] sine(x)
  b = f32[8] cosine(a), frontend_attributes={xladev_jit_scope="-"}
  ROOT r = f32[8] add(a, b) }"""


def test_a_cycle_of_clusters(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two instructions in one cluster, and between them one that is not in it."""
    options = CompileOptions(optimization_level=0, compilation_level=1, min_cluster_size=1)
    assert result_is_right(CIRCLE, options)
    contract = ClusterGraph.contract
    monkeypatch.setattr(ClusterGraph, "_search", lambda *_: set())
    monkeypatch.setattr(ClusterGraph, "contract", lambda *given: contract(*given) or True)
    with pytest.raises((XladevError, KeyError)):
        assert result_is_right(CIRCLE, options)
