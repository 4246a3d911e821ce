"""What is made of constants is made again by each use, in the parts that it needs."""

import numpy as np
import pytest

from tests.unit.passes.spmd.sharded_programs import check
from xladev.hlo.text import parse_module
from xladev.passes.spmd.kinds.constants import is_made_of_constants

CUT = "sharding={devices=[4]<=[4]}"
LINES = {
    "a constant": f"c = s32[8] constant({{0,1,2,3,4,5,6,7}}), {CUT}",
    "a copy": f"k = s32[8] iota(), iota_dimension=0, {CUT}\n  c = s32[8] copy(k), {CUT}",
    "a concatenation": f"k = s32[4] iota(), iota_dimension=0, {CUT}\n"
    f"  j = s32[4] constant({{7,7,8,9}}), {CUT}\n"
    f"  c = s32[8] concatenate(k, j), dimensions={{0}}, {CUT}",
    "a converted column": f"k = s8[8,1] iota(), iota_dimension=0\n"
    f"  j = s8[8] reshape(k), {CUT}\n  c = s32[8] convert(j), {CUT}",
}


@pytest.mark.parametrize("lines", LINES.values(), ids=LINES)
def test_nothing_moves(lines: str) -> None:
    module = parse_module(f"""HloModule m, num_partitions=4
ENTRY e {{
  x = s32[8] parameter(0), sharding={{replicated}}
  {lines}
  ROOT r = s32[8] add(c, x), sharding={{replicated}}
}}""")
    made = check(module, [np.arange(8, dtype=np.int32)], 4).module.entry
    assert not {i.opcode for i in made.instructions} & {"all-gather", "collective-permute"}
    assert is_made_of_constants(next(i for i in module.entry.instructions if i.name == "c"))


def test_what_is_given_or_computed_is_moved() -> None:
    module = parse_module("""HloModule m
ENTRY e {
  x = s32[8] parameter(0)
  k = s32[8] iota(), iota_dimension=0
  n = s32[8] negate(k)
  ROOT r = (s32[8], s32[8]) tuple(x, n)
}""")
    assert not any(map(is_made_of_constants, module.entry.root.operands))
