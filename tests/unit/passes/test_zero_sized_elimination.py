"""Arrays without elements become constants."""

from tests.unit.passes.checks import assert_unchanged, opcodes, run
from xladev.passes.zero_sized_elimination import ZeroSizedElimination


def test_empty_results_are_constants() -> None:
    module = run(
        ZeroSizedElimination(),
        """
        HloModule m
        ENTRY e { x = f32[0,3] parameter(0)  y = f32[3,2] parameter(1)
          d = f32[0,2] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
          n = f32[0,2] negate(d)
          z = f32[] constant(0)
          ROOT p = f32[4,2] pad(n, z), padding=0_4x0_0 }
        """,
    )
    assert opcodes(module) == {"parameter", "constant", "pad"}


def test_parameters_and_effects_stay() -> None:
    assert_unchanged(
        ZeroSizedElimination(),
        """
        HloModule m
        ENTRY e { x = f32[0] parameter(0)
          ROOT c = f32[0] custom-call(x), custom_call_target="f",
            custom_call_has_side_effect=true }
        """,
    )
