"""Reads every import under xladev/ from the syntax tree and checks it against the import rule.

The rule is in CONTRIBUTING.md: each layer may import the layers to its left, a platform may import
anything up to `runtime`, nothing imports a platform, `codegen` holds nothing that only one platform
uses (but what is there for vendors, `FOR_VENDORS`), and no modules import each other in a circle.
Imports inside functions and under `if TYPE_CHECKING` count like any other.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tests.tools.syntax import parse

LAYERS = (
    "errors",
    "instrument",
    "hlo",
    "passes",
    "codegen",
    "compiler",
    "runtime",
    "distributed",
    "client",
    "profiling",
    "aot",
    "placement",
    "frontends",
    "torch",
    "testing",
    "conformance",
    "cli",
    "__main__",
)
PLATFORM_MAY = LAYERS[: LAYERS.index("runtime") + 1]

# Rooms of `codegen` that vendors build on: public, though one platform here may be all that does.
FOR_VENDORS = (("codegen", "simt"),)

# Packages from outside, and the folders that may import them. "" is the whole of xladev/.
OUTSIDE = {
    "numpy": ("",),
    "ml_dtypes": ("",),
    "llvmlite": ("codegen", "platforms"),
    "pluggy": ("runtime", "platforms"),
    "cuda": ("platforms/cuda",),
    "cupy": ("platforms/cuda",),
    "cupy_backends": ("platforms/cuda",),
    "cudnn": ("platforms/cuda",),
    "jax": ("frontends/jax", "testing"),
    "mpi4py": ("runtime/distributed",),
    "fast_sugiyama": ("profiling/graph",),
    "resvg_py": ("profiling/graph",),
    "jaxlib": ("frontends/jax", "frontends/stablehlo", "testing"),
    "xladev_pjrt": ("frontends/jax",),
    "xladev_calls": ("platforms/cpu",),
    "torch": ("frontends/torch",),
    "sympy": ("frontends/torch",),  # comes with torch: its symbolic sizes
    "tensorflow": ("frontends/tensorflow",),
    "onnx": ("frontends/onnx",),
    "pytest": ("testing",),
    "hypothesis": ("testing",),
}


@dataclass(frozen=True, slots=True)
class Import:
    """One imported dotted name, absolute, with the line that imports it."""

    target: str
    line: int


@dataclass(frozen=True)
class Module:
    """One file under the package root; `path` is relative to it, in POSIX spelling."""

    path: str
    tree: ast.Module

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The dotted name below the package, split: ("passes", "cse")."""
        names = self.path.removesuffix(".py").split("/")
        return tuple(names[:-1] if names[-1] == "__init__" else names)

    @cached_property
    def package(self) -> tuple[str, ...]:
        """The package that relative imports start from."""
        return self.parts if self.path.endswith("__init__.py") else self.parts[:-1]


@dataclass(frozen=True)
class Tree:
    """All modules of one package, such as xladev."""

    name: str
    modules: tuple[Module, ...]
    imports: dict[str, tuple[Import, ...]] = field(default_factory=dict, repr=False)

    @cached_property
    def names(self) -> frozenset[str]:
        """Every dotted module and folder name, the package's own included."""
        paths = [(self.name, *module.parts) for module in self.modules]
        return frozenset(".".join(p[:end]) for p in paths for end in range(1, len(p) + 1))


def read_tree(root: Path) -> Tree:
    """Parse every Python file under the package folder `root`."""
    files = sorted(root.rglob("*.py"))
    return Tree(
        root.name,
        tuple(
            Module(f.relative_to(root).as_posix(), parse(f.read_text("utf-8"), str(f)))
            for f in files
        ),
    )


def violations(tree: Tree) -> list[str]:
    """Every breach of the import rule, as one sentence each."""
    checked = [module for module in tree.modules if module.path != "__init__.py"]
    found = [message for module in checked for message in _module_violations(tree, module)]
    return found + _rooms_of_one(tree) + _cycles(tree, checked)


def _rooms_of_one(tree: Tree) -> list[str]:
    """Modules of `codegen` that one platform alone uses: they belong to that platform.

    Vendors' rooms are left out, and what these import has them as another user.
    """
    graph = {m.parts: _inner_imports(tree, m) for m in tree.modules}
    inside = [parts for parts in graph if parts[:1] == ("platforms",) and len(parts) > 1]
    reached = {
        name: _reach(graph, [parts for parts in inside if parts[1] == name])
        for name in {parts[1] for parts in inside}
    }
    rooms = [parts for parts in graph if parts[:2] in FOR_VENDORS]
    for_vendors = _reach(graph, rooms)
    users = {
        m.path: [name for name, modules in reached.items() if m.parts in modules]
        for m in tree.modules
        if m.parts[:1] == ("codegen",) and m.parts not in for_vendors
    }
    return [
        f"{path} is used by platforms.{names[0]} alone; it belongs in platforms/{names[0]}/codegen"
        for path, names in users.items()
        if len(names) == 1
    ]


def _inner_imports(tree: Tree, module: Module) -> set[tuple[str, ...]]:
    split = (i.target.split(".") for i in imports(tree, module))
    return {tuple(names[1:]) for names in split if names[0] == tree.name}


