"""Index vectors that count: the array and the vectors are cut alike, and nothing is joined."""

import numpy as np
import pytest

from tests.unit.passes.spmd.sharded_programs import check
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.passes.spmd.kinds.counted import counted_dims
from xladev.passes.spmd.local_builder import LocalBuilder

CUT = "sharding={devices=[4,1]<=[4]}"
ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"
COUNTS = {
    "iota": "c = s32[{n},1] iota(), iota_dimension=0",
    "broadcast": "k = s32[{n}] iota(), iota_dimension=0\n"
    "  c = s32[{n},1] broadcast(k), dimensions={{0}}",
    "reshape": "k = s64[1,{n}] iota(), iota_dimension=1\n  j = s64[{n},1] reshape(k)\n"
    "  c = s32[{n},1] convert(j)",
    "constant": "c = s32[{n},1] constant({literal})",
}
GATHER = """i = s32[{n},2] concatenate(c, p), dimensions={{1}}
  ROOT r = f32[{n},3] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0,1}},
    start_index_map={{0,1}}, index_vector_dim=1, slice_sizes={{1,1,3}}, """
SCATTER = """i = s32[{n},2] concatenate(c, p), dimensions={{1}}
  u = f32[{n},3] constant({{...}})
  ROOT r = f32[{n},5,3] scatter(x, i, v), update_window_dims={{1}}, inserted_window_dims={{0,1}},
    scatter_dims_to_operand_dims={{0,1}}, index_vector_dim=1, to_apply=add, """


def program(n: int, count: str, tail: str) -> HloModule:
    literal = "{" + ", ".join(f"{{{k}}}" for k in range(n)) + "}"
    is_scatter = tail is SCATTER
    tail = tail.replace("  u = f32[{n},3] constant({{...}})\n", "")
    cut = "devices=[4,1,1]<=[4]" if is_scatter else "devices=[4,1]<=[4]"
    return parse_module(f"""HloModule m, num_partitions=4
{ADD}
ENTRY e {{
  x = f32[{n},5,3] parameter(0), sharding={{devices=[4,1,1]<=[4]}}
  p = s32[{n},1] parameter(1), {CUT}
  v = f32[{n},3] parameter(2), {CUT}
  {COUNTS[count].format(n=n, literal=literal)}
  {tail.format(n=n)}sharding={{{cut}}}
}}""")


def arguments(n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    return [
        rng.standard_normal((n, 5, 3)).astype(np.float32),
        rng.integers(0, 5, (n, 1)).astype(np.int32),
        rng.standard_normal((n, 3)).astype(np.float32),
    ]


def collectives(module: HloModule) -> set[str]:
    found = {"all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter"}
    return {i.opcode for i in module.entry.instructions} & found


@pytest.mark.parametrize("tail", [GATHER, SCATTER], ids=["gather", "scatter"])
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("n", [8, 7])
def test_nothing_moves(n: int, count: str, tail: str) -> None:
    made = check(program(n, count, tail), arguments(n), 4)
    assert not collectives(made.module)


@pytest.mark.parametrize("tail", [GATHER, SCATTER], ids=["gather", "scatter"])
def test_counting_from_the_first_part_is_seen(tail: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = LocalBuilder.start

    def start(b: LocalBuilder, cut: object, dims: object, d: int) -> object:
        made = right(b, cut, dims, d)  # type: ignore[arg-type]
        return b.multiply(made, 0) if len(dims) == 3 else made  # type: ignore[arg-type]

    monkeypatch.setattr(LocalBuilder, "start", start)
    with pytest.raises(AssertionError):
        check(program(8, "iota", tail), arguments(8), 4)


def found(lines: str, sizes: str = "8,5,3", n: int = 8) -> dict[int, int]:
    module = parse_module(f"""HloModule m
ENTRY e {{
  x = f32[{sizes}] parameter(0)
  p = s32[{n},1] parameter(1)
  {lines}
  i = s32[{n},2] concatenate(c, p), dimensions={{1}}
  ROOT r = f32[{n},3] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0,1}},
    start_index_map={{0,1}}, index_vector_dim=1, slice_sizes={{1,1,3}}
}}""")
    return counted_dims(module.entry.root)


def test_who_counts() -> None:
    assert found("c = s32[8,1] iota(), iota_dimension=0") == {0: 0}
    assert found("c = s32[8,1] iota(), iota_dimension=1") == {}
    assert found("c = s32[8,1] iota(), iota_dimension=0", "9,5,3") == {}
    assert found("k = s32[8,1] iota(), iota_dimension=0\n  c = s32[8,1] negate(k)") == {}
    assert found("k = s32[2,4] iota(), iota_dimension=1\n  c = s32[8,1] reshape(k)") == {}


def test_a_type_that_wraps_does_not_count() -> None:
    lines = "k = s8[{n},1] iota(), iota_dimension=0\n  c = s32[{n},1] convert(k)"
    assert found(lines.format(n=200), "200,5,3", 200) == {}
    assert found(lines.format(n=128), "128,5,3", 128) == {0: 0}
