"""How an instruction is divided: the way that moves fewest bytes."""

import numpy as np
import pytest

from tests.unit.passes.spmd.sharded_programs import check
from xladev.hlo.text import parse_module

LESS = "less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), "
LESS += "direction=LT }"


@pytest.mark.parametrize(
    ("dims", "cut", "wanted"),
    [
        ("8,16", "[1,4]", {"all-to-all"}),  # the lines are divided instead
        ("2,4,16", "[2,1,2]", {"all-to-all"}),
        ("3,16", "[1,4]", {"all-gather"}),  # three lines for four devices
        ("16", "[4]", {"all-gather"}),
    ],
)
def test_lines_that_are_cut_are_exchanged(dims: str, cut: str, wanted: set[str]) -> None:
    sizes = [int(n) for n in dims.split(",")]
    module = parse_module(f"""HloModule m, num_partitions=4
{LESS}
ENTRY e {{
  x = f32[{dims}] parameter(0), sharding={{devices={cut}<=[4]}}
  ROOT r = f32[{dims}] sort(x), dimensions={{{len(sizes) - 1}}}, to_apply=less,
    sharding={{devices={cut}<=[4]}}
}}""")
    values = np.random.default_rng(1).standard_normal(sizes).astype(np.float32)
    made = check(module, [values], 4).module.entry
    assert {i.opcode for i in made.instructions} & {"all-to-all", "all-gather"} == wanted