def _reach(
    graph: dict[tuple[str, ...], set[tuple[str, ...]]], start: list[tuple[str, ...]]
) -> set[tuple[str, ...]]:
    seen, left = set[tuple[str, ...]](), list(start)
    while left:
        name = left.pop()
        if name in graph and name not in seen:
            seen.add(name)
            left.extend(graph[name])
    return seen


def _module_violations(tree: Tree, module: Module) -> Iterator[str]:
    if module.parts[0] not in (*LAYERS, "platforms"):
        yield f"{module.path} is in no layer; the layers are {', '.join(LAYERS)}"
        return
    for item in imports(tree, module):
        reason = _inside(tree, module, item) or _outside(tree, module, item)
        if reason:
            yield f"{module.path} imports {_short(tree, item.target)}; {reason} (line {item.line})"


def imports(tree: Tree, module: Module) -> tuple[Import, ...]:
    """Absolute names of everything `module` imports, at any depth of its code; read once."""
    found = tree.imports.get(module.path)
    if found is None:
        found = tree.imports[module.path] = tuple(_imports(tree, module))
    return found


def _imports(tree: Tree, module: Module) -> Iterator[Import]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _from_base(tree, module, node)
            yield from (Import(_member(tree, base, a.name), node.lineno) for a in node.names)
        elif isinstance(node, ast.Call) and (name := _dynamic(node)):
            yield Import(name, node.lineno)


def _from_base(tree: Tree, module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    package = module.package[: len(module.package) - node.level + 1]
    return ".".join(filter(None, (tree.name, *package, node.module)))


def _member(tree: Tree, base: str, name: str) -> str:
    """`from base import name` imports the submodule where there is one, else `base` itself."""
    member = f"{base}.{name}"
    return member if member in tree.names or base == tree.name else base


def _dynamic(node: ast.Call) -> str | None:
    """The name in `import_module("a.b")` or `__import__("a.b")`."""
    function = node.func.attr if isinstance(node.func, ast.Attribute) else _identifier(node.func)
    if function not in ("import_module", "__import__") or not node.args:
        return None
    first = node.args[0]
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def _identifier(node: ast.expr) -> str | None:
    return node.id if isinstance(node, ast.Name) else None


def _inside(tree: Tree, module: Module, item: Import) -> str | None:
    """Why an import of this package's own modules is refused."""
    head, *rest = item.target.split(".")
    if head != tree.name or rest == ["__version__"]:
        return None
    if rest[:1] == ["platforms"]:
        same = module.parts[:2] == tuple(rest[:2]) and len(rest) > 1
        return None if same else "nothing imports a platform"
    if not rest or rest[0] not in LAYERS:
        return "import it from the module that defines it"
    return _layer_reason(module.parts[0], rest[0])


def _layer_reason(importer: str, imported: str) -> str | None:
    if importer == "platforms":
        return None if imported in PLATFORM_MAY else _only("a platform", PLATFORM_MAY)
    allowed = LAYERS[: LAYERS.index(importer)]
    return None if imported in (*allowed, importer) else _only(importer, allowed)


def _only(who: str, allowed: tuple[str, ...]) -> str:
    listing = ", ".join(reversed(allowed))
    return f"{who} may import only {listing}" if listing else f"{who} may import no other layer"


def _outside(tree: Tree, module: Module, item: Import) -> str | None:
    """Why an import of another distribution is refused."""
    head = item.target.partition(".")[0]
    if head == tree.name or head in sys.stdlib_module_names:
        return None
    if head not in OUTSIDE:
        return "it is no dependency of xladev"
    if any(_is_in(module, folder) for folder in OUTSIDE[head]):
        return None
    return f"{head} belongs to {', '.join(OUTSIDE[head])}"


def _is_in(module: Module, folder: str) -> bool:
    return not folder or module.path.startswith((f"{folder}/", f"{folder}.py"))


def _short(tree: Tree, target: str) -> str:
    return target.removeprefix(f"{tree.name}.")


def _cycles(tree: Tree, modules: list[Module]) -> list[str]:
    """One sentence for each circle of modules."""
    graph = {".".join((tree.name, *m.parts)): _edges(tree, m) for m in modules}
    graph = _without_leaves({name: edges & graph.keys() for name, edges in graph.items()})
    found: list[str] = []
    while graph:
        circle = _walk_circle(graph)
        found.append("import cycle: " + " -> ".join(_short(tree, n) for n in circle))
        graph = _without_leaves(_without(graph, set(circle)))
    return found


def _without_leaves(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Drop modules that import none of the rest, until each one left does."""
    while leaves := {name for name, edges in graph.items() if not edges}:
        graph = _without(graph, leaves)
    return graph


def _without(graph: dict[str, set[str]], names: set[str]) -> dict[str, set[str]]:
    return {name: edges - names for name, edges in graph.items() if name not in names}


def _edges(tree: Tree, module: Module) -> set[str]:
    own = ".".join((tree.name, *module.parts))
    return {item.target for item in imports(tree, module)} - {own}


def _walk_circle(graph: dict[str, set[str]]) -> list[str]:
    """Follow imports from the first module until one repeats; every module left has an import."""
    seen: list[str] = []
    name = min(graph)
    while name not in seen:
        seen.append(name)
        name = min(graph[name])
    return [*seen[seen.index(name) :], name]
