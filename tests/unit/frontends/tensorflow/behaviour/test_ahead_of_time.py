"""SavedModels as C: what a signature gives in TensorFlow, a program without Python gives too."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.tools.compilers import lacks
from tests.tools.tensorflow_child import ROOT, run_tensorflow, tensorflow_python

pytestmark = [pytest.mark.long, pytest.mark.rotating]

MODEL = """
import numpy as np, tensorflow as tf
class Served(tf.Module):
    def __init__(self):
        self.w = tf.Variable(np.arange(6, dtype='f').reshape(2, 3))
        self.b = tf.Variable([1.0, 2.0, 3.0])
    @tf.function(input_signature=[
        tf.TensorSpec([None, 2], tf.float32, name='x'), tf.TensorSpec([], tf.float32, name='scale'),
        tf.TensorSpec([2], tf.int32, name='unused')])
    def serve(self, x, scale, unused):
        y = x @ self.w
        return {'logits': scale * tf.tanh(y) + self.b, 'best': tf.argmax(y, -1),
                'fixed': tf.constant([7.0, 8.0]), 'same': x, 'bias': self.b}
model = Served()
tf.saved_model.save(model, FOLDER + '/model', signatures=model.serve)
x = np.array([[1, 2], [-3, 0.5], [0, 0], [0.25, -1]], 'f')
x.tofile(FOLDER + '/x')
np.float32(2.5).tofile(FOLDER + '/scale')
np.zeros(2, 'i').tofile(FOLDER + '/unused')
for name, value in model.serve(x, 2.5, np.zeros(2, 'i')).items():
    np.asarray(value).tofile(FOLDER + '/wanted.' + name)
"""
TYPES = {"best": np.int64}


def _aot(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable, "-m", "xladev", "aot", "--saved-model", str(folder / "model"),
        "--signature", "serving_default", "--tensorflow-python", tensorflow_python(),
        "--name", "served", "--out", str(folder / "made"), *options,
    ]  # fmt: skip
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)


def test_a_signature_in_c(tmp_path: Path) -> None:
    if why := lacks("cc"):
        pytest.skip(why)
    run_tensorflow(MODEL.replace("FOLDER", repr(str(tmp_path))), None)
    refused = _aot(tmp_path)
    assert refused.returncode != 0 and "--shape x=SIZES" in refused.stderr
    assert "no signature 'other'" in _aot(tmp_path, "--signature", "other").stderr
    done = _aot(tmp_path, "--shape", "x=4,2")
    assert done.returncode == 0, done.stderr
    made = tmp_path / "made"
    build = [
        "cc", "-I", str(made), str(made / "served_example.c"),
        str(made / "served.o"), "-o", str(made / "run"),
    ]  # fmt: skip
    subprocess.run(build, check=True, timeout=60)
    outputs = ("best", "bias", "fixed", "logits", "same")
    paths = [str(tmp_path / name) for name in ("scale", "unused", "x")]
    subprocess.run([made / "run", *paths, *(made / o for o in outputs)], check=True, timeout=60)
    for name in outputs:
        found, wanted = (
            np.fromfile(path, TYPES.get(name, np.float32))
            for path in (made / name, tmp_path / f"wanted.{name}")
        )
        np.testing.assert_allclose(found, wanted, 1e-6, err_msg=name)


def test_strings_are_refused(tmp_path: Path) -> None:
    run_tensorflow(
        f"""
import tensorflow as tf
f = tf.function(lambda x: {{'n': tf.strings.length(x)}}, input_signature=[
    tf.TensorSpec([2], tf.string, name='x')])
model = tf.Module()
model.f = f
tf.saved_model.save(model, {str(tmp_path / "model")!r}, signatures=f)
""",
        None,
    )
    said = _aot(tmp_path).stderr
    assert "does not compile the signature" in said and "strings" in said
