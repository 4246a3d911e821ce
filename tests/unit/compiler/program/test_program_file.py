import random
from dataclasses import replace

import pytest

from tests.unit.compiler.sample_programs import LOOP_AND_BRANCH
from tests.unit.compiler.subset_backend import Subset, subset_registry
from xladev import client
from xladev.compiler.options import CompileOptions
from xladev.compiler.program.program import Procedure, Program, Slot
from xladev.compiler.program.program_check import check_program
from xladev.compiler.program.program_file import (
    PROGRAM_VERSION,
    program_from_bytes,
    program_to_bytes,
)
from xladev.compiler.program.thunks import (
    Call,
    CollectiveDone,
    CollectiveStart,
    RunExecutable,
    Transfer,
    While,
)
from xladev.errors import FormatError
from xladev.hlo.text import parse_module


@pytest.fixture(scope="module")
def program():
    with subset_registry(Subset(lambda i: i.opcode not in ("sine", "call", "while"))):
        options = CompileOptions(optimization_level=0)
        return client.compile(parse_module(LOOP_AND_BRANCH), "subset", options).program


def test_round_trip(program):
    assert program_from_bytes(program_to_bytes(program)) == program


@pytest.mark.parametrize("round", range(200))
def test_flipped_bits_and_truncation_are_found(program, round, seed):
    chance = random.Random(f"{seed} {round}")
    data = bytearray(program_to_bytes(program))
    if round % 2:
        del data[chance.randrange(len(data)) :]
    else:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    with pytest.raises(FormatError):
        program_from_bytes(bytes(data))


def test_another_version_says_both(program):
    data = bytearray(program_to_bytes(program))
    data[8] = 77
    with pytest.raises(FormatError, match="format version 77") as caught:
        program_from_bytes(bytes(data))
    assert f"reads version {PROGRAM_VERSION}" in str(caught.value)


def replace_entry(program: Program, **changes) -> Program:
    entry = replace(program.entry, **changes)
    return replace(program, procedures=(*program.procedures[:-1], entry))


def first(program, kind):
    return next(t for p in program.procedures for t in p.thunks if isinstance(t, kind))


def with_thunk(program, old, new):
    procedures = tuple(
        replace(p, thunks=tuple(new if t is old else t for t in p.thunks))
        for p in program.procedures
    )
    return replace(program, procedures=procedures)


def broken(program):
    entry = program.entry
    run, loop, call = (first(program, kind) for kind in (RunExecutable, While, Call))
    yield "no procedure", replace(program, procedures=())
    yield "no platform", replace(program, platforms=())
    yield "platform that is not there", replace(program, platforms=("subset",))
    yield "donates", replace(program, donors=(99,))
    yield "read before", replace_entry(program, thunks=entry.thunks[::-1])
    yield "never written", replace_entry(program, thunks=entry.thunks[:-1])
    yield "written twice", replace_entry(program, thunks=(*entry.thunks, entry.thunks[-1]))
    yield "share a slot", replace_entry(program, parameters=(0, 0, 1, 2))
    yield "disagree", replace_entry(program, results=entry.results[:-1])
    yield "does not fit", with_thunk(program, run, replace(run, executable=99))
    yield "does not fit", with_thunk(program, loop, replace(loop, body=99))
    yield "does not fit", with_thunk(program, loop, replace(loop, condition=loop.body))
    yield "does not fit", with_thunk(program, call, replace(call, procedure=-1))


def test_the_check_finds_every_inconsistency(program):
    check_program(program)
    for what, bad in broken(program):
        with pytest.raises(FormatError, match=what):
            check_program(bad)


def test_a_consistent_file_around_an_inconsistent_program_is_refused(program):
    for _, bad in broken(program):
        with pytest.raises(FormatError):
            program_from_bytes(program_to_bytes(bad))


def test_printing_shows_fallbacks_executables_and_thunks(program):
    text = str(program)
    assert "fallback: wave (sine) runs on interpreter: not in the subset" in text
    assert "while condition=" in text and "on interpreter" in text


START = CollectiveStart("all-reduce", "s", ((0,),), (0,), (1,), reduction="add")
DONE = CollectiveDone("s", (0,), (1,))


def paired(program: Program, *thunks) -> Program:
    """A program of a collective in two halves."""
    shape = program.signature.argument_shapes[0]
    slots = (Slot(shape), Slot(shape))
    entry = Procedure("e", slots, (0,), (1,), thunks)
    signature = replace(program.signature, parameters=(shape,), result=shape, aliases=())
    return replace(
        program, signature=signature, procedures=(entry,), executables=(), constants=(), donors=()
    )


def test_halves_of_a_collective_are_saved(program):
    made = paired(program, START, DONE)
    assert program_from_bytes(program_to_bytes(made)) == made


@pytest.mark.parametrize(
    ("thunks", "what"),
    [
        ((START,), "begun and never ended"),
        ((DONE,), "ended that was not begun"),
        ((DONE, START), "ended that was not begun"),
        ((START, START, DONE), "begun twice"),
        ((START, replace(DONE, arguments=())), "ended that was not begun"),
        ((START, DONE, DONE), "written twice"),
        ((START, Transfer(1, 1), DONE), "read before it is written"),
    ],
)
def test_each_start_has_one_end_of_the_same_slots(program, thunks, what):
    with pytest.raises(FormatError, match=what):
        check_program(paired(program, *thunks))
