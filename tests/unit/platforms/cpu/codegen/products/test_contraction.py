"""How many columns of a row threads compute at once."""

import pytest

from xladev.platforms.cpu.codegen.products.contraction import part_columns


@pytest.mark.parametrize(
    ("rows", "width", "columns"),
    [
        (1, 16384, 4096),
        (1, 8192, 2048),
        (1, 4096, 2048),
        (3, 2048, 1024),
        (1, 3000, 1024),
        (1, 1024, 512),
        (1, 1023, 1023),
        (4, 8192, 8192),
        (1, 0, 1),
    ],
)
def test_rows_are_cut_where_there_are_few(rows: int, width: int, columns: int) -> None:
    assert part_columns(rows, width) == columns
