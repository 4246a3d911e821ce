"""How attention reads keys and values, and what memory it asks for."""

from __future__ import annotations

import pytest

from tests.unit.compiler.attention_programs import (
    HEADS_APART,
    HEADS_INSIDE,
    KEYS_TRANSPOSED,
    RESULT,
    RESULT_INSIDE,
    attention,
)
from xladev.codegen.attention_search import attention_of
from xladev.platforms.cpu.codegen.attention import AttentionSizes, attention_sizes

LARGE = {"B": 1, "H": 2, "Q": 256, "K": 512, "D": 64, "W": 64}


def sizes(operands: str = HEADS_APART, result: str = RESULT, **changes: int) -> AttentionSizes:
    root = attention(operands, result=result, **{**LARGE, **changes}).entry.root
    found = attention_of(root)
    assert found is not None
    made = attention_sizes(found)
    assert made is not None
    return made


def test_keys_are_packed_once_and_near_values_are_read_as_they_lie() -> None:
    made = sizes()
    assert (made.keys_nbytes, made.values_nbytes, made.panel_nbytes) == (512 * 64 * 4, 0, 0)
    assert made.rows == 48
    assert made.workspace_nbytes < 256 << 10


def test_transposed_keys_are_read_as_they_lie() -> None:
    assert sizes(KEYS_TRANSPOSED).keys_nbytes == 0


def test_values_of_many_heads_are_packed() -> None:
    assert sizes(HEADS_INSIDE, RESULT_INSIDE, H=12).values_nbytes == 512 * 64 * 4


@pytest.mark.parametrize(("width", "packed"), [(64, 0), (40, 512 * 64 * 4), (8, 512 * 32 * 4)])
def test_values_that_fill_no_tiles_are_packed(width: int, packed: int) -> None:
    assert sizes(W=width).values_nbytes == packed


def test_what_is_too_large_is_packed_for_each_block() -> None:
    made = sizes(K=20_000, D=128, W=128)
    assert made.keys_nbytes == made.values_nbytes == 0
    assert made.panel_nbytes > 0


def test_blocks_of_long_rows_have_fewer_of_them() -> None:
    assert [sizes(K=n).rows for n in (1300, 1500, 20_000)] == [48, 24, 24]
