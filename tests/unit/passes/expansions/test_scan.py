"""scan as a loop."""

import pytest

from tests.unit.passes.expansions.single import assert_near


@pytest.mark.parametrize("reverse", ["true", "false"])
@pytest.mark.parametrize(("axis", "dims"), [(0, "6,3"), (1, "3,6")])
def test_agrees_with_the_definition(axis: int, dims: str, reverse: str, seed: int) -> None:
    text = f"""
    HloModule m
    body {{ a = f32[3] parameter(0)  c = f32[3] parameter(1)  s = f32[3] add(a, c)
            n = f32[3] negate(a)  ROOT t = (f32[3], f32[3]) tuple(n, s) }}
    ENTRY e {{ x = f32[{dims}] parameter(0)  i = f32[3] parameter(1)
      ROOT r = (f32[{dims}], f32[3]) scan(x, i), dimensions={{{axis}}}, num_carries=1,
        is_reverse={reverse}, to_apply=body }}
    """
    assert_near(text, seed)
