"""Factors that bring the largest of some numbers near 1, and eigenvalues of huge and tiny ones."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.platforms.cpu.codegen.lapack.test_movement import run
from tests.unit.platforms.cpu.stacks import DTYPES, Stacks, integers, run_stack, target, together
from xladev.codegen.llvm import DOUBLE, FLOAT
from xladev.platforms.cpu.codegen.lapack.scaling import call_find_scale, call_scale

ELEMENTS = {np.float32: FLOAT, np.float64: DOUBLE}
EACH = pytest.mark.parametrize("dtype", ELEMENTS)


def factors_of(numbers: np.ndarray) -> np.ndarray:
    found, element = np.zeros(2, numbers.dtype), ELEMENTS[numbers.dtype.type]
    run(lambda b, a: call_find_scale(b, element, a[0], numbers.size, a[1]), numbers, found)
    return found


@EACH
def test_the_largest_comes_near_one_and_back_exactly(dtype: type) -> None:
    limits = np.finfo(dtype)
    for largest in (limits.max, limits.tiny, limits.smallest_subnormal, 3 * limits.tiny):
        there, back = factors_of(np.array([largest / 2, -largest, 0], dtype))
        assert there * back == 1, largest
        assert limits.eps / 2 <= largest * there < 4, largest


@EACH
@pytest.mark.parametrize("largest", [1.0, 1e-5, 1e11, 1e-11])
def test_ordinary_numbers_are_left_alone(dtype: type, largest: float) -> None:
    assert factors_of(np.array([largest, -largest / 3], dtype)).tolist() == [1, 1]


@EACH
def test_from_which_sizes_on(dtype: type) -> None:
    """Dgeev's smlnum and bignum."""
    limits = np.finfo(dtype)
    least = np.sqrt(limits.tiny) / limits.eps
    for edge, outwards in ((least, dtype(0)), (1 / least, dtype(np.inf))):
        inside = dtype(edge) if outwards else np.nextafter(dtype(edge), dtype(1))
        inside = np.nextafter(inside, dtype(1))
        outside = np.nextafter(np.nextafter(dtype(edge), outwards), outwards)
        assert factors_of(np.array([inside])).tolist() == [1, 1]
        assert factors_of(np.array([outside]))[0] != 1


@EACH
@pytest.mark.parametrize("which", [0, 1])
def test_scale_multiplies_so_many(dtype: type, which: int) -> None:
    numbers, element = np.arange(7, dtype=dtype), ELEMENTS[dtype]
    factors = np.array([4, 0.25], dtype)
    run(lambda b, a: call_scale(b, element, a[0], 5, a[1], which), numbers, factors)
    assert numbers.tolist() == [*(np.arange(5) * factors[which]), 5, 6]


@pytest.mark.parametrize("letter", DTYPES)
@pytest.mark.parametrize("exponent", [-1, 1])
def test_eigenvalues_scale_as_the_matrix_does(letter: str, exponent: int, seed: int) -> None:
    pytest.importorskip("scipy.linalg.lapack")
    s, n = Stacks(letter, seed), 6
    a = s.random(n, n)
    # Not the least numbers: of a power of two in the normal range, all bits come back.
    power = 2.0 ** (exponent * (80 if letter in "sc" else 700))
    complex_type = "c64" if letter in "sc" else "c128"
    square = f"{complex_type}[1,{n},{n}]"
    values = [s.shape(1, n)] * (1 if letter in "cz" else 2)
    result = together(*values, square, square, integers(1))
    call = target(f"lapack_{letter}geev_ffi", "{compute_left = 86 : ui8, compute_right = 86 : ui8}")

    def found(matrix: np.ndarray) -> tuple[np.ndarray, ...]:
        *parts, left, right, info = run_stack(result, call, matrix[None])
        assert info.tolist() == [0]
        return (parts[0] if letter in "cz" else parts[0] + 1j * parts[1], left, right)

    near, far = found(a), found((a * power).astype(s.dtype))
    s.close(far[0] / power, near[0])
    for one, other in zip(near[1:], far[1:], strict=True):
        s.close(one, other)
