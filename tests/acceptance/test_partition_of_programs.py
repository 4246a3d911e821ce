"""The exported programs give the same wherever a backend that supports some opcodes cuts them."""

import random

import pytest

from tests.conftest import PROGRAMS
from tests.tools.programs import ExportedProgram, program_names
from tests.unit.compiler.subset_backend import Subset, subset_registry
from xladev import client
from xladev.compiler.options import CompileOptions
from xladev.hlo.opset import OPSET

NAMES = [name for name in program_names(PROGRAMS) if name != "cnn_train_adam_dropout"]


@pytest.mark.rotating
@pytest.mark.skipif(not NAMES, reason="../shared/programs is not here")
@pytest.mark.parametrize("round", range(4))
@pytest.mark.parametrize("name", NAMES)
def test_any_subset_of_opcodes(name: str, round: int, seed: int) -> None:
    chance = random.Random(f"{seed} {name} {round}")
    share = chance.choice([0.3, 0.6, 0.9])
    opcodes = {op for op, definition in OPSET.items() if chance.random() < share
               and definition.category != "collective"}  # fmt: skip
    subset = Subset(
        lambda i: i.opcode in opcodes, asynchronous=chance.random() < 0.5, device_count=4
    )
    program = ExportedProgram(PROGRAMS, name)
    with subset_registry(subset, host=chance.random() < 0.7):
        options = CompileOptions(optimization_level=chance.randrange(4))
        executable = client.compile(program.module(), "subset", options)
        assert program.problem(executable) == "", executable.program
