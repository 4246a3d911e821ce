"""How much of the suite's single-op list generated kernels run, from a report of the suite.

pytest tests/conformance --backend=cuda_emu --report DIR
python -m tests.tools.kernel_share DIR

Products, convolutions, FFT and linear algebra, which libraries may compute, are counted apart. So
are cases that leave nothing for a kernel: collectives, control flow and structure of the SDK.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xladev.testing.conformance.location import suite_folder
from xladev.testing.conformance.single_op import read_single_op

LIBRARY_OPCODES = frozenset({
    "dot", "ragged-dot", "scaled-dot", "convolution", "fft", "cholesky", "triangular-solve",
})  # fmt: skip
LIBRARY_FAMILIES = ("solvers::",)


@dataclass(frozen=True, slots=True)
class KernelShare:
    """Cases of one group.

    Attributes:
        by_kernels: passed, with instructions on the device and none that fell back.
        without: passed, and no instruction needs a kernel.
        fallen_back: ran in part on the host.
        failed: anything else.
    """

    by_kernels: int
    without: int
    fallen_back: int
    failed: int

    @property
    def percent(self) -> float:
        """Of the cases that need kernels."""
        needed = self.by_kernels + self.fallen_back + self.failed
        return 100.0 * self.by_kernels / needed if needed else 100.0

    def __str__(self) -> str:
        return (
            f"{self.by_kernels} by kernels of the device ({self.percent:.1f}%), "
            f"{self.fallen_back} fell back, {self.failed} failed; {self.without} need none"
        )


def share_of(cases: Iterable[Mapping[str, Any]]) -> KernelShare:
    """Counts cases of a report."""
    counts = {"kernels": 0, "without": 0, "fallback": 0, "failed": 0}
    for case in cases:
        counts[_group(case)] += 1
    return KernelShare(counts["kernels"], counts["without"], counts["fallback"], counts["failed"])


def _group(case: Mapping[str, Any]) -> str:
    if case["status"] == "fallback":
        return "fallback"
    if case["status"] != "pass":
        return "failed"
    return "kernels" if case.get("device_instructions") else "without"


def is_of_libraries(case: Mapping[str, Any]) -> bool:
    """True for what libraries may compute."""
    is_solver = case["id"].startswith(LIBRARY_FAMILIES)
    return is_solver or case.get("opcode") in LIBRARY_OPCODES


def main() -> int:
    """Prints both groups; 1 if less than nine tenths of the first run in kernels."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path, help="the folder that --report named")
    data = json.loads((parser.parse_args().report / "conformance.json").read_text())
    listed = read_single_op(suite_folder()).cases
    found = [case for case in data["cases"] if case["id"] in listed]
    kernels = share_of(case for case in found if not is_of_libraries(case))
    libraries = share_of(case for case in found if is_of_libraries(case))
    print(f"{data['backend']}, {len(found)} of {len(listed)} cases of the single-op list")
    print(f"without products, convolutions, FFT and linear algebra: {kernels}")
    print(f"these, by kernels or libraries: {libraries}")
    return int(kernels.percent < 90)


if __name__ == "__main__":
    sys.exit(main())
