"""Programs split at random over a CPU, two NPUs and the chip give what they give on one device."""

from __future__ import annotations

import random

import pytest

from tests.conftest import PROGRAMS
from tests.tools.programs import ExportedProgram, program_names
from tests.vendor_like.random_devices import with_random_devices
from xladev import client
from xladev.compiler.options import CompileOptions
from xladev.runtime.registry import Registry

DEVICES = ("cpu:0", "template_npu:0", "template_npu:1", "vendor_like:0")
NAMES = [
    name
    for name in program_names(PROGRAMS)
    if name not in ("collectives_shard_map", "cnn_train_adam_dropout")
]
"""All but one for eight devices, and one that takes minutes on simulated devices."""


@pytest.mark.rotating
@pytest.mark.skipif(not NAMES, reason="../shared/programs is not here")
@pytest.mark.parametrize("round", range(10))
@pytest.mark.parametrize("name", NAMES)
def test_any_split(name: str, round: int, seed: int, registry: Registry) -> None:
    chance = random.Random(f"{seed} {name} {round}")
    program = ExportedProgram(PROGRAMS, name)
    share = chance.choice([0.3, 0.7, 1.0])
    module = with_random_devices(program.module(), DEVICES, chance, share)
    options = CompileOptions(
        optimization_level=chance.randrange(4),
        devices=chance.choice([(), (), DEVICES]),
    )
    target = chance.choice(DEVICES)
    executable = client.compile(module, target, options)
    assert program.problem(executable) == "", executable.program
