"""Which lines of the backends each case of the suite runs: a mutant meets those cases first.

    python -m tests.mutants map          runs the whole suite twice, traced; kept in .cache/mutants

A map that is older than the source gives a worse order of cases, never a wrong verdict.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

from tests.mutants.sites import ROOT, Site, body_lines, parsed, target_files

CACHE = ROOT / ".cache" / "mutants"
PLATFORMS = ("cpu", "template_npu")
BATCH = 150
GOOD = ("pass", "fallback")


class Tracer:
    """Collects lines of the target files while something runs."""

    def __init__(self) -> None:
        self._names = {str(p): p.relative_to(ROOT).as_posix() for p in target_files()}
        self._seen: dict[CodeType, set[int]] = {}

    def during(self, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Runs it, threads included."""
        self._seen = {}
        sys.settrace(self._call)
        threading.settrace(self._call)
        try:
            return work()
        finally:
            sys.settrace(None)
            threading.settrace(None)

    def taken(self) -> dict[str, list[int]]:
        """Lines by file."""
        found: dict[str, set[int]] = {}
        for code, lines in self._seen.items():
            found.setdefault(self._names[code.co_filename], set()).update(lines)
        return {name: sorted(lines) for name, lines in found.items()}

    def _call(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        if code.co_filename not in self._names or not code.co_flags & inspect.CO_OPTIMIZED:
            return None  # another file, or the body of a module or class
        seen = self._seen.get(code)
        if seen is None:
            seen = self._seen[code] = set()
        add = seen.add
        add(frame.f_lineno)

        def line(frame: FrameType, event: str, argument: object) -> Any:
            add(frame.f_lineno)
            return line

        return line


@dataclass(frozen=True)
class LineMap:
    """What each case of the suite does on one platform.

    Attributes:
        cases: ids of the cases that pass on the unchanged backend.
        opcodes: what each is about; its file where it is about no single opcode.
        seconds: what judging each took.
        on_device: False where some of it ran on the host.
        lines: "file:line" of the columns of `ran`.
        ran: cases by lines.
    """

    cases: tuple[str, ...]
    opcodes: tuple[str, ...]
    seconds: tuple[float, ...]
    on_device: tuple[bool, ...]
    lines: tuple[str, ...]
    ran: np.ndarray[tuple[int, int], np.dtype[np.bool_]]

    @cached_property
    def _column(self) -> dict[str, int]:
        return {name: n for n, name in enumerate(self.lines)}

    def covering(self, site: Site) -> list[int]:
        """Numbers of the cases that run a mutant's line.

        What a module does when it is imported belongs to no case: then of those that run a line
        where what the line defines is named, or else any line of the file.
        """
        if site.is_in_a_body:
            return self._running([f"{site.file}:{site.line}"])
        for names in _uses(site):
            found = self._running(names)
            if found:
                return found
        return self._running([n for n in self.lines if n.startswith(f"{site.file}:")])

    def _running(self, names: Iterable[str]) -> list[int]:
        columns = [self._column[name] for name in names if name in self._column]
        return [int(n) for n in np.flatnonzero(self.ran[:, columns].any(axis=1))]


def _uses(site: Site) -> Iterator[set[str]]:
    """Lines of functions that name what a mutant's statement at the top of its file defines.

    Then lines that name what is made of it at the top of some file, and so on.
    """
    tree = parsed(ROOT / site.file)
    names = {name for node in tree.body if _holds(node, site.line) for name in _names(node)}
    known: set[str] = set()
    while names - known:
        pattern = re.compile(rf"\b({'|'.join(map(re.escape, names - known))})\b")
        known |= names
        used: set[str] = set()
        for path in target_files():
            lines, tops = _mentions(path, pattern)
            lines += [n for node in tops for n in _called_bodies(path, node)]
            used |= {f"{path.relative_to(ROOT).as_posix()}:{n}" for n in lines}
            names |= {name for node in tops for name in _names(node)}
        yield used


def _called_bodies(path: Path, node: ast.stmt) -> list[int]:
    """Lines of the file's functions that a statement at its top calls to make its table."""
    calls = (n.func for n in ast.walk(node) if isinstance(n, ast.Call))
    called = {f.id for f in calls if isinstance(f, ast.Name)}
    functions = (f for f in parsed(path).body if isinstance(f, ast.FunctionDef))
    spans = ((f.body[0].lineno, f.end_lineno or 0) for f in functions if f.name in called)
    return [n for first, last in spans for n in range(first, last + 1)]


def _mentions(path: Path, pattern: re.Pattern[str]) -> tuple[list[int], list[ast.stmt]]:
    """Lines of functions that match, and statements outside of functions that do."""
    found = [n for n, t in enumerate(path.read_text("utf-8").splitlines(), 1) if pattern.search(t)]
    bodies = body_lines(path)
    outside = [n for n in found if n not in bodies]
    tops = [x for x in parsed(path).body if any(_holds(x, n) for n in outside)]
    return [n for n in found if n in bodies], tops


def _holds(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _names(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def source_digest() -> str:
    """Tells whether a map is of the source as it is."""
    digest = hashlib.sha256()
    for path in target_files():
        digest.update(path.read_bytes())
    return digest.hexdigest()


def map_path(platform: str) -> Path:
    """Where a platform's map is kept."""
    return CACHE / f"lines-{platform}.npz"


def known_results(platform: str) -> list[dict[str, Any]]:
    """What `save_map` was given, if the source has not changed since; else nothing."""
    if not map_path(platform).is_file():
        return []
    known, source = _read(platform)
    if source != source_digest():
        return []
    found: list[dict[str, Any]] = []
    for row, name in enumerate(known.cases):
        lines: dict[str, list[int]] = {}
        for column in np.flatnonzero(known.ran[row]):
            file, _, number = known.lines[column].rpartition(":")
            lines.setdefault(file, []).append(int(number))
        status = "pass" if known.on_device[row] else "fallback"
        found.append({
            "id": name, "opcode": known.opcodes[row], "seconds": known.seconds[row],
            "status": status, "lines": lines,
        })  # fmt: skip
    return found


def save_map(platform: str, results: Sequence[dict[str, Any]]) -> None:
    """Writes what a traced run of the suite gave."""
    good = [r for r in results if r["status"] in GOOD and "lines" in r]
    names = sorted({f"{f}:{n}" for r in good for f, lines in r["lines"].items() for n in lines})
    column = {name: n for n, name in enumerate(names)}
    ran = np.zeros((len(good), len(names)), np.bool_)
    for row, result in enumerate(good):
        for file, lines in result["lines"].items():
            ran[row, [column[f"{file}:{n}"] for n in lines]] = True
    facts = {
        "source": source_digest(),
        "cases": [r["id"] for r in good],
        "opcodes": [r.get("opcode") or r["id"].partition("::")[0] for r in good],
        "seconds": [r["seconds"] for r in good],
        "on_device": [r["status"] == "pass" for r in good],
        "lines": names,
    }
    CACHE.mkdir(parents=True, exist_ok=True)
    data = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    np.savez_compressed(map_path(platform), facts=data, ran=np.packbits(ran, axis=1))


def load_map(platform: str) -> LineMap:
    """The map, with a word if the source has changed since.

    Raises:
        FileNotFoundError: none was made.
    """
    known, source = _read(platform)
    if source != source_digest():
        print(f"the map of {platform} is older than the source: python -m tests.mutants map")
    return known


def _read(platform: str) -> tuple[LineMap, str]:
    """A map, and what it is a map of."""
    with np.load(map_path(platform)) as stored:
        facts = json.loads(stored["facts"].tobytes())
        ran = np.unpackbits(stored["ran"], axis=1, count=len(facts["lines"])).astype(np.bool_)
    names = ("cases", "opcodes", "seconds", "on_device", "lines")
    return LineMap(**{name: tuple(facts[name]) for name in names}, ran=ran), facts["source"]
