"""The runner of Keras's and TensorFlow's tests: which tests count, and where sessions run."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tools import tensorflow_suite
from tests.tools.jax_suite import on_host, results
from tests.tools.tensorflow_child import library, tensorflow_python
from tests.tools.tensorflow_suite import HOST, TensorFlowSuite

SESSIONS = """
from tensorflow.python.framework import test_util
from tensorflow.python.ops import math_ops
from tensorflow.python.platform import test
import numpy as np
class SomeTest(test.TestCase):
    @test_util.run_deprecated_v1
    def testPinnedElsewhere(self):
        with self.session(use_gpu=False):
            self.assertAllEqual(math_ops.tanh(np.zeros(3, 'f')).eval(), np.zeros(3))
    def testNothingRuns(self):
        pass
    def testHost(self):
        import tensorflow as tf
        self.assertAllEqual(tf.strings.length(['ab', 'c']) , [2, 1])
        self.assertAllEqual(tf.tanh([0.0]), [0.0])
"""

XLA_TEST = """
from tensorflow.python.platform import flags
flags.DEFINE_string('test_device', None, '')
flags.DEFINE_string('types', None, '')
import unittest
class XLATestCase(unittest.TestCase):
    def __init__(self, method):
        super().__init__(method)
        self.device = flags.FLAGS.test_device
"""
ON_XLA_DEVICE = """
import tensorflow as tf
from tensorflow.compiler.tests import xla_test
class SomeTest(xla_test.XLATestCase):
    def testDevice(self):
        assert 'XLA' in self.device
        assert 'DT_COMPLEX128' in xla_test.flags.FLAGS.types
        with tf.device(f'device:{self.device}:0'):
            assert self.device in tf.tanh(tf.zeros(3)).device
"""


PLAIN = """
import tensorflow as tf
from tensorflow.compiler.tests import xla_test
class PlainTest(xla_test.XLATestCase):
    def testPlain(self):
        assert self.device in ('CPU', 'XLADEV')
        assert not tf.executing_eagerly()
if __name__ == '__main__':
    tf.compat.v1.disable_eager_execution()
"""
RULES = """
tf_xla_py_strict_test(
    srcs = ["some_test.py"],
)

tf_xla_py_strict_test(
    srcs = ["plain_test.py"],
    use_xla_device = False,
)
"""


def _suite(folder: Path, python: str) -> TensorFlowSuite:
    (folder / "repo").mkdir()
    (folder / "out").mkdir()
    return TensorFlowSuite(folder / "repo", folder / "out", "cpu", 100.0, 0, 1, python)


def test_counted_are_those_that_executed_something(tmp_path: Path) -> None:
    suite = _suite(tmp_path, sys.executable)
    host = dict.fromkeys(("good", "bad", "idle", "crash", "skips"), "passed")
    ours = [
        {"test": "good", "state": "passed", "executed": 3, "on_host": {"Where": 2}},
        {"test": "bad", "state": "failed", "executed": 1, "on_host": {}},
        {"test": "idle", "state": "passed", "executed": 0, "on_host": {"Where": 1}},
        {"test": "crash", "state": "crashed"},
        {"test": "skips", "state": "skipped", "executed": 0},
        {"test": "fails on the host too", "state": "failed", "executed": 2},
    ]
    own = [{"test": test, "state": state} for test, state in host.items()]
    replace(suite, platform=HOST).log("ops").write_text("\n".join(map(json.dumps, own)))
    suite.log("ops").write_text("\n".join(map(json.dumps, ours)))
    assert set(tensorflow_suite.counted(suite, "ops")) == {"good", "bad", "crash"}
    assert set(tensorflow_suite.failures(suite, ["ops"])) == {"bad", "crash"}
    assert on_host(tensorflow_suite.counted(suite, "ops").values()) == {"Where": 1}
    assert list(tensorflow_suite.table(suite, ["ops"]))[-1] == "| all | 6 | 3 | 1 | 33.3 % |"


@pytest.mark.long
@pytest.mark.rotating
def test_sessions_run_on_the_device(tmp_path: Path) -> None:
    library()
    suite = _suite(tmp_path, tensorflow_python())
    (suite.repo / "some_test.py").write_text(SESSIONS)
    tensorflow_suite.run(suite, "some_test")
    found = {name.split("::test")[-1]: r for name, r in results(suite.log("some_test")).items()}
    assert {r["state"] for r in found.values() if r["seconds"] > 0.01} == {"passed"}
    assert found["PinnedElsewhere"]["executed"] > 0
    assert found["NothingRuns"]["executed"] == 0
    assert found["Host"]["executed"] > 0 and "StringLength" in found["Host"]["on_host"]


@pytest.mark.long
@pytest.mark.rotating
def test_xla_tests_are_told_their_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    library()
    suite = _suite(tmp_path, tensorflow_python())
    folder = suite.repo / tensorflow_suite.XLA_TESTS
    folder.mkdir(parents=True)
    (folder / "xla_test.py").write_text(XLA_TEST)
    (folder / "some_test.py").write_text(ON_XLA_DEVICE)
    (folder / "plain_test.py").write_text(PLAIN)
    (folder / "BUILD").write_text(RULES)
    (folder / "other_test.py").write_text("import no_such_module")
    tensorflow_suite.run(suite, tensorflow_suite.XLA_TESTS)
    records = results(suite.log(tensorflow_suite.XLA_TESTS)).values()
    assert [r["state"] for r in records] == ["passed", "passed"]
    assert sorted(r["executed"] > 0 for r in records) == [False, True]
    assert "no_such_module" in capsys.readouterr().err  # what was not collected


def test_what_tensorflow_cannot_compile_does_not_count(tmp_path: Path) -> None:
    suite = _suite(tmp_path, sys.executable)
    lacks = (
        "Detected unsupported operations: Op (No registered 'Op' OpKernel for XLA_CPU_JIT devices"
    )
    rows = [
        {"test": "a", "state": "passed", "executed": 3},
        {"test": "b", "state": "failed", "executed": 3, "why": "wrong numbers"},
        {"test": "c", "state": "failed", "executed": 3, "why": lacks},
    ]
    suite.log("f").write_text("\n".join(map(json.dumps, rows)))
    passing = [{"test": name, "state": "passed"} for name in "abc"]
    replace(suite, platform=HOST).log("f").write_text("\n".join(map(json.dumps, passing)))
    assert set(tensorflow_suite.counted(suite, "f")) == {"a", "b"}
    assert set(tensorflow_suite.failures(suite, ["f"])) == {"b"}
