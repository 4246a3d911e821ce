"""Programs to trace, and a trace that keeps the schema."""

from __future__ import annotations

from typing import Any

import numpy as np

CHAIN = b"""HloModule chain
ENTRY e {
  x = f32[8,8]{1,0} parameter(0)
  d = f32[8,8]{1,0} dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0},
    metadata={op_name="model/product" source_file="model.py" source_line=7}
  a = f32[8,8]{1,0} add(d, x)
  ROOT t = f32[8,8]{1,0} tanh(a), metadata={op_name="model/activation"}
}
"""
LOOP = b"""HloModule count
body { s = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  w = f32[] sine(v)
  ROOT r = (s32[], f32[]) tuple(j, w) }
more { s = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(1000)
  ROOT l = pred[] compare(i, n), direction=LT }
ENTRY e {
  x = f32[] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[]) tuple(zero, x)
  ROOT w = (s32[], f32[]) while(s), condition=more, body=body
}
"""
X = np.eye(8, dtype=np.float32)
ONE = np.float32(1)


def good_trace() -> dict[str, Any]:
    """A launch, and the kernel that it leads to."""
    host, device = {"pid": 1, "tid": 1}, {"pid": 2, "tid": 2}
    flow = {"name": "launch", "cat": "flow", "id": 5}
    kernel = {"hlo_op": "dot.1", "hlo_module": "m", "flops": 8, "bytes": 96}
    return {
        "traceEvents": [
            {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "host"}},
            {"ph": "M", "name": "process_name", "pid": 2, "tid": 0, "args": {"name": "npu:0"}},
            {"ph": "M", "name": "thread_name", **host, "args": {"name": "MainThread"}},
            {"ph": "M", "name": "thread_name", **device, "args": {"name": "stream"}},
            {"ph": "X", "name": "m", "cat": "launch", "ts": 1.0, "dur": 3.0, **host,
             "args": {"device": "npu:0"}},
            {"ph": "s", "ts": 2.0, **flow, **host},
            {"ph": "X", "name": "m", "cat": "cluster", "ts": 2.5, "dur": 4.0, **device,
             "args": {"hlo_module": "m"}},
            {"ph": "X", "name": "dot.1", "cat": "kernel", "ts": 2.5, "dur": 1.5, **device,
             "args": kernel},
            {"ph": "f", "bp": "e", "ts": 2.5, **flow, **device},
            {"ph": "X", "name": "dot.1", "cat": "kernel", "ts": 5.0, "dur": 1.5, **device,
             "args": kernel},
            {"ph": "C", "name": "memory", "ts": 6.0, "pid": 2, "tid": 0, "args": {"value": 64}},
        ],
        "otherData": {"version": 1},
    }  # fmt: skip
