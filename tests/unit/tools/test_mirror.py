"""The tests of a module are found by its path."""

from pathlib import Path

import pytest

from tests.tools.mirror import strays

ROOT = Path(__file__).parents[3]


def test_tests_mirror_the_code() -> None:
    assert list(strays(ROOT)) == []


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("passes/test_cse.py", True),
        ("passes/test_dce.py", False),
        ("passes/test_algebra.py", True),
        ("passes/algebra/test_sums.py", True),
        ("passes/cse/test_large_programs.py", True),
        ("passes/behaviour/test_dce.py", True),
        ("fusion/behaviour/test_dce.py", False),
        ("tools/test_mirror.py", True),
        ("tools/test_cse.py", False),
        ("test_client.py", True),
        ("test_server.py", False),
        ("behaviour/test_server.py", True),
    ],
)
def test_what_is_for_no_module_is_found(path: str, found: bool, tmp_path: Path) -> None:
    for source in ("xladev/passes/cse.py", "xladev/passes/algebra/sums.py", "xladev/client.py",
                   "tests/tools/mirror.py"):  # fmt: skip
        (tmp_path / source).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / source).write_text("")
    test = tmp_path / "tests" / "unit" / path
    test.parent.mkdir(parents=True, exist_ok=True)
    test.write_text("")
    assert list(strays(tmp_path)) == ([] if found else [path])
