"""Whether TensorFlow sees xladev's device, and if not, why."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from xladev.errors import PluginError
from xladev.frontends.jax.library import library_path
from xladev.frontends.tensorflow.environment import device_type

DISTRIBUTIONS = ("tensorflow", "tensorflow-cpu")
FIRST_MINOR, LAST_MINOR = 19, 21
SUPPORTED = f"TensorFlow 2.{FIRST_MINOR} to 2.{LAST_MINOR} on Python 3.11 and 3.12"
PLUGIN = "tensorflow-plugins/libxladev_tensorflow.so"
_ASK = """
import sys, tensorflow as tf
print("devices", len(tf.config.list_physical_devices(sys.argv[1])))
"""
_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class TensorFlowDiagnosis:
    """What `xladev doctor` says about TensorFlow.

    Attributes:
        version: of TensorFlow.
        device_type: that our device has there.
        devices: how many TensorFlow sees.
        why: why there are none; empty if there are some.
        hint: what to do about it.
    """

    version: str
    device_type: str
    devices: int = 0
    why: str = ""
    hint: str = ""


def diagnose_tensorflow() -> TensorFlowDiagnosis | None:
    """Asks TensorFlow, in a process of its own; None where it is not installed."""
    found = installed_version()
    if found is None:
        return None
    told = _obstacle(found) or _asked()
    if isinstance(told, int):
        return TensorFlowDiagnosis(found, device_type(), devices=told)
    return TensorFlowDiagnosis(found, device_type(), why=told[0], hint=told[1])


def installed_version() -> str | None:
    """The version of TensorFlow here; None without one."""
    for name in DISTRIBUTIONS:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return None


def _obstacle(found: str) -> tuple[str, str] | None:
    """What keeps TensorFlow from it that can be told without starting it, and the way out."""
    minor = re.match(r"2\.(\d+)\.", found)
    if minor is None or not FIRST_MINOR <= int(minor[1]) <= LAST_MINOR:
        return f"the plugin supports {SUPPORTED}", "install one of these"
    if not _plugin_path().is_file():
        return "the plugin is not installed", "python -m pip install xladev-tensorflow"
    try:
        library_path()
    except PluginError as error:
        return f"the plugin needs another library: {error.what}", error.hint or ""
    return None


def _plugin_path() -> Path:
    """Where TensorFlow looks: beside itself."""
    spec = find_spec("tensorflow")
    beside = Path(spec.origin).parents[1] if spec and spec.origin else None
    return (beside or Path(sysconfig.get_path("purelib"))) / PLUGIN


def _asked() -> int | tuple[str, str]:
    """How many devices TensorFlow sees; or why none, with what its plugin said."""
    command = [sys.executable, "-c", _ASK, device_type()]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return f"TensorFlow did not answer within {_TIMEOUT_S} s", "import it by hand"
    count = re.search(r"^devices (\d+)$", done.stdout, re.MULTILINE)
    if count and int(count[1]):
        return int(count[1])
    said = [line for line in done.stderr.splitlines() if line.startswith("xladev: ")]
    last = said[-1] if said else (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
    return last.removeprefix("xladev: "), "import tensorflow by hand shows all that it says"
