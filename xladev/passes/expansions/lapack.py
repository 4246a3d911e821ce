"""Custom calls of LAPACK and BLAS routines, by the names JAX gives them, in plain HLO."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from xladev.hlo import dtype as dt
from xladev.hlo.custom_calls.backend_config import config_of, letter
from xladev.hlo.ir import HloInstruction
from xladev.passes.expansions.cholesky import cholesky_factor
from xladev.passes.expansions.emit import Emitter, Values
from xladev.passes.expansions.triangular_solve import SolveOptions, solve

Routine = Callable[[Emitter, HloInstruction, Values], Values]
"""Results of a custom call, from its operands."""


def _potrf(e: Emitter, call: HloInstruction, operands: Values) -> Values:
    (a,) = operands
    lower = letter(config_of(call), "uplo", "L") == "L"
    found, failed = cholesky_factor(e, a, lower)
    row, column = e.iota(dt.S32, a.shape.dims, -2), e.iota(dt.S32, a.shape.dims, -1)
    kept = e.compare("GE" if lower else "LE", row, column)
    return e.select(kept, found, a), failed


def _trsm(e: Emitter, call: HloInstruction, operands: Values) -> Values:
    config = config_of(call)
    turn = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}
    options = SolveOptions(
        left_side=letter(config, "side", "L") == "L",
        lower=letter(config, "uplo", "L") == "L",
        unit_diagonal=letter(config, "diag", "N") == "U",
        transpose=turn[letter(config, "trans_x", "N")],
    )
    return (solve(e, operands[0], operands[1], options),)


_BY_ROUTINE: Mapping[str, tuple[str, Routine]] = MappingProxyType(
    {"potrf": ("sdcz", _potrf), "trsm": ("sdcz", _trsm)}
)

ROUTINES: Mapping[str, Routine] = MappingProxyType(
    {
        f"lapack_{initial}{name}_ffi": routine
        for name, (initials, routine) in _BY_ROUTINE.items()
        for initial in initials
    }
)
"""Custom-call target -> its expansion."""
