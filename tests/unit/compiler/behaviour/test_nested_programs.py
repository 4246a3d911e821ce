"""Loops, branches and calls within each other, drawn at random, against the evaluator."""

from typing import Any

import numpy as np
import pytest

from tests.unit.compiler.nested_programs import nested_program
from tests.unit.compiler.subset_backend import Subset, subset_registry
from xladev.client import compile
from xladev.compiler.options import CompileOptions
from xladev.hlo.evaluator import HloEvaluator
from xladev.hlo.ir import HloModule
from xladev.hlo.verifier import verify
from xladev.testing.noise import leaves
from xladev.testing.random_inputs import random_arguments

ROUNDS = 12
PROGRAMS = 4


def assert_equal(found: Any, wanted: Any) -> None:
    for a, b in zip(leaves(found), leaves(wanted), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def drawn(seed: int, number: int) -> tuple[HloModule, list[Any], Any]:
    module = nested_program(seed * 1000 + number)
    verify(module)
    arguments = random_arguments(module, seed)
    return module, arguments, HloEvaluator().run(module, *arguments)


@pytest.mark.parametrize("part", range(ROUNDS))
@pytest.mark.parametrize("fusion", [True, False])
def test_native_programs(part: int, fusion: bool, seed: int) -> None:
    for number in range(part * PROGRAMS, (part + 1) * PROGRAMS):
        module, arguments, wanted = drawn(seed, number)
        for level in (0, 2):
            options = CompileOptions(optimization_level=level, fusion=fusion)
            assert_equal(compile(module, "cpu", options)(*arguments), wanted)


@pytest.mark.parametrize("part", range(ROUNDS))
def test_programs_that_the_sdk_runs(part: int, seed: int) -> None:
    refused = ("while", "conditional", "call", "sort")
    with subset_registry(Subset(lambda i: i.opcode not in refused)):
        for number in range(part * PROGRAMS, (part + 1) * PROGRAMS):
            module, arguments, wanted = drawn(seed, number)
            options = CompileOptions(optimization_level=0)
            assert_equal(compile(module, "subset", options)(*arguments), wanted)
