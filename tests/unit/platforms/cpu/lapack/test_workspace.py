"""Lengths of workspaces, as routines ask for them."""

from __future__ import annotations

import ctypes

import pytest

from xladev.platforms.cpu.lapack import workspace
from xladev.platforms.cpu.lapack.workspace import ARRAY, QUERY, SIZE, workspace_sizes

pytest.importorskip("scipy")


def test_one_length() -> None:
    (length,) = workspace_sizes("dgeqrf", 40, 30, ARRAY, 40, ARRAY, SIZE, QUERY, ARRAY)
    assert length >= 30


@pytest.mark.parametrize("n", [1, 2, 40])
def test_lengths_of_several_types(n: int) -> None:
    """At least what LAPACK's documentation of zheevd has as the least."""
    lengths = workspace_sizes("zheevd", "V", "L", n, ARRAY, n, ARRAY, SIZE, QUERY, SIZE, QUERY,
                              SIZE, QUERY, ARRAY)  # fmt: skip
    least = (2 * n + n * n, 1 + 5 * n + 2 * n * n, 3 + 5 * n) if n > 1 else (1, 1, 1)
    assert all(length >= each for length, each in zip(lengths, least, strict=True))


def test_a_length_that_f32_rounds_down_is_a_little_more() -> None:
    buffer = (ctypes.c_char * 64)()
    ctypes.c_float.from_buffer(buffer).value = 2.0**25
    assert workspace._size(buffer, ctypes.c_float) > 2**25 + 2
    ctypes.c_float.from_buffer(buffer).value = 1000.0
    assert workspace._size(buffer, ctypes.c_float) == 1000
