"""Programs that use JAX on xladev's platforms, each in a process of its own.

They need jax and a C compiler; where one is missing, tests skip and say which.
"""

import importlib.util
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.tools.c_library import compiled
from tests.tools.plugins import with_entry_points

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "packaging/xladev-pjrt"
BEGIN = "from xladev.frontends.jax import initialize; initialize()\nimport jax, jax.numpy as jnp\n"


@cache
def jax_python() -> str:
    """A Python that has jax and can use this one's packages: this one, or XLADEV_ORACLE_PYTHON."""
    if importlib.util.find_spec("jax"):
        return sys.executable
    named = os.environ.get("XLADEV_ORACLE_PYTHON", "")
    ask = "import jax, sys; print(*sys.version_info[:2])"
    answer = named and subprocess.run([named, "-c", ask], capture_output=True, text=True).stdout
    if not answer or tuple(map(int, answer.split())) != sys.version_info[:2]:
        pytest.skip("jax is not installed: pip install 'xladev[jax]'")
    return named


def require_modules(*names: str) -> None:
    """Skips the test where that Python lacks one of these modules."""
    ask = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
    for name in names:
        if subprocess.run([jax_python(), "-c", ask, name]).returncode:
            pytest.skip(f"{name} is not installed: pip install 'xladev[jax-examples]'")


def library() -> Path:
    """The shim, compiled once in a session; or a skip without sources or compiler."""
    return compiled(PACKAGE.name)


def environment(platform: str) -> dict[str, str]:
    """The variables of a process that runs JAX on a platform."""
    paths = [str(ROOT), *(p for p in sys.path if p.endswith("-packages"))]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "XLADEV_PJRT_LIBRARY": str(library()),
        "JAX_PLATFORMS": platform,
    }


def environment_of_emulated_gpus(folder: Path, devices: int) -> dict[str, str]:
    """The variables of a process of ``cuda_emu``, whose plugin a folder then names."""
    said = environment("cuda_emu,cpu")
    found = with_entry_points(ROOT / "packaging/xladev-cuda", folder)
    return {
        **said,
        "XLADEV_CUDA_EMU_DEVICES": str(devices),
        "PYTHONPATH": os.pathsep.join([str(found), said["PYTHONPATH"]]),
    }


def run_jax(
    code: str, platform: str = "xladev_cpu", timeout_s: float = 240, **variables: str
) -> str:
    """What a program prints; a failure if it does not end well.

    Args:
        code: Python; jax and jnp are imported.
        platform: what JAX_PLATFORMS says.
        timeout_s: after so many seconds it is stopped.
        variables: of its environment.
    """
    done = subprocess.run(
        [jax_python(), "-X", "faulthandler", "-c", BEGIN + code],
        env=environment(platform) | variables,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
