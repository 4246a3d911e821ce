"""The emulated libraries: which emulation answers which kind of call."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xladev.platforms.cuda.driver.emulated_blas import MATMUL, TRIANGULAR_SOLVE
from xladev.platforms.cuda.driver.emulated_calls import EmulatedCall, Emulation
from xladev.platforms.cuda.driver.emulated_cudnn import CONVOLUTION
from xladev.platforms.cuda.driver.emulated_fft import FOURIER
from xladev.platforms.cuda.driver.emulated_solvers import CHOLESKY, FACTORISATION
from xladev.platforms.cuda.driver.interface import LibraryError
from xladev.platforms.cuda.libraries.calls import LibraryCall
from xladev.platforms.cuda.libraries.solver_calls import SOLVER_KINDS

EMULATIONS: Mapping[str, Emulation] = MappingProxyType(
    {
        "Matmul": MATMUL,
        "Convolution": CONVOLUTION,
        "Fourier": FOURIER,
        "Cholesky": CHOLESKY,
        "TriangularSolve": TRIANGULAR_SOLVE,
        **{kind.__name__: FACTORISATION for kind in SOLVER_KINDS},
    }
)
"""By name of the call's class."""


class EmulatedLibraries:
    """The emulations, by kind of call."""

    def version(self) -> str:
        """That they are emulated."""
        return "emulated libraries"

    def convolution_version(self) -> str:
        """None of its own."""
        return ""

    def refusal(self, call: LibraryCall) -> str:
        """What `prepare` would refuse it with."""
        try:
            EMULATIONS[type(call).__name__].check(call)
        except LibraryError as e:
            return str(e)
        return ""

    def prepare(self, call: LibraryCall, name: str) -> EmulatedCall:
        """See `Libraries.prepare`."""
        emulation = EMULATIONS[type(call).__name__]
        emulation.check(call)
        return EmulatedCall(name, call, emulation)
