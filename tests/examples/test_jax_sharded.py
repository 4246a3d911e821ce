"""The transformer that is cut in several ways: losses are those of one device."""

from pathlib import Path

import pytest

from tests.tools.jax_child import run_jax

pytestmark = pytest.mark.long

TRAIN = Path(__file__).parents[2] / "examples/jax_sharded/train.py"
WAYS = ("data", "tensor", "sequence", "optimiser")


@pytest.mark.parametrize("way", WAYS)
def test_losses_are_those_of_one_device(way: str) -> None:
    code = f"import runpy, sys; sys.argv[1:] = ['--steps', '3', '--ways', {way!r}]; "
    code += f"runpy.run_path({str(TRAIN)!r}, run_name='__main__')"
    shown = run_jax(code, timeout_s=500, XLADEV_CPU_DEVICES="8")
    alone, cut = shown.splitlines()
    assert alone.startswith("one device") and cut.startswith(way)
    losses = [float(word) for word in cut.split()[1:]]
    assert len(losses) == 3 and losses[-1] < losses[0]
