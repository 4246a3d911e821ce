"""TensorFlow's operators on the device against those on its CPU: alone, and compiled as functions.

`tests/tools/tensorflow_ops.py` has the cases.
"""

import json

import pytest

from tests.tools.tensorflow_child import ROOT, run_tensorflow

pytestmark = [pytest.mark.long, pytest.mark.rotating]

AREAS = ("math", "array", "dynamic", "nn", "linalg", "control", "random")
PARTS = 8


def _compare(area: str, platform: str, part: int, parts: int) -> None:
    path = str(ROOT / "tests/tools/tensorflow_ops.py")
    code = f"import runpy, sys; sys.argv[1:] = [{area!r}, '{part}', '{parts}']; runpy.run_path({path!r}, run_name='__main__')"  # noqa: E501
    found = json.loads(run_tensorflow(code, platform, timeout_s=500).splitlines()[-1])
    assert found["wrong"] == {}
    assert found["count"] or parts > 1


@pytest.mark.parametrize("area", AREAS)
def test_on_cpu(area: str) -> None:
    _compare(area, "cpu", 0, 1)


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("area", AREAS)
def test_on_npu(area: str, part: int) -> None:
    _compare(area, "template_npu", part, PARTS)
