"""A backend that leaks, ends the process, or breaks in any of its functions: the run says so."""

import json
from pathlib import Path

import pytest

from tests.unit.testing.conformance.installed import installed
from tests.unit.testing.conformance.test_plugin import run

FAULTS = {
    "elementwise_unary::not-s32": "",
    "elementwise_unary::abs-f32": "leaked 2000 bytes of device memory",
    "elementwise_unary::negate-f32": "fatal: driver error 5",
    "elementwise_unary::round-nearest-even-f32": "the backend crashed: killed by SIGABRT",
    "elementwise_unary::floor-f32": "the tiler divided by zero",
    "elementwise_unary::ceil-f32": "the backend hung",
    "elementwise_unary::sign-f32": "the backend crashed: exited with code 0",
    "elementwise_unary::cosine-f32": "no room for code",
    "elementwise_unary::popcnt-s32": "no such opcode",
    "elementwise_unary::not-s8": "",
}


@pytest.fixture
def vendor(tmp_path: Path) -> Path:
    """A folder that is an installed distribution with the platform `leaky`."""
    return installed("leaky", tmp_path / "site")


@pytest.mark.long
def test_each_fault_fails_its_own_case(vendor: Path, tmp_path: Path) -> None:
    report = tmp_path / "report"
    cases = [f"tests/conformance/elementwise_unary.py::{i.partition('::')[2]}" for i in FAULTS]
    code, output = run(
        "-q", *cases, "--backend=leaky", "--case-timeout=20", f"--report={report}", path=vendor
    )
    assert code == pytest.ExitCode.TESTS_FAILED, output
    found = {r["id"]: r for r in json.loads((report / "conformance.json").read_text())["cases"]}
    assert set(found) == set(FAULTS)
    for case, words in FAULTS.items():
        assert found[case]["status"] == ("fail" if words else "pass"), (case, output)
        assert words in found[case].get("detail", ""), found[case]
