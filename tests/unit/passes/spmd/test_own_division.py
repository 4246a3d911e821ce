"""Calls that say themselves how they are divided over devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tests.unit.passes.spmd.sharded_programs import joined, run
from xladev.errors import UnsupportedError, UserFunctionError, VerifyError
from xladev.hlo import dtype as dt
from xladev.hlo.attributes import Metadata, ReplicaGroups, Sharding
from xladev.hlo.builder import HloBuilder
from xladev.hlo.custom_calls.definition import CustomCall, DividedCall, DivideFn
from xladev.hlo.custom_calls.registry import register, unregister
from xladev.hlo.ir import HloComputation, HloInstruction, HloModule
from xladev.hlo.shape import Shape, array
from xladev.hlo.text import parse_module
from xladev.passes.spmd.program import partition

X = np.arange(32, dtype=np.float32).reshape(8, 4)
ROWS = Sharding("tiled", tile_dims=(4, 1), devices=(0, 1, 2, 3))
COLUMNS = Sharding("tiled", tile_dims=(1, 4), devices=(0, 1, 2, 3))
WHOLE = Sharding("replicated")
LINE = "sharding={devices=[4,1]<=[4]}"


def module(result: str = "f32[8,4]", sharding: str = LINE) -> HloModule:
    return parse_module(f"""HloModule m, num_partitions=4
ENTRY e {{ x = f32[8,4] parameter(0), {LINE}
  c = {result} custom-call(x), custom_call_target="mine", metadata={{op_name="mine"}}
  n = {result} negate(c)
  ROOT r = {result} copy(n), {sharding} }}""")


def doubling(shape: Shape) -> HloComputation:
    b = HloBuilder("part")
    x = b.parameter(shape)
    b.op("add", x, x)
    return b.build()


def summing(shape: Shape) -> HloComputation:
    """The sum of the parts of all devices, on each of them."""
    b = HloBuilder("add")
    one = array(dt.F32)
    b.op("add", b.parameter(one), b.parameter(one))
    add = b.build()
    b = HloBuilder("part")
    groups = ReplicaGroups(((0, 1, 2, 3),))
    b.op(
        "all-reduce", b.parameter(shape), to_apply=add, channel_id=7, use_global_device_ids=True,
        replica_groups=groups,
    )  # fmt: skip
    return b.build()


@pytest.fixture
def asked() -> Iterator[list[tuple[object, ...]]]:
    """What the function that divides was asked."""
    yield []
    unregister("mine")


def divides(asked: list[tuple[object, ...]], answer: DividedCall | Exception) -> None:
    def divide(i: HloInstruction, *shardings: tuple[Sharding, ...]) -> DividedCall:
        asked.append(shardings)
        if isinstance(answer, Exception):
            raise answer
        return answer

    call: DivideFn = divide
    register(CustomCall("mine", "Mine.", lambda _, __, values: 2 * values[0], divide=call))


def check(program: HloModule, wanted: np.ndarray) -> HloModule:  # type: ignore[type-arg]
    made = partition(program, 4)
    (got,) = joined(made, run(made, [X]), [program.entry.root.shape])
    np.testing.assert_array_equal(got, wanted)
    return made.module


def test_a_call_on_parts_as_they_lie(asked: list[tuple[object, ...]]) -> None:
    divides(asked, DividedCall(doubling(array(dt.F32, (2, 4))), (ROWS,), (ROWS,)))
    made = check(module(), -2 * X)
    ((given, wanted),) = asked
    assert given[0].tile_dims == wanted[0].tile_dims == (4, 1)  # type: ignore[index]
    opcodes = {i.opcode for i in made.entry.instructions}
    assert "call" in opcodes
    assert not opcodes & {"all-gather", "all-to-all", "custom-call"}


def test_operands_and_results_are_moved_to_where_it_wants_and_gives_them(
    asked: list[tuple[object, ...]],
) -> None:
    divides(asked, DividedCall(doubling(array(dt.F32, (8, 1))), (COLUMNS,), (COLUMNS,)))
    made = check(module(), -2 * X)
    assert [i.opcode for i in made.entry.instructions].count("all-to-all") == 2


def test_collectives_of_its_own(asked: list[tuple[object, ...]]) -> None:
    divides(asked, DividedCall(summing(array(dt.F32, (2, 4))), (ROWS,), (WHOLE,)))
    program = module("f32[2,4]", "sharding={replicated}")
    check(program, -X.reshape(4, 2, 4).sum(0))


def test_its_instructions_come_from_where_the_call_did(asked: list[tuple[object, ...]]) -> None:
    part = doubling(array(dt.F32, (2, 4)))
    root = replace(
        part.root, note=replace(part.root.note, metadata=Metadata(op_name="x", stack_frame_id=9))
    )
    part = HloComputation("part", (*part.instructions[:-1], root), root)
    divides(asked, DividedCall(part, (ROWS,), (ROWS,)))
    (call,) = (i for i in check(module(), -2 * X).entry.instructions if i.opcode == "call")
    notes = {i.note.metadata.op_name for i in call["to_apply"].instructions}
    assert notes == {"mine"}


HALF = doubling(array(dt.F32, (4, 4)))
BROKEN = replace(doubling(array(dt.F32, (2, 4))).root, shape=array(dt.F32, (2, 2)))


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (DividedCall(HALF, (ROWS,), (ROWS,)), UnsupportedError, r"takes f32\[4,4\], not f32\[2,4"),
        (
            DividedCall(doubling(array(dt.F32, (2, 4))), (ROWS,), (WHOLE,)),
            UnsupportedError,
            r"gives f32\[2,4\], not f32\[8,4\]",
        ),
        (
            DividedCall(doubling(array(dt.F32, (2, 4))), (), (ROWS,)),
            UnsupportedError,
            "0 shardings for 1 arrays",
        ),
        (
            DividedCall(HALF, (Sharding("maximal", devices=(0,)),), (ROWS,)),
            UnsupportedError,
            "no part of f32",
        ),
        (
            DividedCall(HloComputation("p", (*BROKEN.operands[:1], BROKEN), BROKEN), (ROWS,),
                        (ROWS,)),
            VerifyError,
            "add",
        ),
        (ZeroDivisionError("mine"), UserFunctionError, "divides 'mine' raised ZeroDivisionError"),
    ],
    ids=["takes", "gives", "count", "one device", "broken", "raises"],
)  # fmt: skip
def test_answers_that_do_not_fit(
    asked: list[tuple[object, ...]],
    answer: DividedCall | Exception,
    error: type[Exception],
    message: str,
) -> None:
    divides(asked, answer)
    with pytest.raises(error, match=message):
        partition(module(), 4)


def test_a_call_of_tuples_is_refused(asked: list[tuple[object, ...]]) -> None:
    divides(asked, ZeroDivisionError("not asked"))
    program = parse_module("""HloModule m, num_partitions=4
ENTRY e { x = f32[8] parameter(0)  t = token[] after-all()
  ROOT c = f32[8] custom-call(x, t), custom_call_target="mine" }""")
    with pytest.raises(UnsupportedError, match="a tuple or a token"):
        partition(program, 4)
    assert not asked
