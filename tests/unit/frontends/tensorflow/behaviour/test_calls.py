"""The benchmark of calls runs on our platforms, and both devices give the same results there."""

import json

import pytest

from tests.tools.tensorflow_child import ROOT, run_tensorflow

pytestmark = [pytest.mark.long, pytest.mark.rotating]

COUNTS = {"operator": 8, "jitted": 4, "step": 2}
PATH = str(ROOT / "benchmarks/tensorflow_calls.py")


@pytest.mark.parametrize("kind", COUNTS)
def test_both_devices_are_measured(kind: str) -> None:
    """The benchmark itself compares the results of the devices, to 1e-4."""
    arguments = ["--only", kind, "--rounds", "1", "--json"]
    code = f"import runpy, sys; sys.argv[1:] = {arguments}; runpy.run_path({PATH!r}, run_name='__main__')"  # noqa: E501
    rows = json.loads(run_tensorflow(code, timeout_s=500).splitlines()[-1])["rows"]
    assert len(rows) == COUNTS[kind] and {row["kind"] for row in rows} == {kind}
    for row in rows:
        assert row["ratio"] == pytest.approx(row["xladev_us"] / row["tensorflow_us"])
        assert row["xladev_cpu_us"] > 0 and row["tensorflow_cpu_us"] > 0, row["name"]
