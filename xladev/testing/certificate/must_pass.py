"""The must-pass list: which cases a level asks for, and what identifies the suite.

`must_pass.txt` is among the files of the suite. Its first line is ``suite VERSION``; each other
line is the number of a level and the id of a case that it and all higher levels ask for.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from xladev.errors import FormatError
from xladev.testing.certificate.levels import LEVELS

FILE = "must_pass.txt"
_HINT = "it comes with the suite: install xladev anew"
_HEAD = re.compile(r"suite (\d+(?:\.\d+)*)")
_LINE = re.compile(r"(\d+) ([a-z0-9_]+::\S+)")


@dataclass(frozen=True, slots=True)
class MustPass:
    """The list.

    Attributes:
        version: of the suite.
        levels: level by id of the case.
        sha256: over the names and contents of the suite's files, this list included.
    """

    version: str
    levels: dict[str, int]
    sha256: str

    def of_level(self, number: int) -> tuple[str, ...]:
        """The ids that a level asks for, in order."""
        return tuple(sorted(i for i, level in self.levels.items() if level <= number))


def read_must_pass(folder: Path) -> MustPass:
    """The list of the suite in a folder.

    Raises:
        FormatError: no such file, or a line that is not of the list.
    """
    path = folder / FILE
    try:
        head, *lines = path.read_text("utf-8").splitlines()
    except (OSError, ValueError) as e:
        raise FormatError(f"cannot read {path}", why=str(e), hint=_HINT) from e
    version = _HEAD.fullmatch(head)
    matches = [_LINE.fullmatch(line) for line in lines]
    bad = [line for line, match in zip(lines, matches, strict=True) if not match]
    if version is None or bad:
        why = f"a line is {(bad or [head])[0]!r}"
        raise FormatError(f"{path} is no must-pass list", why=why, hint=_HINT)
    levels = {match[2]: int(match[1]) for match in matches if match}
    if not set(levels.values()) <= {level.number for level in LEVELS}:
        raise FormatError(f"{path} names a level that there is not", hint=_HINT)
    return MustPass(version[1], levels, suite_sha256(folder))


def suite_sha256(folder: Path) -> str:
    """SHA-256 over names and contents of the suite's files."""
    digest = hashlib.sha256()
    for path in sorted((*folder.glob("*.py"), *folder.glob("*.txt")), key=lambda p: p.name):
        content = path.read_bytes()
        digest.update(f"{path.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def list_text(version: str, levels: dict[str, int]) -> str:
    """The file's text, as `read_must_pass` reads it."""
    rows = sorted((level, case) for case, level in levels.items())
    return "\n".join([f"suite {version}", *(f"{level} {case}" for level, case in rows)]) + "\n"
