"""Arguments that results may take the memory of."""

from __future__ import annotations

import pytest

from xladev.compiler.program.donors import donors
from xladev.hlo.text import parse_module

TEXT = """HloModule m{header}
ENTRY e {{ a = f32[4] parameter(0)
  b = (s8[16], f32[8]) parameter(1)
  c = f32[4] parameter(2)
  d = f32[2] constant({{1, 2}})
  ROOT r = (f32[4], f32[2]) tuple(a, d) }}"""


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        ("", ()),
        (", buffer_donor={ (0, {}) }", (0,)),
        (", buffer_donor={ (2, {}), (0, {}) }", (0,)),  # one result, the first argument
        (", buffer_donor={ (1, {0}) }", (1,)),  # of another type, and as large
        (", buffer_donor={ (1, {1}) }", ()),  # no result of 32 bytes
        (", input_output_alias={ {0}: (2, {}, may-alias) }", (3,)),
        (", input_output_alias={ {0}: (2, {}, may-alias) }, buffer_donor={ (0, {}) }", (3,)),
    ],
)
def test_donors_are_those_of_use(header: str, wanted: tuple[int, ...]) -> None:
    assert donors(parse_module(TEXT.format(header=header))) == wanted
