"""Padding between elements: parts begin between two of them."""

import numpy as np
import pytest

from tests.unit.passes.spmd.sharded_programs import check
from xladev.hlo.text import parse_module
from xladev.passes.spmd import dilated
from xladev.passes.spmd.dilated import dilated_ranges


def test_ranges() -> None:
    """Seven elements that lie 3 apart, two places before them; 22 places in two parts."""
    made = dilated_ranges([-2, 9], [11, 11], 3, 7)
    assert made.ranges.starts == (-1, 3) and made.offsets == (1, 0)
    assert made.ranges.length == 4 and made.length == 11


PROGRAM = """HloModule m, num_partitions=4
ENTRY e {{
  x = f32[{n}] parameter(0), sharding={{devices=[4]<=[4]}}
  z = f32[] constant(7)
  ROOT r = f32[{size}] pad(x, z), padding={padding}, sharding={{devices=[4]<=[4]}}
}}"""


@pytest.mark.parametrize("n", [8, 7, 13])
@pytest.mark.parametrize(("low", "high", "inside"), [(2, 1, 2), (-3, 4, 1), (0, -2, 3), (5, 0, 1)])
def test_padding_between_elements(n: int, low: int, high: int, inside: int) -> None:
    size = (n - 1) * (inside + 1) + 1 + low + high
    text = PROGRAM.format(n=n, size=size, padding=f"{low}_{high}_{inside}")
    made = check(parse_module(text), [np.arange(1, n + 1, dtype=np.float32)], 4).module.entry
    found = {i.opcode for i in made.instructions}
    assert "collective-permute" in found and "all-gather" not in found


def test_a_range_that_begins_at_its_first_element_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = dilated.dilated_ranges

    def wrong(*arguments: object) -> object:
        made = right(*arguments)  # type: ignore[arg-type]
        return type(made)(made.ranges, (0,) * len(made.offsets), made.apart, made.length)

    monkeypatch.setattr("xladev.passes.spmd.kinds.windows.dilated_ranges", wrong)
    text = PROGRAM.format(n=8, size=22 + 3, padding="2_1_2")
    with pytest.raises(AssertionError):
        check(parse_module(text), [np.arange(1, 9, dtype=np.float32)], 4)
