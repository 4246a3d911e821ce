"""Runs a command as an older x86 processor would: other kernels of BLAS, of NumPy, and of LLVM.

    python -m tests.tools.other_processor nehalem pytest -q tests/unit/platforms/cpu

Sums are taken in other orders there, and code in vectors of other widths, so results differ by
rounding: a test that fails has a bound that holds on some machines only.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from llvmlite.binding import get_host_cpu_features

FOLDER = Path(__file__).parent / "processors"
PROCESSORS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "haswell": {
            "OPENBLAS_CORETYPE": "Haswell",
            "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL",
            "TESTS_PROCESSOR": "haswell",
        },
        "nehalem": {
            "OPENBLAS_CORETYPE": "Nehalem",
            "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL",
            "TESTS_PROCESSOR": "nehalem",
        },
        "prescott": {"OPENBLAS_CORETYPE": "Prescott"},  # kernels of SSE; the rest as it is
        "skylake": {"OPENBLAS_CORETYPE": "SkylakeX"},
    }
)
"""Variables by processor. NumPy's warnings, where it was built for other names, are left out."""

NEEDS: Mapping[str, str] = MappingProxyType({"haswell": "avx2", "skylake": "avx512f"})
"""An instruction set that the kernels of a processor need, by processor, as LLVM names it."""


def missing(processor: str) -> str:
    """What this machine lacks to run that processor's kernels; empty if nothing."""
    feature = NEEDS.get(processor, "")
    return "" if not feature or get_host_cpu_features().get(feature) else feature


def variables(processor: str) -> dict[str, str]:
    """The environment of a process that is to think it runs there.

    Raises:
        KeyError: no processor of that name is known.
    """
    paths = (str(FOLDER), os.environ.get("PYTHONPATH"))
    return {
        **os.environ,
        **PROCESSORS[processor],
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONWARNINGS": "ignore:During parsing environment variable",
    }


def main() -> int:
    """Run the command; its exit status."""
    if len(sys.argv) < 3 or sys.argv[1] not in PROCESSORS:
        sys.exit(f"usage: python -m tests.tools.other_processor {{{','.join(PROCESSORS)}}} COMMAND")
    name, *command = sys.argv[1:]
    return subprocess.run(
        [sys.executable, "-m", *command], env=variables(name), check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
