"""xladev's own backends are certified like any other: a tenth of the suite per commit.

A hundredth, a part of that tenth, is for `make test`, on `cpu`: to build the suite takes most of
the time.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.async_npu.driver.library import c_compiler
from tests.tools.parts import PARTS, chosen
from tests.tools.plugins import with_entry_points

ROOT = Path(__file__).parents[2]
PLUGIN = "xladev.testing.conformance.plugin"
CUDA = ROOT / "packaging" / "xladev-cuda"
ASYNC = ROOT / "tests" / "async_npu" / "metadata"
LEAST = {"cpu": 240, "interpreter": 240, "template_npu": 100, "cuda_emu": 240, "async_npu": 240}
"""Cases of a tenth that must pass on the device alone."""
HUNDRED = 100
LEAST_SHARE = {"template_npu": 0.85, "cuda_emu": 0.9}
"""Of single-opcode cases, that these must run on their device; all others run all."""


def certified(platform: str, folder: Path, part: str, parts: int) -> dict[str, Any]:
    """The report on one of some parts of the suite, or all of it."""
    portion = f"--portion={part}/{parts}" if part.isdigit() else "--portion=0/1"
    installed = any(e.value == PLUGIN for e in entry_points(group="pytest11"))
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/conformance",
        *([] if installed else ["-p", PLUGIN]),
        f"--backend={platform}", portion, f"--report={folder}",
    ]  # fmt: skip
    paths = (ROOT, *plugins(platform, folder), os.environ.get("PYTHONPATH"))
    search = os.pathsep.join(str(path) for path in paths if path)
    done = subprocess.run(
        command,
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=1500,
        env={**os.environ, "PYTHONPATH": search, "PYTEST_ADDOPTS": ""},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    report: dict[str, Any] = json.loads((folder / "conformance.json").read_text())
    return report


def plugins(platform: str, folder: Path) -> list[Path]:
    """Where the metadata of a platform is that is not installed."""
    if platform == "cuda_emu":
        return [with_entry_points(CUDA, folder / "plugin")]
    return [ASYNC] if platform == "async_npu" else []


@pytest.mark.parametrize("platform", ["cpu", pytest.param("template_npu", marks=pytest.mark.long)])
def test_a_hundredth_of_the_conformance_suite(
    platform: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    part = chosen(request.config.option.part)
    report = certified(platform, tmp_path, part if part.isdigit() else "0", HUNDRED)
    assert_certified(platform, report, LEAST[platform] * PARTS // HUNDRED // 2)


@pytest.mark.long
@pytest.mark.parametrize("platform", LEAST)
def test_a_tenth_of_the_conformance_suite(
    platform: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    if platform == "async_npu" and c_compiler() is None:
        pytest.skip("there is no C compiler for the driver of async_npu")
    part = chosen(request.config.option.part)
    report = certified(platform, tmp_path, part, PARTS)
    assert_certified(platform, report, LEAST[platform])
    if platform in LEAST_SHARE:
        single = report["single_op"]
        assert single["share"] >= LEAST_SHARE[platform], single
    record_property("counted", f"{report['counts']['pass']} conformance cases on {platform}")


def assert_certified(platform: str, report: dict[str, Any], least: int) -> None:
    """Nothing failed, more than ``least`` passed, and none ran on the host that need not."""
    counts = report["counts"]
    assert counts["pass"] > least
    assert counts["fail"] == counts["error"] == 0
    assert not [case for case in report["cases"] if lacks_support(case)]
    if platform not in LEAST_SHARE:
        assert (counts["fallback"], report["single_op"]["share"]) == (0, 1)


def lacks_support(case: dict[str, Any]) -> bool:
    """Whether a case was refused, other than for a framework that is not installed here."""
    absent = "torch" in case.get("tags", ()) and find_spec("torch") is None
    return case["status"] == "unsupported" and not absent
