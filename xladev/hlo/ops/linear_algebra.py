"""Factorisations, solvers and Fourier transforms."""

from __future__ import annotations

from xladev.hlo.opdef import Attr, AttrKind, OpDef, Tolerance

_SOLVE = "triangular_solve_options."


OPS: tuple[OpDef, ...] = (
    OpDef(
        "cholesky",
        1,
        "Triangular factor of symmetric positive-definite matrices.",
        attrs=(Attr("lower", AttrKind.BOOL, default=False, proto="cholesky_options.lower"),),
        category="linalg",
        tolerance=Tolerance.SOLVER,
    ),
    OpDef(
        "triangular-solve",
        2,
        "Solves with triangular matrices.",
        attrs=(
            Attr("left_side", AttrKind.BOOL, default=False, proto=_SOLVE + "left_side"),
            Attr("lower", AttrKind.BOOL, default=False, proto=_SOLVE + "lower"),
            Attr("unit_diagonal", AttrKind.BOOL, default=False, proto=_SOLVE + "unit_diagonal"),
            Attr(
                "transpose_a", AttrKind.WORD, default="NO_TRANSPOSE", proto=_SOLVE + "transpose_a"
            ),
        ),
        category="linalg",
        tolerance=Tolerance.SOLVER,
    ),
    OpDef(
        "fft",
        1,
        "Discrete Fourier transform: FFT, IFFT, RFFT, IRFFT.",
        attrs=(
            Attr("fft_type", AttrKind.WORD, required=True),
            Attr("fft_length", AttrKind.INTS, required=True),
        ),
        category="linalg",
        tolerance=Tolerance.SOLVER,
    ),
)
