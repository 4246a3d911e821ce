"""Loops over single elements are told from loops in vectors, by how often they run."""

from xladev.codegen.llvm import FLOAT, I64, PTR, VOID, FunctionBuilder, ModuleBuilder, Parameter
from xladev.codegen.llvm import vector as vector_of
from xladev.codegen.llvm.loop_census import UNKNOWN_TRIPS


def function() -> FunctionBuilder:
    parameters = [Parameter(PTR, "p"), Parameter(I64, "n")]
    return ModuleBuilder("m").function("f", VOID, parameters)


def copy_one(b: FunctionBuilder, at: object, lanes: int = 1) -> None:
    place = b.element_address(b.arguments[0], b.arguments[1], FLOAT)
    b.store(b.load(vector_of(FLOAT, lanes) if lanes > 1 else FLOAT, place), place)


def test_innermost_loops_count_with_all_around_them() -> None:
    b = function()
    with b.loop(0, 10) as i:
        copy_one(b, i)
        with b.loop(0, 7, 2) as j:
            copy_one(b, j)
    assert b.loops.scalar_trips == 40


def test_loops_in_vectors_do_not_count() -> None:
    b = function()
    with b.loop(0, 1000) as i:
        copy_one(b, i, lanes=8)
    assert b.loops.scalar_trips == 0


def test_vectors_that_are_filled_lane_by_lane_count() -> None:
    b = function()
    empty = b.const(vector_of(FLOAT, 8), 0.0)
    b.by_lane(lambda values: [b.fadd(values[0], 1.0)], [empty], [FLOAT])
    assert b.loops.scalar_trips == 8


def test_bounds_that_are_no_constants_count_as_many() -> None:
    b = function()
    with b.loop(0, b.arguments[1]) as i:
        copy_one(b, i)
    assert b.loops.scalar_trips == UNKNOWN_TRIPS


def test_what_is_forgotten_does_not_count() -> None:
    b = function()
    mark = b.mark()
    with b.loop(0, 50) as i:
        copy_one(b, i)
    b.reset(mark)
    assert b.loops.scalar_trips == 0
