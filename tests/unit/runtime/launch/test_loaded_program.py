"""Programs that do not fit the devices that they are loaded on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.compiler.sample_programs import LOOP_AND_BRANCH
from tests.unit.compiler.subset_backend import Subset, subset_registry
from xladev import client
from xladev.compiler.options import CompileOptions
from xladev.errors import FormatError
from xladev.hlo.text import parse_module


@pytest.mark.parametrize("name", ["another", "a" * 5000])
def test_an_executable_of_no_platform_of_the_program_is_named(name):
    with subset_registry(Subset(lambda i: i.opcode not in ("sine", "call", "while"))):
        options = CompileOptions(optimization_level=0)
        compiled = client.compile(parse_module(LOOP_AND_BRANCH), "subset", options)
        platforms = (name, *compiled.program.platforms[1:])
        damaged = replace(compiled.program, platforms=platforms)
        with pytest.raises(FormatError, match=r"executable \d is made for 'subset'") as caught:
            client.CompiledModule(damaged, compiled.devices)
    assert "loop_and_branch" in str(caught.value)
    assert len(str(caught.value)) < 500
