"""Each way to compile trains to the same loss, on our platforms and one as it is scaffolded."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.plugins import with_entry_points
from tests.tools.tensorflow_child import ROOT, run_tensorflow

pytestmark = [pytest.mark.long, pytest.mark.rotating]

WHOLE = ("tf.function(jit_compile=True)", "Keras, jit_compile=True", "tf.config.optimizer.set_jit",
         "session, global_jit_level ON_1", "tf.xla.experimental.jit_scope")  # fmt: skip
"""Ways in which the whole step is one program."""


@pytest.fixture(scope="module")
def vendor(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folders of a scaffolded plugin, for PYTHONPATH."""
    folder = tmp_path_factory.mktemp("vendor")
    command = [sys.executable, "-m", "xladev", "new", "my_npu", "--minimal"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
    found = with_entry_points(folder / "my_npu", folder / "metadata")
    return os.pathsep.join(map(str, (folder / "my_npu", found)))


@pytest.mark.parametrize("platform", ["cpu", "template_npu", "my_npu"])
def test_each_way(platform: str, request: pytest.FixtureRequest) -> None:
    paths = [str(ROOT)]
    if platform == "my_npu":
        paths.append(request.getfixturevalue("vendor"))
    path = str(ROOT / "benchmarks/tensorflow_levels.py")
    code = f"import runpy, sys; sys.argv[1:] = ['--steps', '5', '--json']; runpy.run_path({path!r}, run_name='__main__')"  # noqa: E501
    shown = run_tensorflow(code, platform, timeout_s=500, PYTHONPATH=os.pathsep.join(paths))
    rows = json.loads(shown.splitlines()[-1])
    losses = [row["losses"] for row in rows.values()]
    assert len(rows) == 9
    for loss in losses:
        assert loss == pytest.approx(losses[0], rel=1e-4) and loss[1] < loss[0]
    for name in WHOLE:
        assert rows[name]["executables"] == 1, name
    assert rows["operators placed by name"]["executables"] > 10


def test_clusters_are_logged_with_their_sizes(tmp_path: Path) -> None:
    run_tensorflow(
        """
import logging, re, sys
records = []
class Keep(logging.Handler):
    def emit(self, record):
        records.append(record.getMessage())
log = logging.getLogger('xladev')
log.setLevel('INFO')
log.addHandler(Keep())
import tensorflow as tf
tf.config.optimizer.set_jit(True)
@tf.function
def f(x):
    for _ in range(3):
        x = tf.nn.relu(x @ x + 1.0)
    return tf.reduce_sum(x)
with tf.device('XLADEV:0'):
    f(tf.ones([4, 4]))
wanted = re.compile(r'cluster_0.*: a program of \\d+ instructions for cpu')
assert any(map(wanted.match, records)), records
"""
    )
