"""What a mechanical mutant changes: one operator, constant or condition of a syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

Table = Mapping[type, type]
Literal = bool | int | float | str

_ARITHMETIC: Table = MappingProxyType(
    {
        ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
        ast.Div: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.LShift: ast.RShift,
        ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr,
    }
)  # fmt: skip
_COMPARISON: Table = MappingProxyType(
    {
        ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
        ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn,
        ast.NotIn: ast.In,
    }
)  # fmt: skip
_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "add": "sub", "sub": "add", "mul": "add", "fadd": "fsub", "fsub": "fadd", "fmul": "fdiv",
        "fdiv": "fmul", "fneg": "fabs", "fabs": "fneg", "udiv": "sdiv", "sdiv": "udiv",
        "urem": "srem", "srem": "urem", "shl": "lshr", "lshr": "ashr", "ashr": "lshr", "and": "or",
        "or": "and", "xor": "or", "and_": "or_", "or_": "and_", "eq": "ne", "ne": "eq",
        "slt": "sle", "sle": "slt", "sgt": "sge", "sge": "sgt", "ult": "ule", "ule": "ult",
        "ugt": "uge", "uge": "ugt", "olt": "ole", "ole": "olt", "ogt": "oge", "oge": "ogt",
        "oeq": "une", "une": "oeq", "ord": "uno", "uno": "ord", "smin": "smax", "smax": "smin",
        "umin": "umax", "umax": "umin", "min": "max", "max": "min", "LT": "LE", "LE": "LT",
        "GT": "GE", "GE": "GT", "EQ": "NE", "NE": "EQ", "multiply": "add", "subtract": "add",
        "maximum": "minimum", "minimum": "maximum", "any": "all", "all": "any",
    }
)  # fmt: skip
"""Operators that emitters spell as names: methods of a builder, LLVM's words, opcodes."""


@dataclass(frozen=True, slots=True)
class Change:
    """One place of a tree and what it becomes.

    Attributes:
        kind: operator, comparison, condition, constant, logic or name.
        scope: qualified name of the function; ``<module>`` outside of any.
        line: where the changed node begins.
        before: source text of the node.
        after: source text of what replaces it.
        parent: node that holds it.
        field: of the parent.
        index: in the field's list; None if the field holds the node itself.
        new: the replacement.
    """

    kind: str
    scope: str
    line: int
    before: str
    after: str
    parent: ast.AST
    field: str
    index: int | None
    new: object

    def make(self) -> None:
        """Changes the tree."""
        if self.index is None:
            setattr(self.parent, self.field, self.new)
        else:
            getattr(self.parent, self.field)[self.index] = self.new
        ast.fix_missing_locations(self.parent)


def changes(tree: ast.Module) -> Iterator[Change]:
    """Every change of a tree, in the order of the source."""
    yield from _below(tree, "<module>")


def _below(node: ast.AST, scope: str) -> Iterator[Change]:
    for field, value in ast.iter_fields(node):
        if (type(node), field) in _SKIPPED_FIELDS:
            continue
        for index, child in enumerate(value) if isinstance(value, list) else ((None, value),):
            if isinstance(child, ast.AST) and not _is_skipped(child):
                yield from _at(node, field, index, child, scope)
                yield from _below(child, _inner_scope(child, scope))


_SKIPPED_FIELDS = frozenset(
    {
        (ast.arg, "annotation"), (ast.AnnAssign, "annotation"), (ast.FunctionDef, "returns"),
        (ast.FunctionDef, "decorator_list"), (ast.ClassDef, "decorator_list"),
        (ast.ClassDef, "bases"), (ast.Dict, "keys"), (ast.TypeAlias, "value")
        if hasattr(ast, "TypeAlias") else (ast.Dict, "keys"),
    }
)  # fmt: skip
"""Annotations, decorators, and keys of tables, which are looked up by name."""

_SKIPPED_CALLS = frozenset({"dump", "cast", "TypeVar", "namedtuple"})
_SKIPPED_ARGUMENTS = frozenset({"strict", "maxsize"})
"""Of `zip`, which only checks, and of caches."""


def _is_skipped(node: ast.AST) -> bool:
    """Texts for people: messages of errors, docstrings, dumps, imports."""
    if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.JoinedStr):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.keyword) and node.arg in _SKIPPED_ARGUMENTS:
        return True
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name):
        return node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.Call) and _called(node) in _SKIPPED_CALLS


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _inner_scope(node: ast.AST, scope: str) -> str:
    if not isinstance(node, ast.FunctionDef | ast.ClassDef):
        return scope
    return node.name if scope == "<module>" else f"{scope}.{node.name}"


def _at(
    parent: ast.AST, field: str, index: int | None, node: ast.AST, scope: str
) -> Iterator[Change]:
    """Changes of one node, and of the conditions that it begins with."""
    for kind, new in _replacements(node):
        before, after = ast.unparse(node), ast.unparse(new)
        line = getattr(node, "lineno", 0)
        yield Change(kind, scope, line, before, after, parent, field, index, new)
    if isinstance(node, ast.If | ast.IfExp):
        new = _negated(node.test)
        yield Change(
            "condition", scope, node.test.lineno, f"if {ast.unparse(node.test)}",
            f"if {ast.unparse(new)}", node, "test", None, new,
        )  # fmt: skip
    if isinstance(node, ast.comprehension):
        for at, test in enumerate(node.ifs):
            new = _negated(test)
            yield Change(
                "condition", scope, test.lineno, f"if {ast.unparse(test)}",
                f"if {ast.unparse(new)}", node, "ifs", at, new,
            )  # fmt: skip


def _replacements(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            yield "operator", ast.BinOp(left, _ARITHMETIC[type(op)](), right)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield "operator", operand
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "logic", operand
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            yield "comparison", ast.Compare(left, [_COMPARISON[type(op)]()], [right])
        case ast.BoolOp(op=op, values=values):
            yield "logic", ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.Constant(value=value):
            yield from (("constant", ast.Constant(v)) for v in _constants(value))
        case ast.Call(func=ast.Attribute(value=base, attr=name) as f, args=args, keywords=words):
            if name in _NAMES:
                changed = ast.Attribute(base, _NAMES[name], f.ctx)
                yield "name", ast.Call(changed, args, words)


def _constants(value: object) -> Iterator[Literal]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield value + 1
        if value > 0:
            yield value - 1
    elif isinstance(value, float):
        yield value * 1.01 if value else 1.0
    elif isinstance(value, str) and value in _NAMES:
        yield _NAMES[value]


def _negated(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)
