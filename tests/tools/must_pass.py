"""Writes the lists of the conformance suite, or says which are out of date.

    python -m tests.tools.must_pass           write must_pass.txt and single_op.txt
    python -m tests.tools.must_pass --check   exit with 1 if they are not what the cases give

A case belongs to the level of its tier. The version on the first line is kept; who changes what a
published list asks for raises it by hand.
"""

import sys
from collections.abc import Callable
from functools import cache

from xladev.errors import FormatError
from xladev.testing.certificate import must_pass
from xladev.testing.conformance import single_op
from xladev.testing.conformance.case import AnyCase, load_cases
from xladev.testing.conformance.location import is_case_file, suite_folder


@cache
def collected() -> dict[str, AnyCase]:
    """Every case of the suite by id."""
    files = sorted(p for p in suite_folder().iterdir() if is_case_file(p))
    return {f"{path.stem}::{case.name}": case for path in files for case in load_cases(path)}


def must_pass_text() -> str:
    """What must_pass.txt should hold."""
    version = _version(lambda: must_pass.read_must_pass(suite_folder()).version)
    return must_pass.list_text(version, {i: case.tier for i, case in collected().items()})


def single_op_text() -> str:
    """What single_op.txt should hold."""
    version = _version(lambda: single_op.read_single_op(suite_folder()).version)
    return single_op.list_text(version, collected())


LISTS: dict[str, Callable[[], str]] = {
    must_pass.FILE: must_pass_text,
    single_op.FILE: single_op_text,
}
"""What each file should hold."""


def _version(read: Callable[[], str]) -> str:
    try:
        return read()
    except FormatError:
        return "1"


def main() -> int:
    """Write or check."""
    stale = [name for name, text in LISTS.items() if _present(name) != text()]
    for name in stale:
        if "--check" in sys.argv[1:]:
            print(f"{name} is out of date: python -m tests.tools.must_pass")
        else:
            (suite_folder() / name).write_text(LISTS[name](), "utf-8")
            print(f"{name}: {_present(name).count(chr(10)) - 1} cases")
    return 1 if stale and "--check" in sys.argv[1:] else 0


def _present(name: str) -> str:
    path = suite_folder() / name
    return path.read_text("utf-8") if path.is_file() else ""


if __name__ == "__main__":
    sys.exit(main())
