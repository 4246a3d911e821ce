"""The instruction set: one table that assembler, decoder, simulator and reference page share.

The machine. An accelerator core has 256 KiB of scratchpad in 8 banks and four engines that run at
the same time: ``load`` and ``store`` (DMA between DRAM and scratchpad, the only ones that see
DRAM), ``vector`` (up to 1,024 lanes) and ``matrix`` (a systolic array of 16 x 16). A command list
is an array of words of 128 bytes. The sequencer hands each word to the queue of its engine; an
engine runs its queue in order. A word waits until up to three semaphores have reached given
values, and may raise one semaphore by one when it is done; semaphores are 0 when a list starts,
and each is raised by one engine only. What two engines touch must be ordered by semaphores:
overlapping address ranges (from lowest to highest byte) that are not are the fault HAZARD.

Scratchpad contents do not outlive a command list; reading bytes that the list has not written is a
fault. DRAM is seen through up to 255 windows, bound when a list is submitted.

Each word repeats: ``counts`` are up to four nested loops, and every operand is an address and a
stride in bytes per loop. In vector words the innermost loop is the lanes, all of which are read
before one is written; the outer ones are the hardware's loop, run in order. A matrix word
multiplies one tile, repeated over tiles.

What a vendor replaces: all of this folder, by the documents of their own hardware.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

SCRATCHPAD_NBYTES = 256 * 1024
BANK_COUNT = 8
BANK_NBYTES = SCRATCHPAD_NBYTES // BANK_COUNT
MAX_LANES = 1024
TILE = 16
SEMAPHORE_COUNT = 16
NO_SEMAPHORE = 255
WAIT_COUNT = 3
LOOP_COUNT = 4
WORD_NBYTES = 128
ISA_VERSION = 1

ENGINES = ("load", "store", "vector", "matrix")
LOAD, STORE, VECTOR, MATRIX = range(4)


@dataclass(frozen=True, slots=True)
class ElementType:
    """One element type: name, number in a word, size in bytes, NumPy type of its bits."""

    name: str
    number: int
    nbytes: int
    bits: str
    is_float: bool = False
    is_signed: bool = False


TYPES: tuple[ElementType, ...] = (
    ElementType("pred", 0, 1, "?"),
    ElementType("s8", 1, 1, "i1", is_signed=True),
    ElementType("u8", 2, 1, "u1"),
    ElementType("s16", 3, 2, "i2", is_signed=True),
    ElementType("u16", 4, 2, "u2"),
    ElementType("s32", 5, 4, "i4", is_signed=True),
    ElementType("u32", 6, 4, "u4"),
    ElementType("bf16", 7, 2, "u2", is_float=True, is_signed=True),
    ElementType("f32", 8, 4, "f4", is_float=True, is_signed=True),
)
TYPE_NUMBERS: Mapping[str, int] = MappingProxyType({t.name: t.number for t in TYPES})

UNARY = (
    "copy", "not", "neg", "abs", "sign", "floor", "ceil", "round_even", "round_away", "sqrt",
    "rsqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log1p", "sin", "cos", "tan", "asin",
    "acos", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "logistic", "is_finite",
    "popcnt", "clz",
)  # fmt: skip
BINARY = (
    "add", "sub", "mul", "div", "rem", "pow", "max", "min", "and", "or", "xor", "shl", "shr",
    "sar", "atan2", "mulhi",
)  # fmt: skip
COMPARE = (
    "eq", "ne", "lt", "le", "gt", "ge",
    "total_eq", "total_ne", "total_lt", "total_le", "total_gt", "total_ge",
)  # fmt: skip
COMBINE = ("set", "add", "max", "min", "mul")
REDUCE = ("add", "mul", "max", "min", "and", "or", "xor")
SLOW_FUNCTIONS = frozenset(UNARY[UNARY.index("sqrt") : UNARY.index("is_finite")]) | {
    "div", "rem", "pow", "atan2",
}  # fmt: skip
"""Functions that take the vector unit four times as long."""


@dataclass(frozen=True, slots=True)
class InstructionFormat:
    """How the words of some opcodes are laid out after the common head.

    Attributes:
        layout: of the whole word, for `struct`.
        operands: names of operands in order; each is an address and strides.
        strides: number of strides of each operand.
        scalars: names of the plain numbers that follow.
    """

    layout: struct.Struct
    operands: tuple[str, ...]
    strides: int
    scalars: tuple[str, ...]


_HEAD = "<BBBB BBBB III IIII"
"""opcode, function, type, result type; signal, 3 semaphores to wait for; their values; counts."""

FORMATS: Mapping[str, InstructionFormat] = MappingProxyType(
    {
        "vector": InstructionFormat(
            struct.Struct(_HEAD + "I4i" * 4 + "I8x"), ("dst", "src0", "src1", "src2"), 4, ("imm",)
        ),
        "dma": InstructionFormat(
            struct.Struct(_HEAD + "I4i" * 2 + "q4q" + "IB7x"),
            ("sp", "index", "dram"),
            4,
            ("unit", "binding"),
        ),
        "matrix": InstructionFormat(
            struct.Struct(_HEAD + "I5i" * 3 + "4B16x"),
            ("dst", "a", "b"),
            5,
            ("m", "n", "k", "accumulate"),
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Opcode:
    """One row of the instruction table.

    Attributes:
        name: its mnemonic.
        number: its first byte.
        engine: which engine runs it, an index into `ENGINES`.
        format: key of `FORMATS`.
        functions: names that its function field chooses from; empty if it has none.
        reads, writes: the scratchpad operands that it reads and writes.
        meaning: for the reference page.
        cycles: for the reference page; `device/timing.py` counts them.
        types: names of element types it takes.
    """

    name: str
    number: int
    engine: int
    format: str
    functions: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    meaning: str
    cycles: str
    types: tuple[str, ...] = tuple(t.name for t in TYPES)


_DMA_CYCLES = "64 + bytes / 64, + 1 for each run of bytes that is contiguous on neither side"
_VECTOR_CYCLES = "8 + lanes x repeats / 128, x 4 for slow functions, x operands in one bank"

OPCODES: tuple[Opcode, ...] = (
    Opcode(
        "load", 1, LOAD, "dma", (), (), ("sp",),
        "sp[i] = dram[i]: a strided block from a window of DRAM.", _DMA_CYCLES,
    ),
    Opcode(
        "store", 2, STORE, "dma", (), ("sp",), (),
        "dram[i] = sp[i]: a strided block to a window of DRAM.", _DMA_CYCLES,
    ),
    Opcode(
        "gather", 3, LOAD, "dma", (), ("index",), ("sp",),
        "sp[i] = dram[i] at a further offset of index[i] x unit bytes, index being s32; zero where "
        "the index is negative.", _DMA_CYCLES,
    ),
    Opcode(
        "scatter", 4, STORE, "dma", COMBINE, ("sp", "index"), (),
        "dram[i] = f(dram[i], sp[i]) at a further offset of index[i] x unit bytes, in order; "
        "nothing where the index is negative.", _DMA_CYCLES,
    ),
    Opcode(
        "fill", 16, VECTOR, "vector", (), (), ("dst",),
        "dst[i] = the low bytes of imm.", _VECTOR_CYCLES,
    ),
    Opcode(
        "iota", 17, VECTOR, "vector", (), (), ("dst",),
        "dst[i] = imm + the sum of i x the strides of src0, in s32 or u32.", _VECTOR_CYCLES,
        ("s32", "u32"),
    ),
    Opcode(
        "unary", 18, VECTOR, "vector", UNARY, ("src0",), ("dst",),
        "dst[i] = f(src0[i]); is_finite gives pred.", _VECTOR_CYCLES,
    ),
    Opcode(
        "binary", 19, VECTOR, "vector", BINARY, ("src0", "src1"), ("dst",),
        "dst[i] = f(src0[i], src1[i]). Integers wrap; division by zero gives all ones, the "
        "remainder the dividend; shifts by the width or more give zero or the sign; max and min "
        "pass NaN on and put -0 below 0.", _VECTOR_CYCLES,
    ),
    Opcode(
        "compare", 20, VECTOR, "vector", COMPARE, ("src0", "src1"), ("dst",),
        "dst[i] = pred: src0[i] relates so to src1[i]; total_* order floats as IEEE 754 "
        "totalOrder.", _VECTOR_CYCLES,
    ),
    Opcode(
        "select", 21, VECTOR, "vector", (), ("src0", "src1", "src2"), ("dst",),
        "dst[i] = src1[i] where the pred src0[i], else src2[i].", _VECTOR_CYCLES,
    ),
    Opcode(
        "convert", 22, VECTOR, "vector", (), ("src0",), ("dst",),
        "dst[i] = src0[i] in the result type: integers wrap, floats become integers toward zero, "
        "saturating, NaN as 0; floats round to nearest even.", _VECTOR_CYCLES,
    ),
    Opcode(
        "quantize", 24, VECTOR, "vector", (), ("src0",), ("dst",),
        "dst[i] = src0[i] rounded to nearest even as if it had imm // 256 bits of exponent and "
        "imm % 256 of mantissa; infinite past their range, zero below their normals.",
        _VECTOR_CYCLES, ("bf16", "f32"),
    ),
    Opcode(
        "reduce", 23, VECTOR, "vector", REDUCE, ("src0",), ("dst",),
        "dst[0] = all lanes of src0 combined, as a tree: the upper half of the lanes onto the "
        "lower half, until one is left (of an odd number the middle one waits).", _VECTOR_CYCLES,
    ),
    Opcode(
        "matmul", 32, MATRIX, "matrix", (), ("a", "b", "dst"), ("dst",),
        "dst[m, n] = a[m, k] x b[k, n], or added to dst if accumulate or not the first k tile. "
        "counts repeat it over tiles of m, n and k; bf16 and f32 give f32, s8 gives s32; a "
        "NaN is 0x7FC00000.",
        "16 + 16 for each tile, x 2 for f32", ("s8", "u8", "bf16", "f32"),
    ),
)  # fmt: skip

BY_NUMBER: Mapping[int, Opcode] = MappingProxyType({o.number: o for o in OPCODES})
BY_NAME: Mapping[str, Opcode] = MappingProxyType({o.name: o for o in OPCODES})


@dataclass(frozen=True, slots=True)
class Operand:
    """Where an operand is: address of its first element, and bytes from one to the next.

    Attributes:
        address: byte address in the scratchpad, or offset in a DRAM window.
        strides: one per loop; a matrix operand has five: tiles of m, n, k, then row and column.
    """

    address: int = 0
    strides: tuple[int, ...] = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Instruction:
    """One word, decoded.

    Attributes:
        opcode: the row of the table.
        function: index into the opcode's functions.
        type, result: numbers of element types.
        counts: of the nested loops, outermost first.
        operands: in the order of the format.
        scalars: in the order of the format.
        signal: semaphore to raise, or `NO_SEMAPHORE`.
        waits: (semaphore, least value) pairs.
    """

    opcode: Opcode
    function: int
    type: int
    result: int
    counts: tuple[int, int, int, int]
    operands: tuple[Operand, ...]
    scalars: tuple[int, ...]
    signal: int = NO_SEMAPHORE
    waits: tuple[tuple[int, int], ...] = ()

    def operand(self, name: str) -> Operand:
        """The operand of that name."""
        return self.operands[FORMATS[self.opcode.format].operands.index(name)]

    def scalar(self, name: str) -> int:
        """The plain number of that name."""
        return self.scalars[FORMATS[self.opcode.format].scalars.index(name)]

    @property
    def function_name(self) -> str:
        """The name of its function; empty if it has none."""
        return self.opcode.functions[self.function] if self.opcode.functions else ""


def encode(i: Instruction) -> bytes:
    """The 128 bytes of an instruction."""
    semaphores = [s for s, _ in i.waits] + [NO_SEMAPHORE] * (WAIT_COUNT - len(i.waits))
    values = [v for _, v in i.waits] + [0] * (WAIT_COUNT - len(i.waits))
    fields = [i.opcode.number, i.function, i.type, i.result, i.signal, *semaphores, *values]
    fields += i.counts
    for operand in i.operands:
        fields.append(operand.address)
        fields += operand.strides
    return FORMATS[i.opcode.format].layout.pack(*fields, *i.scalars)


def decode(word: bytes) -> Instruction | None:
    """The instruction in a word; None if its opcode is unknown."""
    opcode = BY_NUMBER.get(word[0])
    if opcode is None:
        return None
    form = FORMATS[opcode.format]
    f = form.layout.unpack(word)
    waits = tuple((s, v) for s, v in zip(f[5:8], f[8:11], strict=True) if s != NO_SEMAPHORE)
    size = form.strides + 1
    end = 15 + size * len(form.operands)
    operands = tuple(Operand(f[at], f[at + 1 : at + size]) for at in range(15, end, size))
    return Instruction(opcode, f[1], f[2], f[3], f[11:15], operands, f[end:], f[4], waits)


def words_of(code: bytes) -> list[bytes]:
    """The words of a command list."""
    return [code[at : at + WORD_NBYTES] for at in range(0, len(code), WORD_NBYTES)]
