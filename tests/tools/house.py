"""Measures how the code is laid out: files per folder, names that occur twice, files on five ways.

python -m tests.tools.house

A way is what somebody follows who wants to understand one thing; its files are those of xladev in
which any function runs on it, imports left out.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from tests.tools.syntax import parse

PACKAGE = Path(__file__).parents[2] / "xladev"
MOST_FILES = 20

TEXT = """HloModule m
ENTRY e { x = f32[4] parameter(0)
  y = f32[4] tanh(x)
  ROOT z = f32[4] add(x, y) }
"""
WRONG = TEXT.replace("y = f32[4] tanh", "y = f32[5] tanh")


def files_per_folder(package: Path = PACKAGE) -> Counter[str]:
    """How many Python files each folder holds."""
    return Counter(f.parent.relative_to(package).as_posix() for f in package.rglob("*.py"))


def names_that_occur_twice(package: Path = PACKAGE) -> dict[str, list[str]]:
    """Public classes that several files define, with these files; platforms' own left out."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        for node in parse(path.read_text("utf-8"), str(path)).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.relative_to(package).as_posix())
    return {name: files for name, files in sorted(found.items()) if len(files) > 1}


@contextmanager
def reached() -> Iterator[set[str]]:
    """The files of xladev in which functions run meanwhile."""
    files: set[str] = set()

    def see(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            files.add(frame.f_code.co_filename)

    inside: set[str] = set()
    sys.setprofile(see)
    try:
        yield inside
    finally:
        sys.setprofile(None)
        root = str(PACKAGE)
        inside.update(f[len(root) + 1 :] for f in files if f.startswith(root))


def _text_to_result() -> None:
    import xladev

    xladev.compile(xladev.parse(TEXT), "cpu")(np.ones(4, np.float32)).numpy()


def _plugin_to_registry() -> None:
    from xladev.runtime.registry import Registry, installed_plugins

    Registry(lambda: list(installed_plugins())).platform("interpreter")


def _new_opcode() -> None:
    import xladev
    from xladev.hlo.evaluator import HloEvaluator

    HloEvaluator().run(xladev.parse(TEXT), np.ones(4, np.float32))


def _array_to_array() -> Callable[[], None]:
    import xladev

    compiled = xladev.compile(xladev.parse(TEXT), "interpreter")
    array = compiled(np.ones(4, np.float32))

    def run() -> None:
        compiled(array).numpy()

    return run


def _error_to_message() -> None:
    import xladev

    try:
        xladev.compile(xladev.parse(WRONG), "cpu")
    except xladev.XladevError as error:
        str(error)


def ways() -> dict[str, int]:
    """How many files each way reaches."""
    found = {}
    for name, way in (
        ("text to result", _text_to_result),
        ("plugin to registry", _plugin_to_registry),
        ("a new opcode", _new_opcode),
        ("array to array", _array_to_array()),
        ("error to message", _error_to_message),
    ):
        way()  # so that nothing is imported on the way that counts
        with reached() as files:
            way()
        found[name] = len(files)
    return found


def main() -> None:
    """Prints all."""
    folders = files_per_folder()
    full = {folder: n for folder, n in folders.most_common() if n > MOST_FILES}
    print(f"{sum(folders.values())} files in {len(folders)} folders; above {MOST_FILES}: {full}")
    twice = names_that_occur_twice()
    print(f"{len(twice)} public classes occur twice: {', '.join(twice)}")
    for name, count in ways().items():
        print(f"{name}: {count} files")


if __name__ == "__main__":
    main()
