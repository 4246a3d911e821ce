"""Encoding and text: each is the inverse of the other, for any field values."""

import random

import pytest

from xladev.platforms.template_npu.device import isa
from xladev.platforms.template_npu.device.assembler import (
    AssemblyError,
    assemble,
    disassemble,
    disassemble_word,
)
from xladev.platforms.template_npu.device.isa import Instruction, Operand


def random_instruction(draw: random.Random) -> Instruction:
    opcode = draw.choice(isa.OPCODES)
    form = isa.FORMATS[opcode.format]
    operands = tuple(
        Operand(
            draw.randrange(1 << 18),
            tuple(draw.randrange(-(1 << 20), 1 << 20) for _ in range(form.strides)),
        )
        for _ in form.operands
    )
    function = draw.randrange(len(opcode.functions)) if opcode.functions else 0
    waits = tuple((s, draw.randrange(1 << 16)) for s in draw.sample(range(16), draw.randrange(4)))
    counts = tuple(draw.randrange(1, 1024) for _ in range(4))
    scalars = tuple(draw.randrange(200) for _ in form.scalars)
    type_, result = draw.randrange(9), draw.randrange(9)
    signal = draw.choice((isa.NO_SEMAPHORE, 3))
    return Instruction(opcode, function, type_, result, counts, operands, scalars, signal, waits)


def test_binary_and_text_round_trip(seed):
    draw = random.Random(seed)
    instructions = [random_instruction(draw) for _ in range(300)]
    code = b"".join(map(isa.encode, instructions))
    assert [isa.decode(word) for word in isa.words_of(code)] == instructions
    assert assemble(disassemble(code)) == code


def test_all_formats_fill_a_word():
    for form in isa.FORMATS.values():
        assert form.layout.size == isa.WORD_NBYTES


def test_opcode_numbers_and_names_are_unique():
    assert len(isa.BY_NUMBER) == len(isa.BY_NAME) == len(isa.OPCODES)


def test_a_line_reads_as_documented():
    line = "binary.add.f32 (1, 1, 2, 8) dst=0x40:[0,0,32,4] src0=0x0:[0,0,32,4] wait=0>=2 signal=2"
    assert disassemble(assemble(line)) == line


def test_comments_and_empty_lines_are_skipped():
    assert assemble("# nothing\n\n") == b""


@pytest.mark.parametrize(
    "line",
    ["jump.f32", "binary.frob.f32 (1, 1, 1, 1)", "load.f32 (1, 1)", "fill.f32 foo=1",
     "fill.f33", "unary.copy.f32 (1,1,1,1) dst=0:[1,2]"],
)  # fmt: skip
def test_what_is_no_instruction_is_an_error_with_its_line(line):
    with pytest.raises(AssemblyError, match="line 2"):
        assemble(f"# first\n{line}")


def test_an_unknown_word_is_shown_as_such():
    assert disassemble_word(bytes([250]) + bytes(127)).startswith("# no instruction")
