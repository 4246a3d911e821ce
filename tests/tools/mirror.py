"""Where tests of a module are: tests/unit/A/test_B.py, or files in tests/unit/A/B/, for xladev/A/B.

What several modules of a package do together is tested in the folder `behaviour` of that package.
"""

from collections.abc import Iterator
from pathlib import Path

BEHAVIOUR = "behaviour"
ELSEWHERE = {"tools": "tests/tools", "benchmarks": "benchmarks"}
"""Folders of tests/unit whose code is not in xladev."""
_SUFFIXES = (".py", ".c", ".ll")


def strays(root: Path) -> Iterator[str]:
    """Files of tests under ``root/tests/unit`` that are for no module, by their path there."""
    unit = root / "tests" / "unit"
    for path in sorted(unit.rglob("test_*.py")):
        where = path.relative_to(unit)
        if not _is_for_code(root, where):
            yield where.as_posix()


def _is_for_code(root: Path, where: Path) -> bool:
    first, *rest = where.parent.parts or ("",)
    folder = root / ELSEWHERE.get(first, f"xladev/{first}")
    folder = folder.joinpath(*rest)
    if folder.name == BEHAVIOUR:
        return folder.parent.is_dir()
    source = folder / where.stem.removeprefix("test_")
    return _is_module(folder) or _is_module(source) or source.is_dir()


def _is_module(path: Path) -> bool:
    return any(path.with_name(path.name + suffix).is_file() for suffix in _SUFFIXES)
