"""The exported programs give the same at each level of compilation."""

from __future__ import annotations

import random

import pytest

from tests.conftest import PROGRAMS
from tests.tools.programs import ExportedProgram, program_names
from xladev import client
from xladev.compiler.options import CompileOptions

NAMES = [name for name in program_names(PROGRAMS) if name != "cnn_train_adam_dropout"]
"""All but one, of which an element is rounding noise (docs/reference/testing.md)."""


@pytest.mark.rotating
@pytest.mark.skipif(not NAMES, reason="../shared/programs is not here")
@pytest.mark.parametrize("platform", ["cpu", "template_npu"])
@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_level(name: str, level: int, platform: str, seed: int) -> None:
    chance = random.Random(f"{seed} {name} {level} {platform}")
    program = ExportedProgram(PROGRAMS, name)
    options = CompileOptions(
        optimization_level=chance.randrange(4),
        compilation_level=level,
        min_cluster_size=chance.choice([1, 2, 4, 16]),
        scopes=chance.choice([(), (("opcode:*e*", "e"),), (("opcode:a*", "-"),)]),
    )
    assert program.problem(client.compile(program.module(), platform, options)) == ""
