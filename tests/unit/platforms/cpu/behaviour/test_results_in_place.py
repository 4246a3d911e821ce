"""Results of one kernel that share an operand's memory are computed before any is stored."""

import numpy as np

import xladev
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.text import parse_module


def test_a_result_in_place_of_what_another_reads() -> None:
    """One of the results is reshaped on the way, so that its dimensions would not merge."""
    module = parse_module("""HloModule m
    ENTRY e { p = c64[1,1] parameter(0)  q = c64[2,1] parameter(1)
      i = s32[1,1] iota(), iota_dimension=0  j = s32[1,1] iota(), iota_dimension=1
      same = pred[1,1] compare(i, j), direction=EQ  v = c64[1,1] convert(same)
      two = c64[] constant((2, 0))  b = c64[1,1] broadcast(two), dimensions={}
      m = c64[1,1] multiply(b, v)  a = c64[1,1] add(p, m)
      t = c64[2,1] triangular-solve(a, q), lower=true, transpose_a=TRANSPOSE
      r = f32[1,1] real(v)
      ROOT o = (c64[2,1], f32[1,1]) tuple(t, r) }""")
    arguments = np.array([[3 + 1j]], np.complex64), np.array([[1], [2j]], np.complex64)
    _, real = xladev.compile(module, "cpu")(*arguments)
    _, wanted = HloEvaluator().run(module, *arguments)
    np.testing.assert_array_equal(np.asarray(real), wanted)
