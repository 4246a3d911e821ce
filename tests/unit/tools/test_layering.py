"""The import rule holds in xladev/, and the checker sees each kind of breach."""

from pathlib import Path

import pytest

from tests.tools.layering import read_tree, violations

PACKAGE = Path(__file__).parents[3] / "xladev"


def breaches(root: Path, files: dict[str, str]) -> list[str]:
    """Write `files` as a package called xladev and check it."""
    package = root / "xladev"
    for path, text in {"__init__.py": "", **files}.items():
        (package / path).parent.mkdir(parents=True, exist_ok=True)
        (package / path).write_text(text)
    return violations(read_tree(package))


def test_xladev_keeps_the_import_rule_in_every_file() -> None:
    tree = read_tree(PACKAGE)
    assert violations(tree) == []
    paths = {module.path for module in tree.modules}
    assert paths == {p.relative_to(PACKAGE).as_posix() for p in PACKAGE.rglob("*.py")}


PLANTED = {
    "a pass that imports the runtime": (
        {"passes/cse.py": "from xladev.runtime.platform import P", "runtime/platform.py": ""},
        "passes/cse.py imports runtime.platform; "
        "passes may import only hlo, instrument, errors (line 1)",
    ),
    "inside a function": (
        {"hlo/ir.py": "def f():\n    import xladev.passes.dce\n", "passes/dce.py": ""},
        "hlo/ir.py imports passes.dce; hlo may import only instrument, errors (line 2)",
    ),
    "for type checkers only": (
        {
            "hlo/ir.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
            "    from xladev import client\n",
            "client.py": "",
        },
        "hlo/ir.py imports client; hlo may import only instrument, errors (line 3)",
    ),
    "by a relative name": (
        {"hlo/text/parse.py": "from ...compiler import layout", "compiler/layout.py": ""},
        "hlo/text/parse.py imports compiler.layout; "
        "hlo may import only instrument, errors (line 1)",
    ),
    "by import_module": (
        {"errors.py": "import importlib\nimportlib.import_module('xladev.hlo.a')", "hlo/a.py": ""},
        "errors.py imports hlo.a; errors may import no other layer (line 2)",
    ),
    "a platform, from the client": (
        {"client.py": "import xladev.platforms.cpu.plugin", "platforms/cpu/plugin.py": ""},
        "client.py imports platforms.cpu.plugin; nothing imports a platform (line 1)",
    ),
    "a platform, from another platform": (
        {"platforms/a/x.py": "from xladev.platforms.b import y", "platforms/b/y.py": ""},
        "platforms/a/x.py imports platforms.b.y; nothing imports a platform (line 1)",
    ),
    "the client, from a platform": (
        {"platforms/a/x.py": "from xladev.client import compile", "client.py": ""},
        "platforms/a/x.py imports client; a platform may import only "
        "runtime, compiler, codegen, passes, hlo, instrument, errors (line 1)",
    ),
    "the lazy public names": (
        {"cli/run.py": "from xladev import load"},
        "cli/run.py imports load; import it from the module that defines it (line 1)",
    ),
    "the whole package": (
        {"cli/run.py": "import xladev"},
        "cli/run.py imports xladev; import it from the module that defines it (line 1)",
    ),
    "LLVM outside code generation": (
        {"compiler/link.py": "from llvmlite import binding"},
        "compiler/link.py imports llvmlite; llvmlite belongs to codegen, platforms (line 1)",
    ),
    "a framework in the core": (
        {"client.py": "def f():\n    import jax.numpy"},
        "client.py imports jax.numpy; jax belongs to frontends/jax, testing (line 2)",
    ),
    "an undeclared dependency": (
        {"client.py": "import scipy"},
        "client.py imports scipy; it is no dependency of xladev (line 1)",
    ),
    "a file in no layer": (
        {"helpers.py": ""},
        "helpers.py is in no layer; the layers are errors, instrument, hlo, passes, codegen, "
        "compiler, runtime, distributed, client, profiling, aot, placement, frontends, torch, "
        "testing, conformance, cli, __main__",
    ),
    "a kernel of one platform in the shared room": (
        {
            "codegen/loops.py": "",
            "codegen/sums.py": "from xladev.codegen import loops",
            "platforms/a/x.py": "from xladev.codegen import sums",
            "platforms/b/y.py": "from xladev.codegen.loops import nest",
        },
        "codegen/sums.py is used by platforms.a alone; it belongs in platforms/a/codegen",
    ),
    "a circle inside a layer": (
        {"hlo/a.py": "from xladev.hlo import b", "hlo/b.py": "from . import c",
         "hlo/c.py": "def f():\n    from xladev.hlo.a import x"},
        "import cycle: hlo.a -> hlo.b -> hlo.c -> hlo.a",
    ),
    "a circle through a package": (
        {"hlo/__init__.py": "from xladev.hlo.a import f", "hlo/a.py": "from xladev.hlo import f"},
        "import cycle: hlo -> hlo.a -> hlo",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_planted_breach_is_found(name: str, tmp_path: Path) -> None:
    files, message = PLANTED[name]
    assert breaches(tmp_path, files) == [message]


def test_a_room_for_vendors_may_have_one_user(tmp_path: Path) -> None:
    files = {
        "codegen/simt/__init__.py": "from xladev.codegen import axes",
        "codegen/axes.py": "",
        "codegen/simple.py": "",
        "platforms/a/x.py": "from xladev.codegen import simple, simt",
        "platforms/b/y.py": "",
    }
    assert breaches(tmp_path, files) == [
        "codegen/simple.py is used by platforms.a alone; it belongs in platforms/a/codegen"
    ]


def test_two_circles_are_both_named(tmp_path: Path) -> None:
    files = {
        "hlo/a.py": "import xladev.hlo.b",
        "hlo/b.py": "import xladev.hlo.a",
        "passes/c.py": "import xladev.passes.d",
        "passes/d.py": "import xladev.passes.c, xladev.hlo.a",
    }
    assert breaches(tmp_path, files) == [
        "import cycle: hlo.a -> hlo.b -> hlo.a",
        "import cycle: passes.c -> passes.d -> passes.c",
    ]


def test_allowed_imports_pass(tmp_path: Path) -> None:
    files = {
        "errors.py": "import os, numpy",
        "hlo/ir.py": "import ml_dtypes\nfrom xladev.errors import E\nfrom . import shape",
        "hlo/shape.py": "from xladev import errors",
        "codegen/emit.py": "import llvmlite.ir\nfrom ..hlo import ir",
        "platforms/cpu/plugin.py": "from xladev.platforms.cpu import platform\nimport pluggy",
        "platforms/cpu/platform.py": "import llvmlite.binding\nfrom ...runtime import executor",
        "runtime/executor.py": "import pluggy",
        "cli/main.py": "from xladev import __version__, client",
        "client.py": "from xladev.runtime.executor import x\nfrom xladev.compiler.plan import y",
        "compiler/plan.py": "",
        "__main__.py": "from xladev.cli.main import main",
    }
    assert breaches(tmp_path, files) == []
