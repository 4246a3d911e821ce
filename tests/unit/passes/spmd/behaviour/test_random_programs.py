"""Random programs, cut at random: the parts of the devices are those of the whole program."""

import pytest

from tests.unit.passes.spmd.sharded_programs import annotated, check, drawn_program

COUNTS = (8, 4, 6, 2)


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int) -> None:
    drawn = drawn_program(seed)
    if drawn is None:
        return
    module, arguments = drawn
    count = COUNTS[seed % 4]
    check(annotated(module, seed, count), arguments, count)


OPCODES = (
    "dot", "reduce", "convolution", "gather", "scatter", "reshape", "sort", "pad", "slice",
    "concatenate", "while", "conditional", "reduce-window", "dynamic-slice", "custom-call",
    "dynamic-update-slice", "select-and-scatter", "rng-bit-generator", "iota", "transpose",
)  # fmt: skip


@pytest.mark.parametrize("opcode", OPCODES)
def test_one_opcode(opcode: str) -> None:
    for seed in range(6):
        drawn = drawn_program(seed, (opcode,), 1)
        if drawn is not None:
            check(annotated(drawn[0], seed, COUNTS[seed % 4], 0.85), drawn[1], COUNTS[seed % 4])


@pytest.mark.long
def test_many_programs() -> None:
    for seed in range(1000, 1400):
        test_random_programs(seed)
