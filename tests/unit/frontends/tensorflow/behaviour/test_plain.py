"""TensorFlow with the plugin, where nobody asks for the device: as without."""

import re

import pytest

from tests.tools.tensorflow_child import environment, library, run_tensorflow, start_tensorflow

pytestmark = pytest.mark.long

PROGRAM = """
import sys, time
LOADS = ('load_library', 'load_pluggable_device_library')
now, entered, loading, loads = time.process_time, 0.0, 0.0, 0
def watch(frame, event, _):
    global entered, loading, loads
    if frame.f_code.co_name not in LOADS:
        return
    if event == 'call':
        entered = now()
    elif event == 'return':
        loading, loads = loading + now() - entered, loads + 1
start = now()
sys.setprofile(watch)
import tensorflow as tf
sys.setprofile(None)
print('loads', loads)
print('share', loading / (now() - start))
print('imported', sorted(m for m in sys.modules if m.split('.')[0] in ('xladev', 'llvmlite')))
x = tf.random.stateless_normal([64, 64], [1, 2])
f = tf.function(lambda x: tf.nn.softmax(x @ x), jit_compile=True)
values = [float(v) for v in (tf.reduce_sum(tf.tanh(x @ x)), f(x)[3, 5])]
v = tf.Variable([1.0, 2.0])
loop = tf.function(lambda n: tf.while_loop(lambda i: i < n, lambda i: i + 1, [0])[0])
print('devices', x.device, f(x).device, v.device, loop(tf.constant(4)).device)
print('values', values)
heavy = ('xladev.compiler', 'xladev.platforms', 'llvmlite')
print('modules', any(m.startswith(heavy) for m in sys.modules))
"""


@pytest.fixture(scope="module")
def with_plugin() -> str:
    """What the program prints, with the plugin installed."""
    return run_tensorflow(PROGRAM)


LIGHT = ["xladev", "xladev.frontends", "xladev.frontends.tensorflow",
         "xladev.frontends.tensorflow.adapter", "xladev.frontends.tensorflow.environment",
         "xladev.frontends.tensorflow.loading"]  # fmt: skip
"""What importing TensorFlow imports of xladev."""


def _said(shown: str, what: str) -> str:
    found = re.search(rf"^{what} (.*)$", shown, re.MULTILINE)
    assert found is not None, shown
    return found[1]


def test_nothing_changes(with_plugin: str) -> None:
    without = run_tensorflow(PROGRAM, None)
    for what in ("devices", "values"):
        assert _said(with_plugin, what) == _said(without, what)
    assert "XLADEV" not in _said(with_plugin, "devices")
    assert _said(with_plugin, "modules") == "False", "a platform was opened"


def test_importing_takes_no_longer(with_plugin: str) -> None:
    """TensorFlow loads plugins in two functions: their share of the import's processor time.

    Both times are of one process, so a busy machine slows both. The plugin takes 0.02 of 5 seconds.
    """
    assert int(_said(with_plugin, "loads")) >= 1, "TensorFlow loads plugins in other functions"
    assert float(_said(with_plugin, "share")) < 0.02
    assert _said(with_plugin, "imported") == str(LIGHT)


def test_the_first_use_opens_the_device() -> None:
    run_tensorflow(
        """
import sys
import tensorflow as tf
assert [d.name for d in tf.config.list_physical_devices('XLADEV')] == ['/physical_device:XLADEV:0']
tf.ones(3) + 1
assert 'xladev.frontends.jax.engine' not in sys.modules
with tf.device('XLADEV:0'):
    y = tf.ones(3) + 1
assert 'XLADEV:0' in y.device and y.numpy().tolist() == [2, 2, 2]
assert 'xladev.frontends.jax.engine' in sys.modules
"""
    )


def test_default_device() -> None:
    shown = run_tensorflow(
        "import tensorflow as tf; print((tf.ones(2) + 1).device, tf.Variable(1.0).device)",
        XLADEV_TF_DEFAULT="1",
    )
    assert shown.count("XLADEV:0") == 2


def test_name_of_the_vendor() -> None:
    run_tensorflow(
        """
import tensorflow as tf
with tf.device('TEMPLATE_NPU:0'):
    y = tf.ones(2) + 1
assert 'TEMPLATE_NPU:0' in y.device, y.device
from xladev.frontends.jax.engine import *
from xladev.runtime.registry import current_registry
assert [p.name for p in current_registry().platforms() if p.devices()]
""",
        XLADEV_TF_PLATFORM="",
        XLADEV_TF_DEVICE="TEMPLATE_NPU",
    )


def test_a_second_copy_stands_back(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("two")
    for name in ("a.so", "b.so"):
        (folder / name).write_bytes(library().read_bytes())
    done = start_tensorflow(
        "import tensorflow as tf\n"
        "with tf.device('XLADEV:0'):\n"
        "    print((tf.ones(2) + 1).numpy(), len(tf.config.list_physical_devices()))",
        TF_PLUGGABLE_DEVICE_LIBRARY_PATH=str(folder),
    )
    assert done.returncode == 0 and "[2. 2.] 2" in done.stdout, done.stderr
    assert "XLADEV is there already" in done.stderr


def test_without_the_pjrt_library_tensorflow_goes_on() -> None:
    missing = environment("cpu")["XLADEV_PJRT_LIBRARY"] + ".missing"
    done = start_tensorflow(
        "import tensorflow as tf\n"
        "print((tf.ones(2) + 1).numpy(), tf.config.list_physical_devices('XLADEV'))",
        XLADEV_PJRT_LIBRARY=missing,
    )
    assert done.returncode == 0 and "[2. 2.] []" in done.stdout, done.stderr
    assert "python -m pip install xladev-pjrt" in done.stderr
