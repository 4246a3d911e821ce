"""Complex numbers in memory: pairs, or real and imaginary parts apart."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from xladev.codegen.llvm import FunctionBuilder, Value
from xladev.platforms.cpu.codegen.fourier.kinds import Complex, FourierKind
from xladev.platforms.cpu.codegen.fourier.shuffles import deinterleaved, interleaved


class Form(Enum):
    """How complex numbers are held."""

    PAIRS = "c"
    """Real and imaginary part in turns, as in HLO."""
    PLANES = "p"
    """All real parts, and all imaginary parts elsewhere."""

    @property
    def parts(self) -> int:
        """Elements from one number to the next."""
        return 2 if self is Form.PAIRS else 1


@dataclass(frozen=True, slots=True)
class Factors:
    """What parts are multiplied by as pairs are read and written.

    A transform backwards is the conjugate of that forwards of the conjugate.
    """

    read: Complex
    written: Complex

    @staticmethod
    def load(b: FunctionBuilder, kind: FourierKind, address: Value) -> Factors:
        """From four elements of memory."""
        parts = [kind.splat(b, address, n) for n in range(4)]
        return Factors((parts[0], parts[1]), (parts[2], parts[3]))


def load_complex(
    b: FunctionBuilder,
    kind: FourierKind,
    form: Form,
    real: Value,
    imaginary: Value,
    factors: Factors,
) -> Complex:
    """As many numbers as a vector has lanes."""
    if form is Form.PLANES:
        return kind.load(b, real), kind.load(b, imaginary)
    if kind.lanes == 1:
        parts = [kind.load(b, b.byte_address(real, n * kind.nbytes)) for n in (0, 1)]
    else:
        step = kind.lanes * kind.nbytes
        parts = deinterleaved(b, [kind.load(b, b.byte_address(real, n * step)) for n in (0, 1)])
    return b.fmul(parts[0], factors.read[0]), b.fmul(parts[1], factors.read[1])


def store_complex(
    b: FunctionBuilder, form: Form, value: Complex, real: Value, imaginary: Value, factors: Factors
) -> None:
    """The opposite of `load_complex`."""
    if form is Form.PLANES:
        b.store(value[0], real)
        b.store(value[1], imaginary)
        return
    parts = [b.fmul(x, f) for x, f in zip(value, factors.written, strict=True)]
    step = parts[0].lanes * parts[0].type.bits // 8
    for n, part in enumerate(interleaved(b, parts)):
        b.store(part, b.byte_address(real, n * step))
