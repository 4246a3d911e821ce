"""Turns the template's text into a vendor's: names, and the place of imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from xladev import __version__
from xladev.cli.scaffold.names import Names

_Statements = list[ast.stmt]
_CLASS = re.compile(r"(?<![A-Za-z])Npu(?=[A-Z])")
"""The prefix of classes that are not called after the whole template."""


def renamed(text: str, names: Names) -> str:
    """Text, or a path, in which nothing is called after the template any more."""
    for old, new in _table(names):
        text = text.replace(old, new)
    return _CLASS.sub(names.prefix, text)


def _table(names: Names) -> Iterator[tuple[str, str]]:
    """What is replaced by what, in this order: longer spellings before their parts."""
    for words in (("template", "npu"), ("template", "memory")):
        snake = "_".join(words)
        yield f"xladev.platforms.{snake}", names.package
        yield f"xladev/platforms/{snake}", names.package
        yield "".join(w.capitalize() for w in words), names.prefix
        yield snake.upper(), names.platform.upper()
        yield snake, names.platform
        yield "-".join(words), names.dashed
    for phrase in ("the template NPU", "The template NPU", "template NPU", "template driver"):
        yield phrase, names.platform + phrase.partition(" driver")[1]
    yield "Example Vendor", names.vendor
    yield "xladev>=0", f"xladev>={__version__}"
    yield 'kind="npu"', f'kind="{names.kind}"'


def renamed_source(text: str, names: Names) -> str:
    """Python source, renamed; a vendor's own package is imported after xladev's, as sorters do."""
    return sorted_imports(renamed(text, names), names.package)


def sorted_imports(source: str, package: str) -> str:
    """Moves imports of ``package`` to the end of each unbroken run of imports."""
    lines = source.splitlines(keepends=True)
    for run in _runs(ast.parse(source)):
        own = [s for s in run if _is_of(s, package)]
        if not own:
            continue
        ordered = [s for s in run if s not in own] + own
        chunks = ["".join(lines[s.lineno - 1 : s.end_lineno]) for s in ordered]
        start, end = run[0].lineno - 1, run[-1].end_lineno
        lines[start:end] = "".join(chunks).splitlines(keepends=True)
    return "".join(lines)


def _runs(tree: ast.Module) -> Iterator[_Statements]:
    """Import statements that follow one another without a line between them."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        run: _Statements = []
        for statement in body if isinstance(body, list) else []:
            is_import = isinstance(statement, ast.Import | ast.ImportFrom)
            if run and not (is_import and statement.lineno == (run[-1].end_lineno or 0) + 1):
                yield run
                run = []
            if is_import:
                run.append(statement)
        if run:
            yield run


def _is_of(statement: ast.stmt, package: str) -> bool:
    if isinstance(statement, ast.ImportFrom):
        names = [statement.module or ""]
    else:
        names = [a.name for a in statement.names] if isinstance(statement, ast.Import) else []
    return any(name == package or name.startswith(f"{package}.") for name in names)
