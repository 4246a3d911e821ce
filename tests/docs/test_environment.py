"""Every environment variable that the code reads is in the reference."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"XLADEV_[A-Z_]*[A-Z]")


def test_variables_in_the_code_are_documented() -> None:
    page = (ROOT / "docs" / "reference" / "options.md").read_text("utf-8")
    files = (ROOT / "xladev").rglob("*.py")
    used = {name for f in files for name in NAME.findall(f.read_text("utf-8"))}
    assert used - set(NAME.findall(page)) == set()
