"""Convolutions and windows of dilated inputs, as of gradients of strided ones, by halos."""

import numpy as np
import pytest

from tests.unit.passes.spmd.sharded_programs import check
from xladev.errors import XladevError
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.passes.spmd.kinds.window_place import WindowPlace

ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"


def opcodes(module: HloModule) -> set[str]:
    return {i.opcode for i in module.entry.instructions}


@pytest.mark.parametrize("low", [0, 1, 2, 3])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("apart", [2, 3])
@pytest.mark.parametrize("size", [24, 23])
def test_convolution(size: int, apart: int, stride: int, low: int) -> None:
    held = (size - 1) * apart + 1 + low + 2
    count = (held - 3) // stride + 1
    module = parse_module(f"""HloModule m, num_partitions=4
ENTRY e {{
  x = f32[2,{size},3] parameter(0), sharding={{devices=[1,4,1]<=[4]}}
  k = f32[3,3,5] parameter(1)
  ROOT r = f32[2,{count},5] convolution(x, k), dim_labels=b0f_0io->b0f,
    window={{size=3 stride={stride} pad={low}_2 lhs_dilate={apart}}},
    sharding={{devices=[1,4,1]<=[4]}}
}}""")
    rng = np.random.default_rng(5)
    given = [rng.standard_normal(d).astype(np.float32) for d in ((2, size, 3), (3, 3, 5))]
    made = check(module, given, 4).module
    if -(-count // 4) * stride % apart == 0:
        assert "all-gather" not in opcodes(made)


@pytest.mark.parametrize("size", [32, 29])
@pytest.mark.parametrize("low", [0, 1, 2])
def test_reduce_window(size: int, low: int) -> None:
    count = (size - 1) * 2 + 1 + low + 1 - 2
    module = parse_module(f"""HloModule m, num_partitions=4
{ADD}
ENTRY e {{
  x = f32[{size}] parameter(0), sharding={{devices=[4]<=[4]}}
  z = f32[] constant(7)
  ROOT r = f32[{count}] reduce-window(x, z), window={{size=3 pad={low}_1 lhs_dilate=2}},
    to_apply=add, sharding={{devices=[4]<=[4]}}
}}""")
    check(module, [np.arange(size, dtype=np.float32)], 4)


def test_a_wrong_edge_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = WindowPlace._edges
    monkeypatch.setattr(WindowPlace, "_edges", lambda *given: (0, right(*given)[1]))
    with pytest.raises((AssertionError, XladevError)):
        test_convolution(24, 2, 1, 1)
