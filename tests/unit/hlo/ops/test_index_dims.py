"""Dimension numbers of gather and scatter, by what they mean."""

from __future__ import annotations

from xladev.hlo.ir import HloInstruction
from xladev.hlo.ops.index_dims import IndexDims
from xladev.hlo.text import parse_module

HEAD = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
"""


def root(text: str) -> HloInstruction:
    return parse_module(f"{HEAD}ENTRY e {{ {text} }}").entry.root


def test_a_gather_with_batching_dimensions() -> None:
    i = root(
        """x = f32[5,3,7,4] parameter(0)  i = s32[4,2,3] parameter(1)
        ROOT r = f32[4,3,2] gather(x, i), offset_dims={2}, collapsed_slice_dims={0},
          start_index_map={0,2}, operand_batching_dims={1,3}, start_indices_batching_dims={2,0},
          index_vector_dim=1, slice_sizes={1,1,2,1}"""
    )
    dims = IndexDims.of_gather(i)
    assert dims.hidden == {0, 1, 3}
    assert dims.windowed(4) == (2,)
    assert dims.batch_axes(3) == (0, 1)
    assert dims.batch_dims(3) == (0, 2)
    assert dims.batch_numbers == {1: 1, 3: 0}


def test_a_scatter_whose_vectors_are_implied() -> None:
    i = root(
        """x = f32[5,3] parameter(0)  i = s32[4] parameter(1)  u = f32[3,4] parameter(2)
        ROOT r = f32[5,3] scatter(x, i, u), update_window_dims={0}, inserted_window_dims={0},
          scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add"""
    )
    dims = IndexDims.of_scatter(i)
    assert (dims.window, dims.dropped, dims.index_map, dims.vector_dim) == ((0,), (0,), (0,), 1)
    assert dims.hidden == {0}
    assert not dims.batch_numbers
    assert dims.batch_axes(2) == (1,)
