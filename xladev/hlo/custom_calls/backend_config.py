"""Reads the configuration of custom calls: MLIR attribute dictionaries, or JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from xladev.errors import EvaluationError
from xladev.hlo.opdef import InstructionView

_ENTRY = re.compile(
    r"""\s*(?:"(?P<quoted>[^"]*)"|(?P<name>[\w.$-]+))\s*=\s*
    (?:"(?P<text>(?:[^"\\]|\\.)*)"|(?P<word>true|false)|(?P<number>[-+0-9][\w.+-]*))
    \s*(?::\s*[\w.]+)?\s*(?:,|$)""",
    re.VERBOSE,
)


def config_of(instruction: InstructionView) -> dict[str, Any]:
    """The configuration as a dictionary; empty where there is none.

    Both forms exist: ``{uplo = 76 : ui8}`` (typed FFI) and ``{"top_k": 4}`` (JSON).

    Raises:
        EvaluationError: the text is neither.
    """
    text: str = instruction.note.backend_config.strip()
    if not text or text == "{}":
        return {}
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return _dictionary(text)
    return found if isinstance(found, dict) else {"value": found}


def _dictionary(text: str) -> dict[str, Any]:
    inner = text[1:-1].strip() if text.startswith("{") and text.endswith("}") else text
    entries: dict[str, Any] = {}
    at = 0
    while at < len(inner):
        match = _ENTRY.match(inner, at)
        if match is None:
            raise EvaluationError(
                "backend_config cannot be read",
                why=f"neither JSON nor an attribute dictionary at {inner[at : at + 30]!r}",
            )
        entries[match["quoted"] or match["name"]] = _value(match)
        at = match.end()
    return entries


def _value(match: re.Match[str]) -> Any:
    if match["text"] is not None:
        return match["text"]
    if match["word"] is not None:
        return match["word"] == "true"
    number = match["number"]
    return float(number) if any(c in number for c in ".eE") else int(number, 0)


def letter(config: dict[str, Any], name: str, default: str) -> str:
    """An option that LAPACK calls a character, such as ``uplo``: given as its code."""
    value = config.get(name, default)
    return chr(value) if isinstance(value, int) else str(value)
