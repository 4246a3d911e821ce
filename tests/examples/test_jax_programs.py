"""JAX programs, with and without libraries on top, do the same on each platform."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tools.jax_child import require_modules, run_jax

pytestmark = pytest.mark.long

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True, slots=True)
class Example:
    """A program, what it needs, and what its last figure must be.

    Attributes:
        path: under examples/.
        arguments: for a short run.
        is_good: of the last number printed.
        modules: what it imports beside jax.
    """

    path: str
    arguments: tuple[str, ...]
    is_good: Callable[[float], bool]
    modules: tuple[str, ...] = ()


PROGRAMS = {
    "jax": Example("jax_digits/train.py", ("--passes", "6"), lambda share: share > 90),
    "flax and optax": Example(
        "jax_flax/train.py", ("--passes", "2"), lambda share: share > 90, ("flax", "optax")
    ),
    "keras": Example("jax_keras/train.py", ("--passes", "5"), lambda share: share > 90, ("keras",)),
    "random and linalg": Example(
        "jax_gaussian_process/fit.py", ("--steps", "40"), lambda error: error < 0.1
    ),
}


@pytest.mark.parametrize("platform", ["xladev_cpu", "template_npu"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program_does_its_job(name: str, platform: str) -> None:
    example = PROGRAMS[name]
    require_modules(*example.modules)
    path, arguments = str(EXAMPLES / example.path), list(example.arguments)
    code = f"import runpy, sys; sys.argv[1:] = {arguments}; runpy.run_path({path!r}, run_name='__main__')"  # noqa: E501
    shown = run_jax(code, platform, timeout_s=500)
    last = re.search(r"([\d.]+)%? on (\w+)\n$", shown)
    assert last is not None and last[2] == platform, shown
    assert example.is_good(float(last[1])), shown
