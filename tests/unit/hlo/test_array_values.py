"""Array values: what is really behind tuples, their parts, views and barriers."""

from __future__ import annotations

from xladev.hlo.array_values import (
    ArrayValue,
    array_values,
    is_grouping,
    last_uses,
    seen_through_tuples,
)
from xladev.hlo.ir import HloComputation, HloInstruction
from xladev.hlo.shape import flattened_indices, flattened_shapes
from xladev.hlo.text import parse_module

NESTED = """
ENTRY e {
  p = (f32[2], (s32[3], (pred[4]), ())) parameter(0)
  x = f32[5] parameter(1)
  inner = (s32[3], (pred[4]), ()) get-tuple-element(p), index=1
  deep = (pred[4]) get-tuple-element(inner), index=1
  last = pred[4] get-tuple-element(deep), index=0
  barrier = pred[4] opt-barrier(last)
  view = pred[2,2] reshape(barrier)
  n = f32[5] negate(x)
  both = (f32[5], (s32[3], (pred[4]), ()), f32[5]) tuple(n, inner, x)
  again = (s32[3], (pred[4]), ()) get-tuple-element(both), index=1
  s = s32[3] get-tuple-element(again), index=0
  t = s32[3] add(s, s)
  ROOT r = (pred[2,2], s32[3], f32[5]) tuple(view, t, x)
}"""


def computation() -> HloComputation:
    return parse_module(NESTED).entry


def named(entry: HloComputation) -> dict[str, HloInstruction]:
    return {i.name: i for i in entry.instructions}


def test_a_shape_is_flattened_in_order() -> None:
    shape = named(computation())["both"].shape
    texts = [part.to_string(layout=False) for part in flattened_shapes(shape)]
    assert texts == ["f32[5]", "s32[3]", "pred[4]", "f32[5]"]
    assert flattened_indices(shape) == ((0,), (1, 0), (1, 1, 0), (2,))


def test_each_array_is_seen_through_what_groups_or_renames_it() -> None:
    entry = computation()
    i, values = named(entry), array_values(entry)
    p, x, n = i["p"], i["x"], i["n"]
    assert values[i["inner"]] == (ArrayValue(p, 1), ArrayValue(p, 2))
    assert values[i["both"]] == (ArrayValue(n, 0), *values[i["inner"]], ArrayValue(x, 0))
    assert values[i["again"]] == values[i["inner"]]
    assert values[i["view"]] == (ArrayValue(p, 2),)
    assert values[i["view"]][0].shape.to_string(layout=False) == "pred[4]"
    assert values[entry.root] == (ArrayValue(p, 2), ArrayValue(i["t"], 0), ArrayValue(x, 0))


def test_a_walk_through_tuples_finds_what_the_table_says() -> None:
    entry = computation()
    values = array_values(entry)
    for i in entry.instructions:
        if i.opcode in ("tuple", "get-tuple-element"):
            for index, value in zip(flattened_indices(i.shape), values[i], strict=True):
                producer, part = seen_through_tuples(i, index)
                at = flattened_indices(producer.shape).index(part)
                assert values[producer][at] == value


def test_a_whole_tuple_is_not_seen_through() -> None:
    i = named(computation())
    assert seen_through_tuples(i["both"]) == (i["both"], ())
    assert seen_through_tuples(i["again"]) == (i["p"], (1,))


def test_an_array_is_last_read_by_what_runs() -> None:
    entry = computation()
    i, values = named(entry), array_values(entry)
    last = last_uses(entry, values)
    end = len(entry.instructions)
    assert last[ArrayValue(i["p"], 1)] == entry.instructions.index(i["t"])
    assert last[ArrayValue(i["p"], 2)] == last[ArrayValue(i["x"], 0)] == end
    assert ArrayValue(i["p"], 0) not in last
    assert ArrayValue(i["n"], 0) not in last
    grouping = {name for name, each in i.items() if is_grouping(each)}
    assert grouping == {"inner", "deep", "last", "barrier", "view", "both", "again", "s", "r"}
