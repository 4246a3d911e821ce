"""Refuses a tests/ratchet.toml with a smaller count than any earlier version of the file had.

python -m tests.tools.ratchet            compares with every version in git's history
"""

import argparse
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.tools.counts import RATCHET, read_ratchet

ROOT = RATCHET.parents[1]


def lowered(old: str, new: str) -> list[str]:
    """A sentence for each count that text `new` lowers or drops from `old` without an entry."""
    before, after = read_ratchet(old), read_ratchet(new)
    allowed = {name: int(e["from"]) for name, e in tomllib.loads(new).get("lowered", {}).items()}
    return [
        f"{name} went from {count} to {after.get(name, 'nothing')}; raise it, or say why under "
        f"[lowered.{name}] in tests/ratchet.toml"
        for name, count in before.items()
        if after.get(name, 0) < count and allowed.get(name, 0) < count
    ]


def history(path: Path) -> list[str]:
    """Every committed version of the file's text, newest first."""
    name = path.relative_to(ROOT).as_posix()
    commits = _git("log", "--format=%H", "--diff-filter=AM", "--", name).split()
    return [_git("show", f"{commit}:{name}") for commit in commits]


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Print what was lowered; 1 if anything was."""
    argparse.ArgumentParser(description="refuse lowered counts").parse_args()
    new = RATCHET.read_text("utf-8")
    versions = history(RATCHET)
    found = dict.fromkeys(message for old in versions for message in lowered(old, new))
    for message in found:
        print(message)
    print(
        f"ratchet: {len(read_ratchet(new))} counts against {len(versions)} earlier versions, "
        f"{len(found)} lowered"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
