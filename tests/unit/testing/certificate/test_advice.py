"""What certify says is next: functions that are missing, or coverage, never what is there."""

from dataclasses import replace

from tests.unit.testing.certificate.samples import ADD, BACKEND, CHECK, DOT, RESULTS, by_id
from xladev.testing.certificate.advice import next_steps
from xladev.testing.certificate.levels import LEVELS, level_of
from xladev.testing.certificate.verdict import coverage
from xladev.testing.conformance.status import CaseResult, CaseStatus


def steps(
    reached: int, *, tier: int, results: tuple[CaseResult, ...] = RESULTS, ran: int = 0
) -> list:
    backend = replace(BACKEND, tier=tier)
    level, last = level_of(reached), level_of(ran or reached)
    return list(next_steps(backend, level, last, by_id(results), coverage(results)))


def many_on_the_host(count: int) -> tuple[CaseResult, ...]:
    return (CHECK, ADD, *(replace(DOT, id=f"dot::{n}", host_work=0) for n in range(count)))


def test_functions_that_are_not_written_are_named() -> None:
    assert steps(2, tier=2) == ["level 3, Fused: write Compiler.pipeline; or Compiler.can_fuse"]
    assert steps(4, tier=4)[:1] == [
        "level 5, Integrated: write Executor.to_dlpack, Executor.from_dlpack, "
        "and set DeviceDescription.dlpack_device_type"
    ]


def test_functions_that_exist_are_not_asked_for_where_coverage_is_missing() -> None:
    found = steps(3, tier=4, results=many_on_the_host(15))
    assert found == [
        "level 4, Asynchronous: 6.2% of programs ran on the device; the level asks for 10%",
        "on the host in 15 programs: no dot",
    ]


def test_both_are_named_where_both_are_missing() -> None:
    found = steps(3, tier=3, results=many_on_the_host(15))
    assert "write Executor.create_stream" in found[0]
    assert "the level asks for 10%" in found[1]


def test_where_nothing_is_known_to_be_missing_the_command_is_named() -> None:
    assert steps(2, tier=6) == [
        "level 3, Fused: its functions are there, so see what its cases say: "
        "xladev certify npu --level 3"
    ]


def test_a_run_of_level_1_says_nothing_of_coverage() -> None:
    (only,) = steps(1, tier=4, results=(CHECK,))
    assert "xladev certify npu --level 2" in only


def test_a_level_that_failed_is_not_recommended_again() -> None:
    failed = (CHECK, ADD, replace(DOT, status=CaseStatus.FAIL))
    assert steps(2, tier=4, results=failed, ran=3) == []


def test_the_reasons_of_a_run_that_all_fell_back_are_told() -> None:
    found = steps(1, tier=2, results=(CHECK, DOT), ran=2)
    assert found[0].startswith("level 2, Compiled: 0.0% of programs")
    assert found[-1] == "on the host in 1 program: no dot"


def test_nothing_is_above_the_highest_level_and_nothing_known_below_the_lowest() -> None:
    assert steps(len(LEVELS), tier=6) == []
    nothing = next_steps(BACKEND, None, level_of(1), by_id(RESULTS), coverage(RESULTS))
    assert list(nothing) == []
