"""Results in extended precision, and errors against them."""

import numpy as np
import pytest

from benchmarks.cpu.functions.inputs import INPUTS, made
from benchmarks.cpu.functions.numpy_functions import FUNCTIONS
from benchmarks.cpu.functions.references import reference, relative_error

ROWS = {
    "complex": {"op": "fft", "shape": [3, 60], "rank": 1},
    "along an axis": {"op": "fft", "shape": [12, 5], "axis": 0},
    "two dimensions": {"op": "ifft", "shape": [8, 9], "rank": 2},
    "to real": {"op": "irfft", "shape": [4, 10]},
    "f64": {"op": "rfft", "shape": [4, 10], "dtype": "float64"},
}


@pytest.mark.parametrize("name", ROWS)
def test_a_transform_in_extended_precision(name: str) -> None:
    p = ROWS[name]
    inputs = made(name, INPUTS["fft"](p))
    wanted = reference("fft", p, inputs)
    assert wanted is not None and wanted[0].dtype in (np.longdouble, np.clongdouble)
    function = FUNCTIONS["fft"](p)
    assert function is not None
    got = np.asarray(function(*inputs))
    epsilon = np.finfo(inputs[0].dtype).eps
    assert 0 < relative_error([got], wanted) < 4 * epsilon
    assert relative_error([np.conj(got) + 1], wanted) > 0.1


def test_other_rows_have_no_reference() -> None:
    assert reference("gelu", {"shape": [4]}, [np.ones(4, np.float32)]) is None


def test_errors_of_several_results_count_together() -> None:
    wanted = [np.array([3.0, 4.0]), np.array([0.0])]
    assert relative_error([np.array([3.0, 4.0]), np.array([0.5])], wanted) == pytest.approx(0.1)
    assert relative_error([np.zeros(1)], [np.zeros(1)]) == 0
