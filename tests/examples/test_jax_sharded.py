"""The transformer that is cut in several ways: losses are those of one device, bytes as written."""

import json
from pathlib import Path

import pytest

from benchmarks.sharded_training import PAGE, WAYS, memory_line, theory, traffic_line
from tests.tools.jax_child import run_jax

pytestmark = pytest.mark.long

TRAIN = Path(__file__).parents[2] / "examples/jax_sharded/train.py"


@pytest.mark.parametrize("way", WAYS)
def test_losses_are_those_of_one_device(way: str) -> None:
    code = f"import runpy, sys; sys.argv[1:] = ['--steps', '3', '--ways', {way!r}]; "
    code += f"runpy.run_path({str(TRAIN)!r}, run_name='__main__')"
    shown = run_jax(code, timeout_s=500, XLADEV_CPU_DEVICES="8")
    alone, cut = shown.splitlines()
    assert alone.startswith("one device") and cut.startswith(way)
    losses = [float(word) for word in cut.split()[1:]]
    assert len(losses) == 3 and losses[-1] < losses[0]


@pytest.mark.parametrize("way", WAYS)
def test_devices_receive_and_hold_what_the_page_says(way: str) -> None:
    code = "import json; from benchmarks.sharded_training_child import measured; "
    code += f"print(json.dumps(measured({way!r})))"
    sizes = json.loads(run_jax(code, timeout_s=500, XLADEV_CPU_DEVICES="8"))
    page = PAGE.read_text("utf-8")
    told = "python -m benchmarks.sharded_training --write"
    assert traffic_line(way, sizes) in page, told
    assert sum(sizes["nbytes"].values()) < 1.75 * theory(way, sizes)
    start = memory_line(way, sizes)
    line = next((line for line in page.splitlines() if line.startswith(start)), "")
    assert line, told
    peak = int(line.split("|")[-2].replace(",", ""))
    assert sizes["peak"] <= 1.1 * peak, "a step needs more memory"
