"""template_npu is found, opens its device, and computes what the interpreter computes."""

import sys
from pathlib import Path
from subprocess import run

import numpy as np

from xladev.client import compile, load
from xladev.runtime.registry import current_registry
from xladev.testing.random_inputs import random_arguments

PLATFORM = "template_npu"
DENSE = Path(__file__).parents[1] / "examples" / "dense.hlo"


def test_the_plugin_loads() -> None:
    problems = [(p.name, p.error) for p in current_registry().plugins() if p.error]
    assert problems == []
    assert PLATFORM in [p.name for p in current_registry().platforms()]


def test_its_devices_open() -> None:
    assert current_registry().devices(PLATFORM)


def test_a_layer_gives_what_the_interpreter_gives() -> None:
    layer, reference = compile(DENSE, PLATFORM), compile(DENSE, "interpreter")
    arguments = random_arguments(load(DENSE), seed=0)
    got, want = layer(*arguments).numpy(), reference(*arguments).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_level_1_of_the_suite(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "xladev.cli.main", "certify", PLATFORM, "--level", "1"]
    done = run([*command, "--out", str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
