"""Small programs that cross every kind of border, with arguments."""

import numpy as np

LOOP_AND_BRANCH = """
HloModule loop_and_branch

condition {
  state = (s32[], f32[3,2], (f32[2], s32[3])) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  n = s32[] constant(4)
  ROOT less = pred[] compare(i, n), direction=LT
}

body {
  state = (s32[], f32[3,2], (f32[2], s32[3])) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[3,2] get-tuple-element(state), index=1
  inner = (f32[2], s32[3]) get-tuple-element(state), index=2
  row = f32[2] get-tuple-element(inner), index=0
  count = s32[3] get-tuple-element(inner), index=1
  rows = f32[3,2] broadcast(row), dimensions={1}
  sum = f32[3,2] add(x, rows)
  wave = f32[3,2] sine(sum)
  ones = s32[3] broadcast(one), dimensions={}
  counted = s32[3] add(count, ones)
  first = f32[1,2] slice(wave), slice={[0:1], [0:2]}
  flat = f32[2] reshape(first)
  new_inner = (f32[2], s32[3]) tuple(flat, counted)
  ROOT out = (s32[], f32[3,2], (f32[2], s32[3])) tuple(next, wave, new_inner)
}

doubled {
  x = f32[3,2] parameter(0)
  ROOT y = f32[3,2] add(x, x)
}

negated {
  x = f32[3,2] parameter(0)
  minus = f32[3,2] negate(x)
  ROOT y = f32[3,2] exponential(minus)
}

add_f32 {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

helper {
  a = f32[3,2] parameter(0)
  b = (f32[2], s32[3]) parameter(1)
  row = f32[2] get-tuple-element(b), index=0
  zero = f32[] constant(0)
  total = f32[2] reduce(a, zero), dimensions={0}, to_apply=add_f32
  mixed = f32[2] multiply(total, row)
  ROOT out = (f32[2], f32[2]) tuple(mixed, total)
}

ENTRY main {
  x = f32[3,2] parameter(0)
  pair = (f32[2], s32[3]) parameter(1)
  which = s32[] parameter(2)
  zero = s32[] constant(0)
  start = (s32[], f32[3,2], (f32[2], s32[3])) tuple(zero, x, pair)
  end = (s32[], f32[3,2], (f32[2], s32[3])) while(start), condition=condition, body=body
  wave = f32[3,2] get-tuple-element(end), index=1
  inner = (f32[2], s32[3]) get-tuple-element(end), index=2
  chosen = f32[3,2] conditional(which, wave, wave), branch_computations={doubled, negated}
  called = (f32[2], f32[2]) call(chosen, inner), to_apply=helper
  mixed = f32[2] get-tuple-element(called), index=0
  turned = f32[2,3] transpose(chosen), dimensions={1,0}
  constant = f32[2] constant({1.5, -2})
  again = f32[2] subtract(mixed, constant)
  ROOT out = ((f32[2], f32[2]), f32[2,3], (f32[2], s32[3]), f32[3,2], f32[2])
    tuple(called, turned, inner, x, constant)
}
"""


def loop_and_branch_arguments(which: int = 1) -> list[object]:
    """Arguments of LOOP_AND_BRANCH."""
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2)
    pair = (np.array([0.25, -0.5], np.float32), np.array([1, 2, 3], np.int32))
    return [x, pair, np.asarray(which, np.int32)]


CROSSING = """
HloModule crossing

ENTRY main {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  s = f32[4] sine(a)
  c = f32[4] cosine(b)
  p = f32[4] add(s, c)
  q = f32[4] sine(p)
  r = f32[4] multiply(q, s)
  t = f32[4] cosine(r)
  ROOT u = f32[4] add(t, p)
}
"""
