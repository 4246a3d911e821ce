"""What a transform is, apart from how it is computed, and how one is found in a kernel.

A kernel may transpose before and after, so that dimensions other than the last are transformed
where they are, and multiply by a number at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xladev.codegen.kernel_spec import KernelSpec
from xladev.hlo.dtype import C128, F64
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cpu.codegen.fourier.large import Halves, halves_of
from xladev.platforms.cpu.codegen.fourier.plan import convolution_length, is_direct

LONGEST = 1 << 24
"""Most points along a dimension: tables of as many numbers become constants."""


@dataclass(frozen=True, slots=True)
class Fourier:
    """A transform of an array in memory.

    Attributes:
        kind: FFT, IFFT, RFFT or IRFFT.
        dims: of the spectrum, in the order of memory.
        axes: which of them are transformed, in ascending order; the last one of all, if the
            signal is real.
        length: of the signal along the last of them.
        nbytes: of a real number.
        scale: what results are multiplied by, besides what the kind says.
    """

    kind: str
    dims: tuple[int, ...]
    axes: tuple[int, ...]
    length: int
    nbytes: int
    scale: float

    @property
    def is_real(self) -> bool:
        """True if the signal is real."""
        return self.kind in ("RFFT", "IRFFT")

    @property
    def factor(self) -> float:
        """What results are multiplied by, in all."""
        if self.kind in ("FFT", "RFFT"):
            return self.scale
        others = prod(self.dims[axis] for axis in self.axes[:-1])
        return self.scale / (others * self.length)

    @property
    def has_rows(self) -> bool:
        """True if the last dimension is transformed."""
        return self.axes[-1] == len(self.dims) - 1

    @property
    def column_axes(self) -> tuple[int, ...]:
        """The others, the last of them first."""
        return self.axes[:-1][::-1] if self.has_rows else self.axes[::-1]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return prod(self.dims[:-1])

    @property
    def row_length(self) -> int:
        """Complex numbers in a row that is transformed: half of the length of even real ones."""
        return self.length // 2 if self.is_real and self.length % 2 == 0 else self.length

    @property
    def row_halves(self) -> Halves | None:
        """How long rows are divided; None for others, and for real ones of odd length."""
        is_odd = self.is_real and self.length % 2
        return None if is_odd or not self.has_rows else halves_of(self.row_length)


def held(n: int) -> int:
    """Numbers that buffers hold for n."""
    return n if is_direct(n) else convolution_length(n)


def fourier_of(spec: KernelSpec) -> Fourier | None:
    """The transform that a kernel is; None for other kernels, and where there is nothing to do."""
    return fourier_at(spec.computation.root)


def fourier_at(root: HloInstruction) -> Fourier | None:
    """The same of its last instruction."""
    scale, value = _scaled(root)
    back = value["dimensions"] if value.opcode == "transpose" else None
    fft = value.operands[0] if back is not None else value
    if fft.opcode != "fft" or max(fft["fft_length"]) > LONGEST:
        return None
    (x,) = fft.operands
    moved = x.opcode == "transpose"
    if (back is not None) != moved:
        return None
    operand = x.operands[0] if moved else x
    if operand.opcode != "parameter" or not fft.shape.size or not x.shape.size:
        return None
    if back is None:
        return _described(fft, scale, tuple(range(x.shape.rank)))
    return _moved(fft, scale, tuple(x["dimensions"]), tuple(back))


def _moved(
    fft: HloInstruction, scale: float, order: tuple[int, ...], back: tuple[int, ...]
) -> Fourier | None:
    """Where dimensions are moved to the end and back, and keep their order otherwise."""
    rank, count = len(order), len(fft["fft_length"])
    if fft["fft_type"] not in ("FFT", "IFFT") or any(back[order[d]] != d for d in range(rank)):
        return None
    if any(list(part) != sorted(part) for part in (order[: rank - count], order[rank - count :])):
        return None
    return _described(fft, scale, order)


def _described(fft: HloInstruction, scale: float, order: tuple[int, ...]) -> Fourier:
    """Of a transform of dimensions of which number d is dimension ``order[d]`` of memory."""
    kind, lengths = fft["fft_type"], fft["fft_length"]
    shape = fft.operands[0].shape if kind == "IRFFT" else fft.shape
    dims = [0] * shape.rank
    for d, place in enumerate(order):
        dims[place] = shape.dims[d]
    axes = tuple(order[shape.rank - len(lengths) :])
    nbytes = 8 if shape.element_type in (C128, F64) else 4
    return Fourier(kind, tuple(dims), axes, lengths[-1], nbytes, scale)


def _scaled(root: HloInstruction) -> tuple[float, HloInstruction]:
    """A real factor at the end, and what is multiplied by it."""
    if root.opcode != "multiply":
        return 1.0, root
    for value, other in (root.operands, root.operands[::-1]):
        if other.opcode != "broadcast" or other.operands[0].opcode != "constant":
            continue
        factor = complex(other.operands[0]["literal"].value.reshape(-1)[0])
        if factor.imag == 0 and other.operands[0].shape.is_scalar:
            return factor.real, value
    return 1.0, root
