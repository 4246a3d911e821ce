"""Mechanical mutants: which there can be in a file, which are drawn, and how one is made."""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType

from tests.mutants.changes import Change, changes

ROOT = Path(__file__).parents[2]
TARGETS = (
    "xladev/codegen/**/*.py",
    "xladev/platforms/cpu/**/*.py",
    "xladev/platforms/template_npu/codegen/*.py",
    *(f"xladev/platforms/template_npu/{n}.py" for n in ("compiler", "emitter", "support")),
)
"""The CPU's emitters and the template's compiler."""
NOT_RUN = "xladev/codegen/simt/**/*.py"
"""What neither of them runs."""

FAMILIES = (("operator", "name"), ("constant",), ("comparison", "condition", "logic"))
SEED = 20261121
COUNT = 300


@dataclass(frozen=True, slots=True)
class Site:
    """One mechanical mutant, named so that changes elsewhere in its file do not move it.

    Attributes:
        file: path from the root of the repository.
        scope: function that it is in.
        kind: as in `Change`.
        number: among those of its scope and kind.
        before: what the source says.
        after: what it is made to say.
        line: where, today.
    """

    file: str
    scope: str
    kind: str
    number: int
    before: str
    after: str
    line: int = 0

    @property
    def id(self) -> str:
        """What the command line takes."""
        short = self.file.removeprefix("xladev/").removesuffix(".py")
        return f"{short}:{self.scope}:{self.kind}:{self.number}"

    @property
    def platform(self) -> str:
        """The backend that runs the file."""
        return "template_npu" if "/template_npu/" in self.file else "cpu"

    @property
    def module(self) -> str:
        """Dotted name of the file."""
        return self.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    @property
    def is_in_a_body(self) -> bool:
        """False for what runs when the module is imported: tables, classes, default values."""
        return self.line in body_lines(ROOT / self.file)


@cache
def body_lines(path: Path) -> frozenset[int]:
    """Lines of a file that are in the body of a function."""
    functions = (n for n in ast.walk(parsed(path)) if isinstance(n, ast.FunctionDef))
    return frozenset(
        line for f in functions for line in range(f.body[0].lineno, (f.end_lineno or 0) + 1)
    )


@cache
def parsed(path: Path) -> ast.Module:
    """The tree of a file, not to be changed."""
    return ast.parse(path.read_text("utf-8"))


def target_files() -> list[Path]:
    """Files that mutants are drawn from."""
    found = {p for pattern in TARGETS for p in ROOT.glob(pattern)}
    return sorted(found.difference(ROOT.glob(NOT_RUN)))


@cache
def sites_of(path: Path) -> tuple[Site, ...]:
    """All mutants of a file."""
    name = path.relative_to(ROOT).as_posix()
    return tuple(site for site, _ in _numbered(name, parsed(path)))


def _numbered(name: str, tree: ast.Module) -> Iterator[tuple[Site, Change]]:
    seen: Counter[tuple[str, str]] = Counter()
    for c in changes(tree):
        number = seen[c.scope, c.kind]
        seen[c.scope, c.kind] += 1
        yield Site(name, c.scope, c.kind, number, c.before, c.after, c.line), c


def family(site: Site) -> tuple[str, ...]:
    """The one of `FAMILIES` that a mutant is of."""
    return next(kinds for kinds in FAMILIES if site.kind in kinds)


def drawn(count: int = COUNT, seed: int = SEED) -> list[Site]:
    """That many mutants: a third of each family, and each place of it as likely as any other."""
    everything = [site for path in target_files() for site in sites_of(path)]
    draw = random.Random(seed)
    found: list[Site] = []
    for family in FAMILIES:
        members = [site for site in everything if site.kind in family]
        found += draw.sample(members, count // len(FAMILIES))
    return sorted(found, key=lambda s: (s.file, s.line, s.id))


def find(site: Site) -> Site | None:
    """The mutant as the source is now, under the name it has; None if what it changes is gone."""
    path = ROOT / site.file
    known = sites_of(path) if path.is_file() else ()
    at = _position(site, known)
    return None if at is None else replace(site, line=known[at].line)


def _position(site: Site, known: Sequence[Site]) -> int | None:
    """Which one it is: of its number, or the only one of its scope that reads the same."""
    like = [n for n, other in enumerate(known) if _reads_like(other, site)]
    same = [n for n in like if known[n].number == site.number]
    found = same or like
    return found[0] if len(found) == 1 else None


def _reads_like(a: Site, b: Site) -> bool:
    return (a.scope, a.kind, a.before, a.after) == (b.scope, b.kind, b.before, b.after)


def mutated(site: Site) -> CodeType:
    """The file's code with the one change.

    Raises:
        LookupError: the source no longer has it.
    """
    path = ROOT / site.file
    tree = ast.parse(path.read_text("utf-8"))
    numbered = list(_numbered(site.file, tree))
    at = _position(site, [other for other, _ in numbered])
    if at is None:
        raise LookupError(f"{site.id}: the source has no {site.before!r} there any more")
    numbered[at][1].make()
    return compile(tree, str(path), "exec")


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        return self._code


class _Finder(importlib.abc.MetaPathFinder):
    """Gives the mutated code of one module; everything else is found as always."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._code = mutated(site)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._site.module:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None:
            return None
        spec.loader = _Loader(fullname, spec.origin, self._code)
        return spec


def plant(site: Site) -> None:
    """Puts the mutant into this process, which must not have imported its module."""
    if site.module in sys.modules:
        raise ImportError(f"{site.module} is imported already: the mutant would not be seen")
    sys.meta_path.insert(0, _Finder(site))
