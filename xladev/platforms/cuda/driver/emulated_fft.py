"""Emulated cuFFT: NumPy's transforms, unscaled; complex-to-real ones overwrite their input."""

from __future__ import annotations

from math import prod

import numpy as np

from xladev.codegen.simt.emulation.host_threads import PATTERN
from xladev.platforms.cuda.driver.emulated_calls import Buffers, Emulation
from xladev.platforms.cuda.driver.interface import LibraryError
from xladev.platforms.cuda.libraries.calls import Fourier

INVALID = "CUFFT_INVALID_VALUE"
_TYPES = {
    "C2C": ("c64", "c64"), "R2C": ("f32", "c64"), "C2R": ("c64", "f32"),
    "Z2Z": ("c128", "c128"), "D2Z": ("f64", "c128"), "Z2D": ("c128", "f64"),
}  # fmt: skip


def _check(call: Fourier) -> None:
    if call.kind not in _TYPES:
        raise LibraryError("cufftPlanMany", "CUFFT_INVALID_TYPE", call.kind)
    if not 1 <= len(call.lengths) <= 3 or min(*call.lengths, call.batch) < 1:
        raise LibraryError("cufftPlanMany", "CUFFT_INVALID_SIZE", f"{call.lengths}, {call.batch}")


def _run(call: Fourier, buffers: Buffers) -> None:
    source, target = _TYPES[call.kind]
    into = call.shortened if call.kind in ("C2R", "Z2D") else call.lengths
    out = call.shortened if call.kind in ("R2C", "D2Z") else call.lengths
    x = buffers.array(0, source, call.batch * prod(into)).reshape(call.batch, *into)
    y = buffers.array(1, target, call.batch * prod(out)).reshape(call.batch, *out)
    axes = tuple(range(1, 1 + len(call.lengths)))
    if call.kind in ("C2R", "Z2D"):
        copy = buffers.array(2, source, x.size).reshape(x.shape)
        copy[...] = x
        y[...] = np.fft.irfftn(copy.astype(np.complex128), call.lengths, axes, norm="forward")
        copy.view(np.uint8)[...] = PATTERN
    elif call.kind in ("R2C", "D2Z"):
        y[...] = np.fft.rfftn(x.astype(np.float64), axes=axes)
    elif call.forward:
        y[...] = np.fft.fftn(x.astype(np.complex128), axes=axes)
    else:
        y[...] = np.fft.ifftn(x.astype(np.complex128), axes=axes, norm="forward")


FOURIER = Emulation("cufftExec", INVALID, lambda call: 2, _check, _run)
