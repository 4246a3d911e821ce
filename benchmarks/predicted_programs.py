"""Five programs of n devices, as HLO: what each kind of parallel program exchanges."""

from __future__ import annotations

from string import Template

_ADD = """add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
"""

_DATA = """ENTRY step {
  x = f32[128,256] parameter(0)
  u = f32[256,1024] parameter(1)
  d = f32[1024,256] parameter(2)
  h = f32[128,1024] dot(x, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[128,1024] tanh(h)
  y = f32[128,256] dot(t, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  gd = f32[1024,256] dot(t, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  gt = f32[128,1024] dot(y, d), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  tt = f32[128,1024] multiply(t, t)
  gh = f32[128,1024] multiply(gt, tt)
  gu = f32[256,1024] dot(x, gh), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  su = f32[256,1024] all-reduce(gu), to_apply=add, replica_groups={}
  sd = f32[1024,256] all-reduce(gd), to_apply=add, replica_groups={}
  rate = f32[] constant(0.001)
  ru = f32[256,1024] broadcast(rate), dimensions={}
  rd = f32[1024,256] broadcast(rate), dimensions={}
  mu = f32[256,1024] multiply(su, ru)
  md = f32[1024,256] multiply(sd, rd)
  nu = f32[256,1024] subtract(u, mu)
  nd = f32[1024,256] subtract(d, md)
  ROOT r = (f32[256,1024], f32[1024,256]) tuple(nu, nd)
}"""

_TENSOR = """ENTRY step {
  x = f32[256,256] parameter(0)
  u = f32[256,$part] parameter(1)
  d = f32[$part,256] parameter(2)
  h = f32[256,$part] dot(x, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[256,$part] tanh(h)
  y = f32[256,256] dot(t, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[256,256] all-reduce(y), to_apply=add, replica_groups={}
  h2 = f32[256,$part] dot(s, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t2 = f32[256,$part] tanh(h2)
  y2 = f32[256,256] dot(t2, d), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT s2 = f32[256,256] all-reduce(y2), to_apply=add, replica_groups={}
}"""

_OPTIMISER = """ENTRY step {
  x = f32[128,512] parameter(0)
  w = f32[$rows,512] parameter(1)
  whole = f32[512,512] all-gather(w), dimensions={0}, replica_groups={}
  y = f32[128,512] dot(x, whole), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  g = f32[512,512] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  s = f32[$rows,512] reduce-scatter(g), to_apply=add, dimensions={0}, replica_groups={}
  rate = f32[] constant(0.001)
  rates = f32[$rows,512] broadcast(rate), dimensions={}
  m = f32[$rows,512] multiply(s, rates)
  ROOT n = f32[$rows,512] subtract(w, m)
}"""

_EXPERTS = """ENTRY step {
  x = f32[512,256] parameter(0)
  w = f32[256,256] parameter(1)
  there = f32[512,256] all-to-all(x), dimensions={0}, replica_groups={}
  y = f32[512,256] dot(there, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[512,256] tanh(y)
  ROOT back = f32[512,256] all-to-all(t), dimensions={0}, replica_groups={}
}"""

_STENCIL = """body {
  s = (s32[], f32[256,256]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[256,256] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  last = f32[1,256] slice(x), slice={[255:256], [0:256]}
  above = f32[1,256] collective-permute(last), source_target_pairs={$ring}
  most = f32[255,256] slice(x), slice={[0:255], [0:256]}
  moved = f32[256,256] concatenate(above, most), dimensions={0}
  sum = f32[256,256] add(x, moved)
  half = f32[] constant(0.5)
  halves = f32[256,256] broadcast(half), dimensions={}
  y = f32[256,256] multiply(sum, halves)
  ROOT t = (s32[], f32[256,256]) tuple(j, y)
}
test {
  s = (s32[], f32[256,256]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(20)
  ROOT l = pred[] compare(i, n), direction=LT
}
ENTRY step {
  p = f32[256,256] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[256,256]) tuple(z, p)
  w = (s32[], f32[256,256]) while(t), body=body, condition=test
  ROOT r = f32[256,256] get-tuple-element(w), index=1
}"""

_TEXTS = {
    "training, data": _DATA,
    "dense layers, tensor": _TENSOR,
    "training, weights in parts": _OPTIMISER,
    "experts": _EXPERTS,
    "stencil, 20 steps": _STENCIL,
}


def programs(count: int) -> dict[str, bytes]:
    """Texts of HLO for so many replicas, which divide 512."""
    ring = ",".join(f"{{{i},{(i + 1) % count}}}" for i in range(count))
    said = {"part": str(2048 // count), "rows": str(512 // count), "ring": ring}
    head = f"HloModule step, replica_count={count}\n{_ADD}"
    return {n: (head + Template(text).substitute(said)).encode() for n, text in _TEXTS.items()}
