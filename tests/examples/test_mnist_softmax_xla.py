"""Softmax regression with TensorFlow : losses and accuracy as on TensorFlow's CPU."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.tools.tensorflow_child import ROOT, run_tensorflow

pytestmark = [pytest.mark.long, pytest.mark.rotating]

EXAMPLE = ROOT / "examples" / "mnist_softmax_xla"
PROGRAMS = {
    "session": ("mnist_softmax_xla.py", "--xla"),
    "session, op by op": ("mnist_softmax_xla.py", "--noxla"),
    "function": ("tf_function.py",),
    "keras": ("keras_fit.py",),
}


def _run(
    folder: Path, program: tuple[str, ...], device: str, platform: str
) -> tuple[np.ndarray, float]:
    """Losses and accuracy of 100 steps; files are written to the folder."""
    path, *rest = program
    arguments = [*rest, "--steps", "100", "--losses", str(folder / "losses"), "--device", device]
    code = (
        f"import os, runpy, sys; os.chdir({str(folder)!r}); sys.path.insert(0, {str(EXAMPLE)!r})\n"
        f"sys.argv[1:] = {arguments!r}\n"
        f"runpy.run_path({str(EXAMPLE / path)!r}, run_name='__main__')"
    )
    shown = run_tensorflow(code, platform, XLADEV_CACHE="off")
    assert "not MNIST" in shown
    accuracy = re.search(r"test accuracy ([\d.]+)% on", shown)
    assert accuracy is not None, shown
    return np.loadtxt(folder / "losses"), float(accuracy[1])


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> tuple[np.ndarray, float]:
    """TensorFlow's CPU, one operator at a time."""
    folder = tmp_path_factory.mktemp("cpu")
    return _run(folder, PROGRAMS["session, op by op"], "CPU:0", "cpu")


@pytest.mark.parametrize("platform", ["cpu", "template_npu"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_trains_as_on_tensorflows_cpu(
    name: str, platform: str, wanted: tuple[np.ndarray, float], tmp_path: Path
) -> None:
    losses, accuracy = _run(tmp_path, PROGRAMS[name], "XLADEV:0", platform)
    assert np.abs(losses / wanted[0] - 1).max() < 1e-4
    assert abs(accuracy - wanted[1]) < 0.5 and accuracy > 90
    if name.startswith("session"):
        events = json.loads((tmp_path / "timeline.ctf.json").read_text())["traceEvents"]
        assert any("XLADEV" in str(event.get("args", {}).get("name", "")) for event in events)
        drawn = tmp_path / "hlo_graphs"
        assert list(drawn.glob("*.dot")) and len(list(drawn.glob("*.dot"))) == len(
            list(drawn.glob("*.html"))
        )


def test_mnist_files_are_read(tmp_path: Path) -> None:
    from tests.examples.test_mnist_softmax import write_mnist

    write_mnist(tmp_path, 200, 50)
    arguments = ["--steps", "2", "--data_dir", str(tmp_path), "--device", "CPU:0"]
    code = (
        f"import runpy, sys; sys.path.insert(0, {str(EXAMPLE)!r}); sys.argv[1:] = {arguments!r}\n"
        f"runpy.run_path({str(EXAMPLE / 'tf_function.py')!r}, run_name='__main__')"
    )
    assert "not MNIST" not in run_tensorflow(code)
