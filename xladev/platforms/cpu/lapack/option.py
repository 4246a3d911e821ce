"""The option ``cpu.lapack``: whether programs may call LAPACK."""

from __future__ import annotations

from xladev.compiler.options import CompileOptions
from xladev.errors import OptionError

LAPACK_AUTO, LAPACK_OFF = "auto", "off"
LAPACK_DOC = (
    "whether LAPACK may be called: where SciPy is installed and it is faster (auto), or off"
)


def wants_lapack(options: CompileOptions) -> bool:
    """Whether the options allow it.

    Raises:
        OptionError: another value than ``auto`` or ``off``.
    """
    value = options.extra("cpu", "lapack", LAPACK_AUTO)
    if value not in (LAPACK_AUTO, LAPACK_OFF):
        raise OptionError(
            f"option cpu.lapack is {value!r}",
            why=f"it must be {LAPACK_AUTO} or {LAPACK_OFF}",
            hint="leave it unset for LAPACK where it is faster",
        )
    return value == LAPACK_AUTO
