"""The share of generated kernels: what counts, what is counted apart, and when it is too little."""

from tests.tools.kernel_share import is_of_libraries, share_of

PASSED = {"id": "elementwise_unary::abs-f32", "status": "pass", "opcode": "abs"}


def test_cases_are_counted_by_what_ran_them() -> None:
    cases = [
        PASSED | {"device_instructions": 1},
        PASSED | {"device_instructions": 3},
        PASSED,
        PASSED | {"status": "fallback", "device_instructions": 1},
        PASSED | {"status": "fail"},
    ]
    found = share_of(cases)
    assert (found.by_kernels, found.without, found.fallen_back, found.failed) == (2, 1, 1, 1)
    assert found.percent == 50.0
    assert "50.0%" in str(found)


def test_nothing_is_all() -> None:
    assert share_of([]).percent == 100.0


def test_what_libraries_may_compute_is_apart() -> None:
    assert not is_of_libraries(PASSED)
    assert is_of_libraries(PASSED | {"opcode": "dot"})
    assert is_of_libraries({"id": "solvers::qr-f32", "status": "pass", "opcode": "custom-call"})
