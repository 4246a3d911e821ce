"""Files, folders and modules that documentation, docstrings and comments name exist."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "ROADMAP.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"`([a-z_.][a-z0-9_./-]*(?:\.py|\.md|\.toml|/))`")
LINKED = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
PLATFORMS = tuple(p for p in (ROOT / "xladev" / "platforms").iterdir() if p.is_dir())
PLACES = (ROOT / "xladev", ROOT / "docs", ROOT / "tests", *PLATFORMS, ROOT)
SOURCES = ("xladev", "tests", "benchmarks", "docs", "examples", "packaging")
CODE = sorted(p for folder in SOURCES for p in (ROOT / folder).rglob("*.py"))
MODULE = re.compile(r"`((?:xladev|tests)(?:\.\w+)+)`")
ELSEWHERE = {".../proto/", "jax/_src/lax/linalg.py", "test_x.py"}
"""Names of files of other projects, and of any test."""
MADE = ("xladev_npu/", "xladev_template_npu/")
"""The package that a reader makes."""
NO_MODULES = {"xladev.NAME", "xladev.cache", "xladev.dump", "xladev.plugin", "xladev.torch",
              "xladev.tuning"}  # fmt: skip
"""Names of loggers."""
OPERATORS = re.compile(r"xladev\.(?:(?:gru|lstm|rnn)_steps|states_before)\w*\Z")
"""Operators of torch in a namespace of the same name."""


def missing(text: str, near: Path | None = None) -> list[str]:
    """The paths and modules in code spans of a text that are nowhere in the repository.

    Args:
        text: a page, a docstring or a comment.
        near: the file that it is in; paths may begin in any folder around it.
    """
    prose = FENCED.sub("", text)
    named = {n for n in NAMED.findall(prose) if not n.startswith(("../", *MADE))} - ELSEWHERE
    around = () if near is None else tuple(p for p in near.parents if p.is_relative_to(ROOT))
    paths = {n for n in named if not any(_is_there(place, n) for place in (*PLACES, *around))}
    names = {n for n in MODULE.findall(prose) if not OPERATORS.match(n.removesuffix(".default"))}
    modules = {n for n in names - NO_MODULES if not _is_importable(n)}
    return sorted(paths | modules)


def _is_importable(name: str) -> bool:
    """True for a package, a module, or what one of them defines."""
    first, *rest = name.split(".")
    at = ROOT / first
    while rest and (at / rest[0]).is_dir():
        at /= rest.pop(0)
    if rest and (at / f"{rest[0]}.py").exists():
        at /= f"{rest.pop(0)}.py"
    if not rest:
        return at.exists()
    file = at if at.suffix else at / "__init__.py"
    return file.exists() and re.search(rf"\b{rest[0]}\b", file.read_text("utf-8")) is not None


def prose_of(source: str) -> Iterator[str]:
    """The comments of a file of Python, and its docstrings and texts of attributes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield str(node.value.value)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


@cache
def _is_there(place: Path, name: str) -> bool:
    """True for a path, or for a lone file name wherever it is."""
    if (place / name).exists():
        return True
    return "/" not in name and place != ROOT and any(place.rglob(name))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_exist(page: Path) -> None:
    assert missing(page.read_text("utf-8")) == []


def test_what_code_names_exists() -> None:
    sources = ((file, file.read_text("utf-8")) for file in CODE)
    naming = [(file, text) for file, text in sources if missing(text, file)]
    wrong = [
        (str(file.relative_to(ROOT)), found)
        for file, text in naming
        for prose in prose_of(text)
        if (found := missing(prose, file))
    ]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    prose = FENCED.sub("", page.read_text("utf-8"))
    dead = [link for link in LINKED.findall(prose) if not (page.parent / link).exists()]
    assert dead == []


def test_a_missing_path_is_noticed() -> None:
    text = "`passes/cse.py`, `passes/none.py`, `cse.py`\n```text\n`passes/other.py`\n```\n"
    assert missing(text) == ["passes/none.py"]


def test_a_missing_module_is_noticed() -> None:
    good = "`xladev.passes.cse`, `xladev.passes`, `xladev.errors.counted`, `xladev.cache`"
    bad = "`xladev.passes.none`, `xladev.errors.no_such_name`, `tests.none.at_all`"
    assert missing(good) == []
    assert missing(bad) == sorted(re.findall(r"[\w.]+\w", bad.replace(",", " ")))


def test_comments_and_docstrings_are_read() -> None:
    source = (
        '"""See `passes/none.py`."""\nX = "`passes/text.py`"  # not `passes/other.py`\n'
        'Y = 1\n"""As `xladev.passes.none`."""\n'
    )
    found = [name for text in prose_of(source) for name in missing(text, ROOT / "xladev" / "a.py")]
    assert found == ["passes/none.py", "xladev.passes.none", "passes/other.py"]
