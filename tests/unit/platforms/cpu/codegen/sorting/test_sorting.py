"""Sorts by keys: the evaluator's results, for all kinds of keys, with equal elements in order."""

from __future__ import annotations

import numpy as np
import pytest

from xladev.client import compile
from xladev.hlo.dtype import by_name
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.sorting.sort_keys import sort_key

PLAIN = """a = {t}[] parameter(0)
  b = {t}[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT before = pred[] compare({args}), direction={direction}{kind}"""
MAPPED = """a = {t}[] parameter(0)
  b = {t}[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  zero = {t}[] constant(0)
  nan = {t}[] constant(nan)
  a0 = pred[] compare(a, zero), direction=EQ
  b0 = pred[] compare(b, zero), direction=EQ
  an = pred[] compare(a, a), direction=NE
  bn = pred[] compare(b, b), direction=NE
  az = {t}[] select(a0, zero, a)
  bz = {t}[] select(b0, zero, b)
  am = {t}[] select(an, nan, az)
  bm = {t}[] select(bn, nan, bz)
  ROOT before = pred[] compare(am, bm), direction=LT, type=TOTALORDER"""
MODULE = """HloModule sort
before {{ {comparator} }}
ENTRY e {{ p = {t}[{dims}] parameter(0)
  i = s32[{dims}] iota(), iota_dimension={axis}
  ROOT s = ({t}[{dims}], s32[{dims}]) sort(p, i), dimensions={{{axis}}}, to_apply=before }}"""
SPECIAL = (np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1e-42, -1.5)


def module(dtype: str, dims: tuple[int, ...], axis: int, comparator: str = PLAIN,
           direction: str = "LT", args: str = "a, b") -> HloModule:  # fmt: skip
    kind = ", type=TOTALORDER" if by_name(dtype).is_float else ""
    text = comparator.format(t=dtype, direction=direction, kind=kind, args=args)
    sizes = ",".join(map(str, dims))
    return parse_module(MODULE.format(comparator=text, t=dtype, dims=sizes, axis=axis))


def elements(dtype: str, dims: tuple[int, ...], seed: int = 5) -> np.ndarray:
    """Numbers of which many are equal, and special ones."""
    kind, generator = by_name(dtype), np.random.default_rng(seed)
    if not kind.is_float:
        info = np.iinfo(kind.np) if kind.is_integral else np.iinfo(np.int8)
        low, high = (0, 1) if not kind.is_integral else (info.min, info.max)
        return generator.integers(low, high, dims, endpoint=True, dtype=info.dtype).astype(kind.np)
    values = generator.standard_normal(dims).astype(np.float32)
    chosen = generator.random(dims) < 0.3
    values[chosen] = generator.choice(np.array(SPECIAL, np.float32), int(chosen.sum()))
    return values.astype(kind.np)


def check(sort: HloModule, x: np.ndarray) -> None:
    wanted = HloEvaluator().run(sort, x)
    found = compile(sort, "cpu")(x)
    for one, other in zip(found, wanted, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16", "s8", "u8", "s16", "u32", "s32",
                                   "s64", "u64", "pred"])  # fmt: skip
@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_a_sort_by_a_key_agrees_with_the_evaluator(dtype: str, direction: str) -> None:
    sort = module(dtype, (3, 400), 1, direction=direction)
    assert sort_key(sort.entry.root["to_apply"]) is not None
    check(sort, elements(dtype, (3, 400)))


@pytest.mark.parametrize("dims", [(1,), (2,), (24,), (40,), (63,), (129,), (1000,), (1 << 13,)])
@pytest.mark.parametrize("comparator", [PLAIN, MAPPED])
def test_any_size_is_sorted(dims: tuple[int, ...], comparator: str) -> None:
    check(module("f32", dims, 0, comparator), elements("f32", dims))


def test_columns_are_sorted() -> None:
    check(module("f32", (300, 5), 0, MAPPED), elements("f32", (300, 5)))


def test_arguments_the_other_way_round_sort_downwards() -> None:
    sort = module("f32", (200,), 0, args="b, a")
    key = sort_key(sort.entry.root["to_apply"])
    assert key is not None
    assert key.descending
    check(sort, elements("f32", (200,)))


def test_equal_elements_are_left_as_they_are() -> None:
    check(module("s32", (300,), 0), np.full(300, -7, np.int32))


@pytest.mark.parametrize("change", [
    ("type=TOTALORDER", "type=FLOAT"),
    ("compare(am, bm)", "compare(az, bm)"),
    ("compare(am, bm)", "compare(am, am)"),
    ("direction=LT, type", "direction=LE, type"),
])  # fmt: skip
def test_other_comparators_have_no_key(change: tuple[str, str]) -> None:
    sort = module("f32", (200,), 0, MAPPED.replace(*change))
    assert sort_key(sort.entry.root["to_apply"]) is None


ALONE = """HloModule sort
before {{ {comparator} }}
ENTRY e {{ p = {t}[{dims}] parameter(0)
  ROOT s = {t}[{dims}] sort(p), dimensions={{{axis}}}, to_apply=before }}"""


def alone(dtype: str, dims: tuple[int, ...], direction: str = "LT", mapped: bool = False,
          axis: int = 1) -> HloModule:  # fmt: skip
    kind = ", type=TOTALORDER" if by_name(dtype).is_float else ""
    text = (MAPPED if mapped else PLAIN).format(
        t=dtype, direction=direction, kind=kind, args="a, b"
    )
    text = "\n".join(line for line in text.splitlines() if line.strip()[:1] not in "cd")
    sizes = ",".join(map(str, dims))
    return parse_module(ALONE.format(comparator=text, t=dtype, dims=sizes, axis=axis))


def check_alone(sort: HloModule, x: np.ndarray) -> None:
    wanted = np.asarray(HloEvaluator().run(sort, x))
    assert np.asarray(compile(sort, "cpu")(x)).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("size", [31, 32, 33, 64, 100, 129, 500, 1024, 1025, 4096, 4097])
@pytest.mark.parametrize("mapped", [False, True])
def test_short_rows_of_numbers_are_sorted(size: int, mapped: bool) -> None:
    x = elements("f32", (4, size))
    x[2] = np.random.default_rng(1).standard_normal(size)
    x[3, : size // 2] = 1.5
    check_alone(alone("f32", (4, size), mapped=mapped), x)


@pytest.mark.parametrize("dtype", ["f32", "s32", "u32"])
@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_short_rows_are_sorted_both_ways(dtype: str, direction: str) -> None:
    check_alone(alone(dtype, (3, 200), direction), elements(dtype, (3, 200)))


def test_short_columns_are_sorted() -> None:
    check_alone(alone("f32", (70, 5), axis=0), elements("f32", (70, 5)))
