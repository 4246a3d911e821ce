"""What text emission must know about the machine that the code is for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

FunctionTable = Callable[[str, str], Callable[[Any, Sequence[Any]], Any] | None]
"""A target's own code for an elementwise opcode on a float type, by their HLO names; None for the
shared code. An emitter is given a function builder and operands in f32 or f64."""


def no_functions(opcode: str, dtype: str) -> None:
    """The table of a target that shares all code."""


@dataclass(frozen=True, slots=True)
class TargetTraits:
    """Traits of a code generation target.

    Attributes:
        triple: LLVM target triple; empty to leave it to whoever compiles the text.
        data_layout: LLVM data layout string; empty likewise.
        has_half_conversion: half <-> float conversion is an instruction (x86 F16C, aarch64, GPUs).
            Where it is not, LLVM would call a runtime library, so bit arithmetic is emitted.
        has_bfloat_conversion: bfloat <-> float conversion is an instruction (GPUs); where it is
            not, bit arithmetic is emitted.
        has_indexed_vectors: a lane whose number is known at run time alone costs little. Where it
            does not (GPUs, whose registers have no index), loops over lanes are written out.
        has_scaling: x86's AVX-512: ``x * 2**n`` is an instruction.
        has_byte_products: four products of bytes and their sum are an instruction (x86 VNNI), in
            vectors of 64 bytes.
        has_bfloat_products: two products of bf16 and their sum are an instruction (x86
            AVX512-BF16), in vectors of 64 bytes.
        has_lookups: lanes of a vector of 64 bytes by numbers that are known at run time are an
            instruction (x86 AVX-512).
        has_extremes: the larger of two floats, NaN kept and -0 below 0, is an instruction
            (aarch64, wasm32, GPUs, not x86).
        has_prefetch: memory can be asked for before it is read (not GPUs, where other threads run
            meanwhile).
        missing: names of intrinsics for which LLVM would call the mathematical library; code that
            computes the same is emitted instead (`portable.py`).
        vector_nbytes: bytes of the widest vector register.
        array_alignment: bytes to which arrays are aligned, where vectors must be aligned too and
            LLVM has to be told of it (GPUs); 0 where it does not matter.
        pointer_nbytes: bytes of an address in memory.
        function_attributes: attributes of every function defined.
        functions: the target's own mathematical functions.
    """

    triple: str = ""
    data_layout: str = ""
    has_half_conversion: bool = True
    has_bfloat_conversion: bool = False
    has_byte_products: bool = False
    has_indexed_vectors: bool = True
    has_bfloat_products: bool = False
    has_scaling: bool = False
    has_lookups: bool = False
    has_extremes: bool = True
    has_prefetch: bool = True
    missing: frozenset[str] = frozenset()
    vector_nbytes: int = 16
    array_alignment: int = 0
    pointer_nbytes: int = 8
    function_attributes: tuple[str, ...] = ("nounwind", '"no-trapping-math"="true"')
    functions: FunctionTable = no_functions

    @property
    def has_fma(self) -> bool:
        """Whether ``x * y + z``, rounded once, is an instruction."""
        return "fma" not in self.missing


GENERIC = TargetTraits(has_half_conversion=False)
