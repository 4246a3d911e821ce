"""gather and scatter as loops, on the gathers and scatters of real programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.unit.passes.checks import leaves, random_value
from tests.unit.passes.expansions.single import assert_near, expanded
from xladev.hlo.builder import HloBuilder
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloInstruction, HloModule
from xladev.hlo.proto import read_module
from xladev.hlo.text import parse_module
from xladev.passes.expansions.indexing import expand_scatter

MOST_ELEMENTS = 20_000


def alone(instruction: HloInstruction) -> HloModule:
    """A module of one instruction."""
    b = HloBuilder("one")
    operands = tuple(b.parameter(o.shape) for o in instruction.operands)
    note = replace(instruction.note, control_predecessors=())
    return b.module(b.append(replace(instruction, operands=operands, note=note)))


def instances(folder: Path, opcode: str) -> Iterator[HloModule]:
    """Each different small instruction of an opcode in the exported programs."""
    seen: set[str] = set()
    for path in sorted(folder.glob("*.pb")):
        for computation in read_module(path.read_bytes()).computations:
            for i in computation.instructions:
                sizes = [o.shape.size for o in i.operands]
                key = f"{i.shape} {[str(o.shape) for o in i.operands]} {sorted(i.attrs)}"
                if i.opcode == opcode and sum(sizes) < MOST_ELEMENTS and key not in seen:
                    seen.add(key)
                    yield alone(i)


OPCODES = ["gather", "scatter", "reduce", "reduce-window", "select-and-scatter"]


@pytest.mark.parametrize("opcode", OPCODES)
def test_instances_of_real_programs(opcode: str, programs_dir: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = 0
    for module in instances(programs_dir, opcode):
        values = [random_value(p.shape, rng) for p in module.entry.parameters]
        direct = leaves(HloEvaluator().run(module, *values))
        made = leaves(HloEvaluator().call(expanded(module), values))
        for a, b in zip(direct, made, strict=True):
            wide = np.float64 if a.dtype.kind == "V" or a.dtype.itemsize < 4 else a.dtype
            rtol = 2e-2 if a.dtype.itemsize < 4 else 1e-4
            np.testing.assert_allclose(b.astype(wide), a.astype(wide), rtol=rtol, atol=1e-4)
        count += 1
    assert count > 0


def test_indices_out_of_bounds(seed: int) -> None:
    indices = np.array([[-1, 3], [2, 2], [9, 0], [1, 5]], np.int32)
    rng = np.random.default_rng(seed)
    operand = rng.standard_normal((5, 6)).astype(np.float32)
    assert_near(
        "r = f32[4,2,2] gather(f32[5,6] x, s32[4,2] y), offset_dims={1,2}, "
        "collapsed_slice_dims={}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={2,2}",
        0, operand, indices,
    )  # fmt: skip
    updates = rng.standard_normal((4, 2, 2)).astype(np.float32)
    text = """
    HloModule m
    f { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
    ENTRY e { x = f32[5,6] parameter(0)  i = s32[4,2] parameter(1)  u = f32[4,2,2] parameter(2)
      ROOT r = f32[5,6] scatter(x, i, u), update_window_dims={1,2}, inserted_window_dims={},
        scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=f }
    """
    assert_near(text, 0, operand, indices, updates)


def test_batching_dimensions_and_implied_vectors(seed: int) -> None:
    assert_near(
        "r = f32[3,4,2] gather(f32[3,7,2] x, u8[3,4] y), offset_dims={2}, "
        "collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, "
        "start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1,2}",
        seed,
    )


def test_a_combiner_with_a_loop_is_left_alone() -> None:
    text = """
    HloModule m
    body { p = f32[] parameter(0)  ROOT n = f32[] multiply(p, p) }
    cond { q = f32[] parameter(0)  t = f32[] constant(3)
           ROOT l = pred[] compare(q, t), direction=LT }
    f { a = f32[] parameter(0)  b = f32[] parameter(1)
        ROOT w = f32[] while(b), condition=cond, body=body }
    ENTRY e { x = f32[5] parameter(0)  i = s32[1] parameter(1)  u = f32[] parameter(2)
      ROOT r = f32[5] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=0, to_apply=f }
    """
    assert expand_scatter(parse_module(text).entry.root) is None
