"""Writes the must-pass list of the conformance suite, or says what is out of date.

    python -m tests.tools.must_pass           write tests/conformance/must_pass.txt
    python -m tests.tools.must_pass --check   exit with 1 if it is not what the cases give

A case belongs to the level of its tier. The version on the first line is kept; who changes what a
published list asks for raises it by hand.
"""

import sys

from xladev.errors import FormatError
from xladev.testing.certificate.must_pass import FILE, list_text, read_must_pass
from xladev.testing.conformance.case import load_cases
from xladev.testing.conformance.location import is_case_file, suite_folder


def collected() -> dict[str, int]:
    """Tier by id of every case of the suite."""
    files = sorted(p for p in suite_folder().iterdir() if is_case_file(p))
    return {f"{path.stem}::{case.name}": case.tier for path in files for case in load_cases(path)}


def current_text() -> str:
    """What the file should hold."""
    return list_text(_version(), collected())


def _version() -> str:
    try:
        return read_must_pass(suite_folder()).version
    except FormatError:
        return "1"


def main() -> int:
    """Write or check."""
    path = suite_folder() / FILE
    text = current_text()
    if path.is_file() and path.read_text("utf-8") == text:
        return 0
    if "--check" in sys.argv[1:]:
        print(f"{FILE} is out of date: python -m tests.tools.must_pass")
        return 1
    path.write_text(text, "utf-8")
    print(f"{FILE}: {text.count(chr(10)) - 1} cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
