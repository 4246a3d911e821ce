"""The same JAX program learns the digits on each platform."""

import re
from pathlib import Path

import pytest

from tests.tools.jax_child import run_jax

PROGRAM = Path(__file__).parents[2] / "examples/jax_digits/train.py"


@pytest.mark.parametrize("platform", ["xladev_cpu", "template_npu"])
def test_digits_are_learned(platform: str) -> None:
    code = f"import runpy, sys; sys.argv[1:] = ['--passes', '6']; runpy.run_path({str(PROGRAM)!r}, run_name='__main__')"  # noqa: E501
    shown = run_jax(code, platform, timeout_s=500)
    found = re.search(r"test accuracy ([\d.]+)% on (\w+)", shown)
    assert found is not None and found[2] == platform
    assert float(found[1]) > 90, shown
