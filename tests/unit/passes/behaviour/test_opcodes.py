"""The opcodes that passes are for: pipelines skip a pass where a module has none of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.passes.checks import opcodes
from xladev.hlo.ir import HloModule
from xladev.hlo.proto import read_module
from xladev.hlo.text import parse_module
from xladev.passes.default import default_pipeline
from xladev.passes.dot_canonicalizer import DotCanonicalizer
from xladev.passes.pass_ import HloModulePass
from xladev.passes.pipeline import HloPassPipeline
from xladev.passes.reduce_window_rewriter import ReduceWindowRewriter

PASSES = {
    each.name: each
    for each in (*default_pipeline().flat(), DotCanonicalizer(), ReduceWindowRewriter())
    if each.only_for is not None
}


@pytest.fixture(scope="module")
def modules(programs_dir: Path) -> list[HloModule]:
    """The exported programs, read once."""
    return [read_module(path.read_bytes()) for path in sorted(programs_dir.glob("*.pb"))]


@pytest.mark.parametrize("name", PASSES)
def test_a_pass_leaves_modules_without_its_opcodes(name: str, modules: list[HloModule]) -> None:
    each = PASSES[name]
    assert each.only_for
    seen = 0
    for module in modules:
        if each.only_for.isdisjoint(opcodes(module)):
            seen += 1
            assert each.run(module) is module, module.name
    assert seen or name in ("constant-folding", "reshape-mover")


@dataclass(frozen=True, slots=True)
class _Renamed(HloModulePass):
    """Gives a module with a negation another name."""

    name = "renamed"
    only_for = frozenset({"negate"})

    def run(self, module: HloModule) -> HloModule:
        return HloModule("other", module.entry, module.header)


@pytest.mark.parametrize(("opcode", "name"), [("negate", "other"), ("cosine", "m")])
def test_pipelines_skip_passes_by_opcode(opcode: str, name: str) -> None:
    module = parse_module(
        f"HloModule m\nENTRY e {{ a = f32[2] parameter(0)  ROOT r = f32[2] {opcode}(a) }}"
    )
    assert HloPassPipeline("p", (_Renamed(),)).run(module).name == name
