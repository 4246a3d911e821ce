"""Which instructions are calls of LAPACK, and which of them are computed in vectors."""

from __future__ import annotations

import pytest

from tests.unit.platforms.cpu.stacks import call_text, target
from xladev.hlo.custom_calls.definition import CustomCall
from xladev.hlo.custom_calls.registry import register, unregister
from xladev.hlo.ir import HloInstruction
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.lapack.calls import (
    OPCODES,
    TARGETS,
    LapackCall,
    lapack_call_of,
    lapack_ns,
)
from xladev.platforms.cpu.lapack.routines import SIGNATURES


def instruction(result: str, operands: list[str], what: str) -> HloInstruction:
    return parse_module(call_text(result, operands, what)).entry.root


def call(result: str, operands: list[str], what: str) -> LapackCall:
    found = lapack_call_of(instruction(result, operands, what))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("type_", "symbol"),
    [("f32", "spotrf"), ("f64", "dpotrf"), ("c64", "cpotrf"), ("c128", "zpotrf")],
)
def test_cholesky_of_lapack_s_types(type_: str, symbol: str) -> None:
    found = call(f"{type_}[2,3,3]", [f"{type_}[2,3,3]"], "cholesky lower=true")
    assert (found.symbol, found.batch, found.options.uplo) == (symbol, 2, "L")


@pytest.mark.parametrize("type_", ["f16", "bf16"])
def test_other_types_are_left_alone(type_: str) -> None:
    assert (
        lapack_call_of(instruction(f"{type_}[3,3]", [f"{type_}[3,3]"], "cholesky lower=true"))
        is None
    )


@pytest.mark.parametrize("dims", ["0,0", "0,3,3"])
def test_empty_arrays_are_left_alone(dims: str) -> None:
    root = instruction(f"f32[{dims}]", [f"f32[{dims}]"], "cholesky lower=true")
    assert lapack_call_of(root) is None and lapack_ns(root) is None


def test_a_target_that_somebody_replaced_is_left_alone() -> None:
    root = instruction("(f32[3,3], f32[3])", ["f32[3,3]"], target("Qr"))
    assert lapack_call_of(root) is not None
    register(CustomCall("Qr", "Another one.", lambda _, __, values: values[0]), replace=True)
    try:
        assert lapack_call_of(root) is None
    finally:
        unregister("Qr")


def test_other_targets_are_no_calls() -> None:
    root = instruction("f32[3]", ["f32[3]"], target("Strange"))
    assert lapack_call_of(root) is None


@pytest.mark.parametrize(
    ("dims", "lanes"),
    [
        ("15,8,8", 1),
        ("16,8,8", 16),
        ("1000,64,64", 16),
        ("1000,65,65", 1),
        ("8,8", 1),
        ("4,4,8,8", 16),
    ],
)
def test_many_small_matrices_go_in_vectors(dims: str, lanes: int) -> None:
    assert call(f"f32[{dims}]", [f"f32[{dims}]"], "cholesky lower=true").lanes == lanes


def test_vectors_of_f64_have_half_as_many_and_complex_ones_none() -> None:
    for type_, lanes in (("f64", 8), ("c64", 1)):
        dims = f"{type_}[8,4,4]"
        assert call(dims, [dims], "cholesky lower=true").lanes == lanes


def test_every_routine_has_a_signature() -> None:
    for routine in (*TARGETS.values(), *OPCODES.values()):
        assert {routine.symbol(letter) for letter in "sdcz"} <= SIGNATURES.keys()


def test_time_grows_with_the_stack_and_with_matrices() -> None:
    def ns(dims: str) -> float:
        found = lapack_ns(instruction(f"f64[{dims}]", [f"f64[{dims}]"], "cholesky lower=true"))
        assert found is not None
        return found

    assert ns("7,100,100") == pytest.approx(7 * ns("100,100"))
    assert ns("1024,1024") > 500 * ns("64,64")
