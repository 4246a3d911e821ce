"""The PyTorch examples learn, compiled by xladev."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.tools.plugins import with_entry_points

pytestmark = pytest.mark.long

EXAMPLES = Path(__file__).parents[2] / "examples"


def output(*words: str, paths: tuple[Path, ...] = ()) -> str:
    found = [*map(str, paths), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, found))}
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True, text=True, timeout=600, check=False, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_digits_are_recognised() -> None:
    said = output(str(EXAMPLES / "torch_digits/train.py"), "--passes", "3", "--platform", "cpu")
    shares = [float(each) for each in re.findall(r"([\d.]+) % of test digits", said)]
    assert shares[-1] > 90, said


def test_digits_are_recognised_on_the_device() -> None:
    words = ("--passes", "3", "--device", "--platform", "template_npu")
    said = output(str(EXAMPLES / "torch_digits/train.py"), *words)
    shares = [float(each) for each in re.findall(r"([\d.]+) % of test digits", said)]
    assert shares[-1] > 90, said


def test_digits_are_recognised_on_a_vendors_new_device(tmp_path: Path) -> None:
    output("-m", "xladev", "new", "my_npu", "--into", str(tmp_path / "my_npu"))
    plugin = with_entry_points(tmp_path / "my_npu", tmp_path / "installed")
    words = ("--passes", "3", "--device", "--platform", "my_npu")
    said = output(
        str(EXAMPLES / "torch_digits/train.py"), *words, paths=(tmp_path / "my_npu", plugin)
    )
    shares = [float(each) for each in re.findall(r"([\d.]+) % of test digits", said)]
    assert shares[-1] > 90, said


def test_a_transformer_learns_its_text() -> None:
    path = str(EXAMPLES / "torch_transformer/train.py")
    said = output(path, "--steps", "100", "--platform", "cpu")
    (loss,) = re.findall(r"last loss ([\d.]+)", said)
    assert float(loss) < 0.6, said
