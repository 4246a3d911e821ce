"""What two jaxlibs make of the text that xladev prints, kept so that tests need no jaxlib.

``python -m tests.unit.hlo.text.jaxlib_record VERSION`` asks the jaxlib of that version again (see
`tests/tools/oracle.py` for how it is found) and stores its answers in `data/jaxlib.json`.
"""

import json
import sys
from typing import Any

from tests.tools import oracle
from tests.unit.hlo.text.examples import DATA, all_examples
from xladev.hlo.text import parse_module, print_module

RECORD = DATA / "jaxlib.json"
VERSIONS = ("0.10.2", "0.12.0")
LATEST = VERSIONS[-1]


def load() -> dict[str, dict[str, Any]]:
    """By example: the text printed by xladev, and each version's text or ``{"refused": why}``."""
    stored: dict[str, dict[str, Any]] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return stored


def answer(entry: dict[str, Any], version: str) -> str | dict[str, str]:
    """A version's answer; those equal to the latest version's are stored once."""
    found: str | dict[str, str] = entry.get(version, entry.get(LATEST))
    return found


def record(version: str) -> None:
    """Asks the jaxlib at hand, and stores its answers as those of ``version``."""
    printed = {name: print_module(parse_module(text)) for name, text in all_examples().items()}
    answers = oracle.reprinted(list(printed.values()))
    stored = {name: e for name, e in load().items() if e["printed"] == printed.get(name)}
    for (name, text), said in zip(printed.items(), answers, strict=True):
        entry = stored.setdefault(name, {"printed": text})
        plain = {"refused": _reason(said.why)} if isinstance(said, oracle.Refusal) else said.strip()
        entry[version] = plain
        if version != LATEST and entry.get(LATEST) == plain:
            del entry[version]
    RECORD.write_text(json.dumps(stored, indent=0, sort_keys=True) + "\n")


def _reason(why: str) -> str:
    """The first line that says what is wrong, not where."""
    errors = [line.split("error: ")[1] for line in why.splitlines() if "error: " in line]
    return (errors or ["aborted"])[0].split(". ")[0]


if __name__ == "__main__":
    if sys.argv[1] not in VERSIONS:
        raise SystemExit(f"versions are {', '.join(VERSIONS)}")
    record(sys.argv[1])
