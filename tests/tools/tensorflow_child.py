"""Programs that use TensorFlow with xladev's device, each in a process of its own.

They need tensorflow-cpu and a C compiler; where one is missing, tests skip and say which.
TensorFlow may be in another Python than that of the tests: XLADEV_TENSORFLOW_PYTHON names it.
"""

import importlib.util
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.tools.c_library import compiled
from tests.tools.jax_child import library as pjrt_library

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "packaging/xladev-tensorflow"
VARIABLE = "XLADEV_TENSORFLOW_PYTHON"
MISSING = "tensorflow is not installed: pip install 'xladev[tensorflow]', or name a Python with it "


@cache
def tensorflow_python() -> str:
    """A Python that has tensorflow and what xladev needs: this one, or XLADEV_TENSORFLOW_PYTHON."""
    named = os.environ.get(VARIABLE, "")
    if not named:
        if importlib.util.find_spec("tensorflow"):
            return sys.executable
        pytest.skip(MISSING + f"with {VARIABLE}")
    ask = "import importlib.util as u; print(all(map(u.find_spec, ('tensorflow', 'llvmlite'))))"
    answer = subprocess.run([named, "-c", ask], capture_output=True, text=True).stdout
    if answer.strip() != "True":
        pytest.skip(f"{VARIABLE}={named} lacks tensorflow or llvmlite")
    return named


def library() -> Path:
    """The plugin, compiled once in a session; or a skip without sources or compiler."""
    return compiled(PACKAGE.name)


def environment(platform: str | None) -> dict[str, str]:
    """The variables of a process that runs TensorFlow with a platform, None: without the plugin."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("XLADEV_TF_", "TF_"))}
    plain = {**kept, "TF_CPP_MIN_LOG_LEVEL": "1", "TF_ENABLE_ONEDNN_OPTS": "0"}
    if platform is None:
        return plain
    return {
        **plain,
        "PYTHONPATH": str(ROOT),
        "XLADEV_PJRT_LIBRARY": str(pjrt_library()),
        "TF_PLUGGABLE_DEVICE_LIBRARY_PATH": str(library()),
        "XLADEV_TF_PLATFORM": platform,
    }


def start_tensorflow(
    code: str, platform: str | None = "cpu", timeout_s: float = 300, **variables: str
) -> subprocess.CompletedProcess[str]:
    """A Python program, run to its end.

    Args:
        code: the program.
        platform: see `environment`.
        timeout_s: after so many seconds it is stopped, and says where it was ten seconds before.
        variables: of its environment.
    """
    dump = f"import faulthandler; faulthandler.dump_traceback_later({timeout_s - 10})\n"
    return subprocess.run(
        [tensorflow_python(), "-c", dump + code],
        env=environment(platform) | variables,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )


def run_tensorflow(
    code: str, platform: str | None = "cpu", timeout_s: float = 300, **variables: str
) -> str:
    """What a program prints; a failure if it does not end well. See `start_tensorflow`."""
    done = start_tensorflow(code, platform, timeout_s, **variables)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return done.stdout
