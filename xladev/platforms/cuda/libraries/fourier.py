"""Fourier transforms for cuFFT."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType

from xladev.compiler.support import YES, Support, no
from xladev.hlo.ir import HloInstruction
from xladev.platforms.cuda.libraries.calls import Fourier

_KINDS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("FFT", "c64"): "C2C", ("IFFT", "c64"): "C2C",
        ("RFFT", "f32"): "R2C", ("IRFFT", "c64"): "C2R",
        ("FFT", "c128"): "Z2Z", ("IFFT", "c128"): "Z2Z",
        ("RFFT", "f64"): "D2Z", ("IRFFT", "c128"): "Z2D",
    }
)  # fmt: skip


def _key(i: HloInstruction) -> tuple[str, str]:
    return i["fft_type"], i.operands[0].shape.element_type.name


def fourier_support(i: HloInstruction) -> Support:
    """Whether cuFFT has a transform."""
    if _key(i) not in _KINDS:
        return no(f"cuFFT has no {i['fft_type']} of {i.operands[0].shape.element_type.name}")
    if not i.shape.size or not i.operands[0].shape.size:
        return no("there is nothing to transform")
    if not 1 <= len(i["fft_length"]) <= 3:
        return no("cuFFT transforms one to three dimensions")
    return YES


def as_fourier(i: HloInstruction) -> Fourier:
    """The call that computes a supported transform, but for the scale of an inverse one."""
    lengths = tuple(i["fft_length"])
    batch = prod(i.shape.dims[: i.shape.rank - len(lengths)])
    return Fourier(_KINDS[_key(i)], i["fft_type"] in ("FFT", "RFFT"), lengths, batch)
