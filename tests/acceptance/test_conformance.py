"""xladev's own backends are certified like any other: a tenth of the suite per commit."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from tests.tools.parts import PARTS, chosen
from tests.tools.plugins import with_entry_points

ROOT = Path(__file__).parents[2]
PLUGIN = "xladev.testing.conformance.plugin"
CUDA = ROOT / "packaging" / "xladev-cuda"
LEAST = {"cpu": 240, "interpreter": 240, "template_npu": 100, "cuda_emu": 240}
"""Cases of a tenth that must pass on the device alone."""
LEAST_SHARE = {"template_npu": 0.85, "cuda_emu": 0.9}
"""Of single-opcode cases, that these must run on their device; all others run all."""


def certified(platform: str, folder: Path, part: str) -> dict[str, Any]:
    """The report on a tenth of the suite, or all of it."""
    portion = f"--portion={part}/{PARTS}" if part.isdigit() else "--portion=0/1"
    installed = any(e.value == PLUGIN for e in entry_points(group="pytest11"))
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/conformance",
        *([] if installed else ["-p", PLUGIN]),
        f"--backend={platform}", portion, f"--report={folder}",
    ]  # fmt: skip
    plugin = with_entry_points(CUDA, folder / "plugin") if platform == "cuda_emu" else None
    paths = (str(ROOT), plugin and str(plugin), os.environ.get("PYTHONPATH"))
    search = os.pathsep.join(filter(None, paths))
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


@pytest.mark.parametrize("platform", LEAST)
def test_a_tenth_of_the_conformance_suite(
    platform: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
) -> None:
    report = certified(platform, tmp_path, chosen(request.config.option.part))
    counts, single = report["counts"], report["single_op"]
    assert counts["pass"] > LEAST[platform]
    assert counts["unsupported"] == counts["fail"] == counts["error"] == 0
    if platform in LEAST_SHARE:
        assert single["share"] >= LEAST_SHARE[platform], single
    else:
        assert (counts["fallback"], single["share"]) == (0, 1)
    record_property("counted", f"{counts['pass']} conformance cases on {platform}")
