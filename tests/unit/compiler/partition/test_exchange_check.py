"""Collectives whose devices are not there, or whose results do not fit them, are not compiled."""

from __future__ import annotations

import pytest

from tests.unit.compiler.subset_backend import Subset, subset_registry
from xladev import client
from xladev.compiler.options import CompileOptions
from xladev.errors import EvaluationError, ShapeError, UnsupportedError
from xladev.hlo.text import parse_module

ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"
GATHER = "x = f32[2,4] parameter(0)  ROOT g = f32[8,4] all-gather(x), dimensions={0}"
SCATTER = (
    "x = f32[8,4] parameter(0)  ROOT g = f32[2,4] reduce-scatter(x), dimensions={0}, to_apply=add"
)
EXCHANGE = "x = f32[6] parameter(0)  ROOT g = f32[6] all-to-all(x), dimensions={0}"
EXCHANGE_OF_OPERANDS = (
    "x = f32[6] parameter(0)  ROOT g = (f32[6], f32[6], f32[6]) all-to-all(x, x, x)"
)
SLICES = (
    "x = f32[3] parameter(0)  n = s32[4] constant({0,1,2,3})"
    "  ROOT g = f32[3] ragged-all-to-all(x, x, n, n, n, n)"
)
PERMUTE = (
    "x = f32[2] parameter(0)  ROOT g = f32[2] collective-permute(x), source_target_pairs={{0,3}}"
)
STARTED = """x = f32[2,4] parameter(0)
  s = (f32[2,4], f32[8,4]) all-gather-start(x), dimensions={0}
  ROOT g = f32[8,4] all-gather-done(s)"""
WRAPPED = """x = f32[2,4] parameter(0)
  s = ((f32[2,4]), f32[8,4], u32[]) async-start(x), calls=work
  ROOT d = f32[8,4] async-done(s), calls=work"""
WORK = "work { x = f32[2,4] parameter(0)  ROOT g = f32[8,4] all-gather(x), dimensions={0} }"


SUMMED = """summed { a = f32[] parameter(0)  b = f32[] parameter(1)
  c = f32[] add(a, b)  ROOT d = f32[] all-reduce(c), to_apply=add }"""


def compiled(body: str, replicas: int, *, level: int = 2, takes_all: bool = False) -> None:
    """Compiles for a backend that takes nothing, or says that it takes everything."""
    text = f"HloModule m\n{ADD}\n{WORK}\n{SUMMED}\nENTRY e {{ {body} }}"
    options = CompileOptions(num_replicas=replicas, optimization_level=level)
    subset = Subset(lambda i: takes_all, device_count=8)
    with subset_registry(subset):
        client.compile(parse_module(text), "subset", options=options)


@pytest.mark.parametrize("takes_all", [False, True])
@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize(
    ("body", "right", "wrong"),
    [
        (GATHER, 4, 1),
        (GATHER, 4, 2),
        (GATHER, 4, 8),
        (SCATTER, 4, 1),
        (SCATTER, 4, 8),
        (EXCHANGE, 3, 4),
        (EXCHANGE_OF_OPERANDS, 3, 2),
        (SLICES, 4, 3),
        (STARTED, 4, 1),
        (WRAPPED, 4, 2),
    ],
)
def test_a_result_fits_its_group(
    body: str, right: int, wrong: int, level: int, takes_all: bool
) -> None:
    compiled(body, right, level=level, takes_all=takes_all)
    with pytest.raises(ShapeError) as caught:
        compiled(body, wrong, level=level, takes_all=takes_all)
    assert caught.value.code == "HLO_SHAPE"
    assert f"does not fit a group of {wrong} device" in caught.value.what
    assert "=" in (caught.value.where or "")


def test_devices_in_no_group_are_alone() -> None:
    listed = GATHER.replace("dimensions", "replica_groups={{0,1,2,3}}, dimensions")
    compiled(listed, 4)
    with pytest.raises(ShapeError, match="2 of them in no group, each alone"):
        compiled(listed, 6)


def test_sources_and_targets_are_there() -> None:
    compiled(PERMUTE, 4)
    with pytest.raises(EvaluationError, match="names devices that are not there, or twice: 3"):
        compiled(PERMUTE, 3)


def test_what_exchanges_values_is_not_evaluated_on_each_device_alone() -> None:
    body = """x = f32[4] parameter(0)  z = f32[] constant(0)
      ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=summed"""
    compiled(body, 1)
    with pytest.raises(UnsupportedError, match="runs what it is given on each device alone"):
        compiled(body, 2)
