"""Partitioned programs on the devices of a platform: compiled, run, and joined."""

from dataclasses import replace

import numpy as np
import pytest

import xladev
from tests.unit.passes.spmd.sharded_programs import annotated, drawn_program, flat, joined
from xladev.compiler.options import CompileOptions
from xladev.hlo.multi_device import evaluate_replicated
from xladev.hlo.shape import flattened_shapes
from xladev.passes.spmd.program import partition
from xladev.testing.differential import compare_results

SEEDS = (1, 3, 6, 7, 11, 13, 19, 24)


@pytest.mark.parametrize("platform", ["cpu", "interpreter"])
@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs(seed: int, platform: str) -> None:
    drawn = drawn_program(seed)
    if drawn is None or drawn[0].header.replica_count > 1:
        return
    module, arguments = drawn
    cut = annotated(module, seed, 4)
    program = partition(cut, 4)
    compiled = xladev.compile(cut, platform, CompileOptions(num_partitions=4))
    rows = [
        [c.cut(a, d) for c, a in zip(program.parameters, arguments, strict=True)] for d in range(4)
    ]
    found = [flat(row) for row in map(_arrays, compiled.run_on_devices(rows))]
    shapes = [s for s in flattened_shapes(module.entry.root.shape) if s.is_array]
    whole = replace(module, header=replace(module.header, num_partitions=1))
    (wanted,) = [flat(v) for v in evaluate_replicated(whole, [arguments])]
    got = joined(program, found, shapes)
    assert compare_results(whole, arguments, got, wanted, coarse_sums=True) is None


def _arrays(value: object) -> object:
    if isinstance(value, tuple):
        return tuple(map(_arrays, value))
    return np.asarray(value)
