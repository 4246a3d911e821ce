"""JAX's own driver of multi-process tests, on workers of its own and of mpiexec."""

import os
from pathlib import Path

import pytest

from tests.tools.jax_multiprocess import outcomes, run_file

pytest.importorskip("jax")
pytestmark = pytest.mark.long
_SAMPLE = Path(__file__).parents[4] / "tools" / "jax_multiprocess_sample.py"
_CHECKOUT = os.environ.get("XLADEV_JAX_CHECKOUT")


@pytest.mark.parametrize("by_mpi", [False, True], ids=["driver", "mpiexec"])
def test_a_sample(by_mpi, tmp_path):
    found, said = run_file(_SAMPLE, 2, 2, by_mpi=by_mpi, logs=tmp_path)
    assert [(each.passed, each.failed) for each in found] == [(3, 0)] * 2, said


def test_what_unittest_says():
    text = "Ran 9 tests in 1.0s\n\nFAILED (failures=1, errors=2, skipped=3)\n"
    (found,) = outcomes(text)
    assert (found.ran, found.failed, found.skipped, found.passed) == (9, 3, 3, 3)
    assert outcomes("Ran 1 test in 0.1s\n\nOK\n")[0].passed == 1
    assert outcomes("Killed") == []


@pytest.mark.skipif(_CHECKOUT is None, reason="XLADEV_JAX_CHECKOUT names no checkout of JAX")
@pytest.mark.parametrize("file", ["all_reduce_test", "axis_index_test"])
def test_files_of_jax(file, tmp_path):
    found, said = run_file(Path(_CHECKOUT) / f"tests/multiprocess/{file}.py", 2, logs=tmp_path)
    assert len(found) == 2 and not any(each.failed for each in found), said
