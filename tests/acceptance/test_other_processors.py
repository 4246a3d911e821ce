"""Tests of numerics hold with the kernels that BLAS, NumPy and LLVM pick on other processors.

Sums are taken in another order there. What fails has a bound that one machine gave, not a theorem.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.other_processor import PROCESSORS, missing, variables

ROOT = Path(__file__).parents[2]
FILES = (
    "tests/unit/hlo/custom_calls",
    "tests/unit/hlo/ops/test_contraction.py",
    "tests/unit/hlo/ops/test_linear_algebra.py",
    "tests/unit/passes/expansions/linalg",
    "tests/unit/passes/expansions/test_lapack.py",
    "tests/unit/passes/expansions/test_triangular_solve.py",
    "tests/unit/platforms/cpu/test_library.py",
    "tests/unit/platforms/cpu/codegen/products/test_matmul.py",
    "tests/unit/platforms/cpu/codegen/products/test_convolution_kernel.py",
    "tests/unit/platforms/cpu/test_rows.py",
    "tests/unit/platforms/cpu/codegen/test_vectors.py",
    "tests/unit/platforms/cuda/libraries/test_factorisations.py",
    "tests/unit/platforms/template_npu/behaviour/test_programs.py",
    "tests/unit/codegen/math",
    "tests/unit/codegen/scalar",
)
ONLY_X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="names x86 processors")


def run(processor: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What Python did on that processor; the test skips where this machine cannot be it."""
    if lacks := missing(processor):
        pytest.skip(f"this processor has no {lacks}, which {processor}'s kernels need")
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=variables(processor) | {"PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=900,
    )


@ONLY_X86
@pytest.mark.long
@pytest.mark.rotating
@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("file", FILES)
def test_numerics(processor: str, file: str, seed: int) -> None:
    options = ("-q", "-p", "no:cacheprovider", "--scope=quick", "--part=none", f"--seed={seed}")
    done = run(processor, "-m", "pytest", *options, file)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


TOLD = """
import numpy
from xladev.platforms.cpu.engine import host_cpu, vector_nbytes
print(host_cpu()[0], vector_nbytes())
"""


@ONLY_X86
@pytest.mark.parametrize(
    ("processor", "core", "width"), [("haswell", "Haswell", 32), ("nehalem", "Nehalem", 16)]
)
def test_the_processor_is_another_one(
    processor: str, core: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBLAS_VERBOSE", "2")
    done = run(processor, "-c", TOLD)
    name, _, found = done.stdout.strip().rpartition(" ")
    assert (name, int(found) <= width) == (processor, True), done.stderr
    assert f"Core: {core}" in done.stderr
