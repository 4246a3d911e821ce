"""Tables of opcodes: constants of modules whose keys or members are mostly names of opcodes.

Found by looking, so that a new table is checked without being listed anywhere. A name that the
opset does not have, in a table of names that it has, is an opcode that was misspelt, renamed or
taken away: what the table says of it is never used.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from tests.tools.syntax import parse

FRONT_ENDS = frozenset({"torch"})
"""Packages of frameworks that modules of front ends import when they are themselves imported."""
LEAST = 3
"""Opcodes from which a constant may be a table of them."""
SHARE = 0.6
"""Part of its names that are opcodes from which it is one."""

_QUOTED = re.compile(r"\"([a-z][a-z0-9]*(?:-[a-z0-9]+)*)\"")
_COMPARED = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
_LITERALS = (ast.Constant, ast.Tuple, ast.Set, ast.List)


@dataclass(frozen=True)
class Table:
    """A constant that names opcodes.

    Attributes:
        name: the module's, and its own there.
        unknown: its names that the opset does not have, sorted.
    """

    name: str
    unknown: tuple[str, ...]


def names_in(value: object) -> Collection[str]:
    """The names that a constant holds: keys of a mapping, or members; none of anything else."""
    if not isinstance(value, Mapping | AbstractSet | tuple | list):
        return ()
    return {each for each in value if isinstance(each, str)}


def opcode_tables(modules: Sequence[ModuleType], opset: frozenset[str]) -> Iterator[Table]:
    """The tables that modules assign; what they import is its own module's."""
    for module in modules:
        for name in _assigned(module):
            names = names_in(vars(module).get(name))
            known = opset.intersection(names)
            if len(known) >= LEAST and len(known) >= SHARE * len(names):
                yield Table(f"{module.__name__}.{name}", tuple(sorted({*names} - opset)))


def _assigned(module: ModuleType) -> Iterator[str]:
    """The constants of a module, in the order of its text."""
    for node in parse(Path(str(module.__file__)).read_text("utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from (part.id for part in parts if isinstance(part, ast.Name))


def modules_that_name(root: Path, opset: frozenset[str]) -> list[ModuleType]:
    """The modules of a package whose text has the names of some opcodes, imported.

    Args:
        root: the package's folder.
        opset: names of opcodes.
    """
    found = []
    for path in sorted(root.rglob("*.py")):
        quoted = set(_QUOTED.findall(path.read_text("utf-8")))
        inner = path.relative_to(root.parent).with_suffix("").parts
        if len(quoted & opset) >= LEAST and all(map(str.isidentifier, inner)):
            found += _imported(".".join(inner).removesuffix(".__init__"))
    return found


def _imported(name: str) -> list[ModuleType]:
    """The module; none if it takes a front end's package that is not here (CI has them all)."""
    try:
        return [importlib.import_module(name)]
    except ModuleNotFoundError as missing:
        if missing.name in FRONT_ENDS:
            return []
        raise


def compared_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Names that some ``opcode`` is compared with in a file, each with its line."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Compare) and isinstance(node.ops[0], _COMPARED)):
            continue
        left, right = node.left, node.comparators[0]
        if isinstance(left, ast.Attribute) and left.attr == "opcode":
            for part in ast.walk(right) if isinstance(right, _LITERALS) else ():
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, part.value
