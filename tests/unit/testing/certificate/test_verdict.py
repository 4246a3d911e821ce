"""Levels: what reaches one, what stands against it, and that fallbacks are no coverage."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.testing.certificate.samples import (
    ADD,
    CHECK,
    DOT,
    RESULTS,
    by_id,
    suite,
    with_status,
)
from xladev.errors import UsageError
from xladev.testing.certificate.levels import level_of
from xladev.testing.certificate.verdict import coverage, level_reached, objections
from xladev.testing.conformance.status import CaseResult, CaseStatus


def against(level: int, results: tuple[CaseResult, ...], folder: Path) -> list[str]:
    must_pass = suite(folder)
    return list(objections(level_of(level), by_id(results), must_pass, coverage(results)))


def test_coverage_counts_programs_and_work_but_no_checks() -> None:
    found = coverage(RESULTS)
    assert (found.programs_on_device, found.programs) == (1, 2)
    assert (found.work_on_device, found.work) == (8, 32)
    assert "50.0% of programs (1 of 2) and 25.0% of floating-point work" in str(found)


def test_every_case_with_a_right_result_is_counted_once() -> None:
    idle = CaseResult("first_steps::constant", CaseStatus.PASS, tier=1)
    waived = replace(ADD, id="a::waived", status=CaseStatus.WAIVED)
    wrong = (with_status(CHECK, CaseStatus.FAIL), with_status(DOT, CaseStatus.UNSUPPORTED))
    found = coverage([*RESULTS, idle, waived, *wrong])
    assert (found.checks, found.idle, found.programs_on_device, found.programs) == (1, 1, 2, 3)


def test_a_wrong_program_covers_nothing() -> None:
    found = coverage([with_status(ADD, CaseStatus.FAIL), DOT])
    assert (found.programs_on_device, found.work_on_device) == (0, 0)


def test_fallbacks_pass_where_something_ran_on_the_device(tmp_path: Path) -> None:
    assert against(2, RESULTS, tmp_path) == []
    reached = level_reached(by_id(RESULTS), suite(tmp_path), coverage(RESULTS))
    assert reached == level_of(2)


def test_a_run_of_fallbacks_alone_is_level_1(tmp_path: Path) -> None:
    add = CaseResult(ADD.id, CaseStatus.FALLBACK, "add", "f32", 2, host_instructions=1, host_work=8,
                 fallbacks=("a (add) runs on cpu: no compiler",))  # fmt: skip
    results = (CHECK, add, DOT)
    assert against(2, results, tmp_path) == [
        "0.0% of programs ran on the device; the level asks for 1%",
        "0.0% of floating-point work ran on the device; the level asks for 1%",
    ]
    assert level_reached(by_id(results), suite(tmp_path), coverage(results)) == level_of(1)


@pytest.mark.parametrize(
    "status",
    [CaseStatus.FAIL, CaseStatus.ERROR, CaseStatus.UNSUPPORTED, CaseStatus.EXPECTED_FAILURE],
)
def test_a_case_that_does_not_pass_is_named(status: CaseStatus, tmp_path: Path) -> None:
    found = against(1, (with_status(CHECK, status), ADD, DOT), tmp_path)
    assert found == [f"1 case (memory::copies) {status.value}"]


def test_too_few_devices_stand_against_level_6_alone(tmp_path: Path) -> None:
    few = replace(CHECK, status=CaseStatus.UNSUPPORTED, declared=True)
    assert against(1, (few, ADD, DOT), tmp_path) == []
    found = against(6, (replace(few, tier=6),), tmp_path)
    assert "1 case (memory::copies) unsupported" in found


def test_a_case_that_did_not_run_is_named(tmp_path: Path) -> None:
    assert against(2, (CHECK, ADD), tmp_path) == ["1 case (dot::dot-f32) not run"]


def test_nothing_reaches_a_level_without_cases(tmp_path: Path) -> None:
    assert against(3, RESULTS, tmp_path)[0] == (
        "the must-pass list has no case of level 3: nothing shows it"
    )


def test_no_level_is_reached_by_nothing(tmp_path: Path) -> None:
    assert level_reached({}, suite(tmp_path), coverage(())) is None


@pytest.mark.parametrize("number", [0, 7, -1])
def test_there_are_six_levels(number: int) -> None:
    with pytest.raises(UsageError, match="no level"):
        level_of(number)
