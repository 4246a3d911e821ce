"""The suite's pytest plugin, run as its users run it: in processes of their own."""

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.unit.testing.conformance.installed import installed

ROOT = Path(__file__).parents[4]
PLUGIN = "xladev.testing.conformance.plugin"


@pytest.fixture
def vendor(tmp_path: Path) -> Path:
    """A folder that is an installed distribution with the platform `faulty`."""
    return installed("faulty", tmp_path / "site")


def run(*arguments: str, cwd: Path = ROOT, path: Path | None = None) -> tuple[int, str]:
    """Exit code and output of pytest."""
    found = any(e.value == PLUGIN for e in entry_points(group="pytest11"))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    command += [] if found else ["-p", PLUGIN]
    paths = [str(p) for p in (path, ROOT, os.environ.get("PYTHONPATH")) if p]
    done = subprocess.run(
        [*command, *arguments],
        cwd=cwd,
        text=True,
        timeout=300,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTEST_ADDOPTS": ""},
        check=False,
    )
    return done.returncode, done.stdout


def test_a_project_keeps_its_own_backend_option(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--backend')\n"
    )
    (tmp_path / "test_own.py").write_text(
        "import sys\n\ndef test_own(request):\n"
        "    assert request.config.option.backend == 'mine'\n"
        "    assert 'xladev.client' not in sys.modules\n"
        "    assert 'xladev.testing.conformance.session' not in sys.modules\n"
    )
    code, output = run("-q", "--backend=mine", cwd=tmp_path)
    assert code == 0, output
    assert "1 passed" in output


def ids(output: str) -> list[str]:
    return [line.rpartition("conformance/")[2] for line in output.splitlines() if "::" in line]


@pytest.mark.long
def test_path_and_package_collect_the_same_ids(tmp_path: Path) -> None:
    wanted = "-k popcnt"
    code, by_path = run("-q", "--co", "tests/conformance", wanted)
    assert code == 0, by_path
    code, by_name = run("-q", "--co", "--pyargs", "xladev.conformance", wanted, cwd=tmp_path)
    assert code == 0, by_name
    assert ids(by_path) == ids(by_name)
    assert "elementwise_unary.py::popcnt-s32" in ids(by_path)


@pytest.mark.long
def test_a_single_case_can_be_named() -> None:
    code, output = run(
        "-q", "tests/conformance/elementwise_unary.py::popcnt-s32", "--backend=interpreter"
    )
    assert code == 0, output
    assert "1 passed" in output
    assert "device coverage: 1 of 1" in output


@pytest.mark.long
def test_the_suite_asks_for_a_backend() -> None:
    code, output = run("-q", "tests/conformance")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "--backend=NAME" in output


FAULTS = {
    "elementwise_unary::abs-f32": ("fail", "the backend crashed"),
    "elementwise_unary::negate-f32": ("fail", "the backend hung"),
    "elementwise_unary::floor-f32": ("fail", "the driver said 17"),
    "elementwise_unary::sign-f32": ("fail", "only the last index of dimension 0"),
    "elementwise_unary::ceil-f32": ("fallback", ""),
    "elementwise_unary::not-s32": ("pass", ""),
}


@pytest.mark.long
def test_a_backend_that_goes_wrong_fails_its_cases_and_the_run_goes_on(
    vendor: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report"
    cases = [f"tests/conformance/elementwise_unary.py::{i.partition('::')[2]}" for i in FAULTS]
    code, output = run(
        "-q", *cases, "--backend=dsp", "--case-timeout=6", f"--report={report}", path=vendor
    )
    assert code == pytest.ExitCode.TESTS_FAILED, output
    found = {r["id"]: r for r in json.loads((report / "conformance.json").read_text())["cases"]}
    for case, (status, words) in FAULTS.items():
        assert found[case]["status"] == status, output
        assert words in found[case].get("detail", ""), found[case]
    assert "cannot round up" in found["elementwise_unary::ceil-f32"]["fallbacks"][0]
    assert "xladev run" in found["elementwise_unary::sign-f32"]["reproduce"]
    assert (report / "failures" / "elementwise_unary-sign-f32.hlo").is_file()


@pytest.mark.long
def test_nothing_but_skips_is_no_success(vendor: Path, tmp_path: Path) -> None:
    declared = tmp_path / "declared.toml"
    declared.write_text('[[expected_failure]]\nid = "*::abs-f32"\nreason = "broken"\n')
    case = "tests/conformance/elementwise_unary.py::abs-f32"
    code, output = run("-q", case, "--backend=faulty", f"--waivers={declared}", path=vendor)
    assert code == pytest.ExitCode.TESTS_FAILED, output
    assert "1 xfailed" in output
    assert "nothing was computed" in output


@pytest.mark.long
def test_an_expected_failure_that_passes_is_a_failure(tmp_path: Path) -> None:
    declared = tmp_path / "declared.toml"
    declared.write_text('[[expected_failure]]\nid = "*::not-s32"\nreason = "broken"\n')
    case = "tests/conformance/elementwise_unary.py::not-s32"
    code, output = run("-q", case, "--backend=interpreter", f"--waivers={declared}")
    assert code == pytest.ExitCode.TESTS_FAILED, output
    assert "remove the entry" in output
