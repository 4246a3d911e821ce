"""Large constants are moved while a program is compiled, where it then holds no more bytes."""

import numpy as np
import pytest

from tests.unit.passes.checks import assert_unchanged, run
from xladev.hlo.text import parse_module
from xladev.passes.default import default_pipeline
from xladev.passes.large_constant_folding import LargeConstantFolding

ROWS = "{{1, 2, 3}, {4, 5, 6}}"


def test_a_chain_of_moves_becomes_one_constant() -> None:
    made = run(
        LargeConstantFolding(),
        f"""
        HloModule m
        ENTRY main {{ w = f32[2,3] constant({ROWS})  v = f32[1,3] constant({{{{7, 8, 9}}}})
          c = f32[3,3] concatenate(w, v), dimensions={{0}}
          t = f32[3,3] transpose(c), dimensions={{1,0}}
          ROOT r = bf16[3,3] convert(t) }}
        """,
    )
    assert made.entry.root.opcode == "constant"
    assert len(made.entry.instructions) == 1
    array = made.entry.root["literal"].array
    assert array.astype(np.float32).tolist() == [[1, 4, 7], [2, 5, 8], [3, 6, 9]]


@pytest.mark.parametrize(
    "body",
    [
        f"w = f32[2,3] constant({ROWS})  t = f32[3,2] transpose(w), dimensions={{1,0}}"
        "  ROOT r = (f32[3,2], f32[2,3]) tuple(t, w)",  # the source stays
        f"w = f32[2,3] constant({ROWS})  t = f32[3,2] transpose(w), dimensions={{1,0}}"
        "  u = f32[2,3] reshape(w)  ROOT r = (f32[3,2], f32[2,3]) tuple(t, u)",  # read twice
        "w = s8[2] constant({1, 2})  ROOT r = f32[2] convert(w)",  # larger
        "w = f32[2] constant({1, 2})  ROOT r = f32[2] negate(w)",  # no move
    ],
)
def test_what_would_take_more_or_is_no_move_stays(body: str) -> None:
    assert_unchanged(LargeConstantFolding(), f"HloModule m\nENTRY main {{ {body} }}")


def test_products_read_what_is_transposed_as_it_is() -> None:
    """The transpose goes into the product, and the constant stays the one that was given."""
    many = ", ".join(f"{{{n}, 2, 3}}" for n in range(30000))
    module = parse_module(f"""HloModule m
      ENTRY main {{ x = f32[4,3] parameter(0)  w = f32[30000,3] constant({{{many}}})
        t = f32[3,30000] transpose(w), dimensions={{1,0}}
        ROOT r = f32[4,30000] dot(x, t),
          lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}""")
    root = default_pipeline().run(module).entry.root
    assert root.operands[1].shape.dims == (30000, 3)
