"""A sample of Keras's own tests, with the device as default: other files and tests each commit."""

from pathlib import Path

import pytest

from tests.tools import parts, tensorflow_suite
from tests.tools.tensorflow_child import library, tensorflow_python
from tests.tools.tensorflow_suite import AREAS, TensorFlowSuite

MOST = 30  # of a part
LIMIT_S = 120.0
BAR = 0.98


def _numbers(part: str) -> list[int]:
    """The parts that a run was asked for."""
    if part == "none":
        pytest.skip("no part was asked for")
    return list(range(parts.PARTS)) if part == "all" else list(map(int, part.split(",")))


@pytest.mark.long
def test_sample_of_keras(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Part N has every tenth file of layers, ops and trainers, and `MOST` of its tests: which of
    them changes with every ten commits."""
    library()
    python = tensorflow_python()
    source = tensorflow_suite.keras_source(python)
    files = sorted(path for area in AREAS for path in (source / area).rglob("*_test.py"))
    turn = parts.commits() // parts.PARTS
    counted = failed = 0
    for number in _numbers(parts.chosen(pytestconfig.option.part)):
        out = tmp_path / str(number)
        root = tensorflow_suite.copy_of_keras(source, files[number :: parts.PARTS], out)
        suite = TensorFlowSuite(root, out, "cpu", LIMIT_S, 0, 1, python)
        tensorflow_suite.run(suite, ".", MOST, turn)
        counted += len(tensorflow_suite.counted(suite, "."))
        print(*tensorflow_suite.table(suite, ["."]), sep="\n")
        problems = tensorflow_suite.failures(suite, ["."])
        failed += len(problems)
        print(*(f"{name}\n{r['why']}" for name, r in problems.items()), sep="\n")
    assert counted >= 5
    assert failed <= (1 - BAR) * counted
