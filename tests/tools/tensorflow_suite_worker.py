"""A pytest plugin: a line of JSON when a test of TensorFlow's or Keras's begins and when it ends.

Each line says how many programs the device has executed in the test, and which operators TensorFlow
placed on the host while the device was the default.
"""

import ctypes
import inspect
import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

SINK = "XLADEV_TENSORFLOW_SUITE_LOG"
XLA_DEVICE = "XLADEV_TENSORFLOW_SUITE_XLA_DEVICE"
"""The variable with the device that TensorFlow's tests of XLA devices are told to test."""
HOST_XLA_DEVICE = "XLA_CPU"
_XLA_TYPES = (
    "DT_HALF,DT_FLOAT,DT_DOUBLE,DT_UINT8,DT_QUINT8,DT_INT8,DT_QINT8,DT_INT32,DT_QINT32,DT_INT64,"
    "DT_BOOL,DT_COMPLEX64,DT_COMPLEX128"
)
"""Types that `compiler/tests/build_defs.bzl` says for XLA_CPU."""
_WHY_CHARACTERS = 2000
_PLACED = re.compile(r"Executing op (\w+) in device \S*/device:CPU:0|: \((\w+)\): \S*/device:CPU:0")
_executed: dict[str, int] = {}


@cache
def _counter() -> Any:
    """The function of the PJRT library that counts executions; None where there is no plugin."""
    path = os.environ.get("XLADEV_PJRT_LIBRARY")
    if path is None:
        return None
    function = ctypes.CDLL(path).xladev_num_executions
    function.restype = ctypes.c_long
    return function


def _count() -> int:
    return _counter()() if _counter() else 0


def pytest_collection() -> None:
    """Tells TensorFlow's tests where to run."""
    _unpin_sessions()
    if XLA_DEVICE in os.environ:
        _set_xla_device(os.environ[XLA_DEVICE])


def _set_xla_device(device: str) -> None:
    """Sets the flags of tests of XLA devices, which are below the current folder."""
    from tensorflow import compiler
    from tensorflow.python.eager import context
    from tensorflow.python.platform import flags

    compiler.__path__.append(str(Path("compiler").resolve()))
    from tensorflow.compiler.tests import xla_test

    flags.FLAGS(["", f"--test_device={device}", f"--types={_XLA_TYPES}"])
    if device == HOST_XLA_DEVICE:
        context.context().enable_xla_devices()
        _set_plain_devices(xla_test.XLATestCase)
    else:
        _name_platform(xla_test.XLATestCase)


def _set_plain_devices(case: Any) -> None:
    """Gives tests the CPU's plain device that have it by Bazel's rule."""
    from tensorflow.python.platform import flags

    original = case.__init__

    def init(self: Any, *args: Any) -> None:
        is_plain = _is_plain(Path(inspect.getfile(type(self))))
        flags.FLAGS.test_device = "CPU" if is_plain else HOST_XLA_DEVICE
        original(self, *args)

    case.__init__ = init


def _name_platform(case: Any) -> None:
    """Tests of StableHLO know the names of TensorFlow's devices alone: ours lowers as a CPU."""
    original = case.__init__

    def init(self: Any, *args: Any) -> None:
        original(self, *args)
        if hasattr(self, "testing_platform"):
            self.testing_platform = lambda: "CPU"

    case.__init__ = init


@cache
def _is_plain(test_file: Path) -> bool:
    rules = (test_file.parent / "BUILD").read_text().split("\n)\n")
    named = (r for r in rules if f'srcs = ["{test_file.name}"]' in r)
    return any("use_xla_device = False" in rule for rule in named)


@cache
def _wants_graphs(test_file: Path) -> bool:
    """True for files whose main program turns eager execution off."""
    main = test_file.read_text().partition("if __name__ ==")[2]
    return "disable_eager_execution()" in main


def _unpin_sessions() -> None:
    """Tells sessions of TensorFlow's tests not to pin their graphs to the CPU."""
    import tensorflow as tf
    from tensorflow.python.framework import test_util

    original = test_util.TensorFlowTestCase._constrain_devices_and_set_default

    def anywhere(self: Any, session: Any, use_gpu: bool, force_gpu: bool) -> Any:
        return original(self, session, True, False)

    test_util.TensorFlowTestCase._constrain_devices_and_set_default = anywhere
    tf.debugging.set_log_device_placement(True)


def _write(**fields: object) -> None:
    with Path(os.environ[SINK]).open("a") as file:
        file.write(json.dumps(fields) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _write(test=item.nodeid, state="begin", at=time.time())
    before = _count()
    _executed[item.nodeid] = -before
    if not _wants_graphs(item.path):
        return (yield)
    from tensorflow.python.eager import context

    with context.graph_mode():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    try:
        return (yield)
    finally:
        _executed[item.nodeid] += _count()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        why = "" if report.passed else str(report.longrepr)[-_WHY_CHARACTERS:]
        _write(
            test=report.nodeid, state=report.outcome, seconds=report.duration, why=why,
            executed=max(_executed.get(report.nodeid, 0), 0), on_host=_on_host(report),
        )  # fmt: skip


def _on_host(report: pytest.TestReport) -> dict[str, int]:
    """Operators that TensorFlow said it placed on the CPU, and how often."""
    placed = (one or other for one, other in _PLACED.findall(report.capstderr))
    return Counter(op for op in placed if not op.startswith("_"))  # arguments and results
