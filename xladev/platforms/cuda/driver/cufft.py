"""cuFFT by ctypes: plans of batched transforms over the last dimensions."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Mapping
from math import prod
from types import MappingProxyType

from xladev.platforms.cuda.driver.found import loaded
from xladev.platforms.cuda.driver.interface import LibraryError
from xladev.platforms.cuda.libraries.calls import Fourier

_KINDS: Mapping[str, int] = MappingProxyType(
    {"C2C": 0x29, "R2C": 0x2A, "C2R": 0x2C, "Z2Z": 0x69, "D2Z": 0x6A, "Z2D": 0x6C}
)
_FORWARD, _INVERSE = -1, 1


class Transform:
    """A plan; destroyed with the last reference. Its memory is the library's own.

    Raises:
        LibraryError: the library is missing, or refuses the plan.
    """

    def __init__(self, call: Fourier) -> None:
        self._library = loaded("cufft")
        self._call = call
        self._plan = ctypes.c_int()
        rank = len(call.lengths)
        lengths = (ctypes.c_int * rank)(*call.lengths)
        into, out = (ctypes.c_int(prod(n)) for n in self._sides())
        one, none = ctypes.c_int(1), None
        self._do(
            "cufftPlanMany", ctypes.byref(self._plan), ctypes.c_int(rank), lengths,
            none, one, into, none, one, out,
            ctypes.c_int(_KINDS[call.kind]), ctypes.c_int(call.batch),
        )  # fmt: skip
        weakref.finalize(self, self._library.cufftDestroy, self._plan).atexit = False

    def _sides(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Dimensions of one input and one output."""
        lengths, short = self._call.lengths, self._call.shortened
        is_in_short = self._call.kind in ("C2R", "Z2D")
        is_out_short = self._call.kind in ("R2C", "D2Z")
        return short if is_in_short else lengths, short if is_out_short else lengths

    def enqueue(self, source: int, target: int, stream: int) -> None:
        """Enqueues the transforms on a CUDA stream.

        Raises:
            LibraryError: the library refuses them.
        """
        self._do("cufftSetStream", self._plan, ctypes.c_void_p(stream))
        addresses = ctypes.c_void_p(source), ctypes.c_void_p(target)
        kind = self._call.kind
        if kind in ("C2C", "Z2Z"):
            sign = _FORWARD if self._call.forward else _INVERSE
            self._do(f"cufftExec{kind}", self._plan, *addresses, ctypes.c_int(sign))
        else:
            self._do(f"cufftExec{kind}", self._plan, *addresses)

    def _do(self, function: str, *arguments: object) -> None:
        status = getattr(self._library, function)(*arguments)
        if status:
            raise LibraryError(function, f"CUFFT status {status}")
