"""`xladev opt` with a platform: its passes, in its order, each alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from xladev.cli.main import main
from xladev.compiler.options import CompileOptions
from xladev.compiler.pass_table import listed_passes
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify
from xladev.runtime.registry import current_registry

PROGRAM = """HloModule layer
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
body { p = f32[4,6] parameter(0)
  k = f32[] constant(3)
  s = f32[4,6] broadcast(k), dimensions={}
  m = f32[4,6] multiply(p, s)
  ROOT n = f32[4,6] negate(m) }
cond { p = f32[4,6] parameter(0)
  ROOT t = pred[] constant(false) }
ENTRY e {
  x = f32[4,6] parameter(0)
  k = f32[] constant(2)
  s = f32[4,6] broadcast(k), dimensions={}
  y = f32[4,6] multiply(x, s)
  z = f32[4,6] tanh(y)
  l = f32[4,6] while(z), condition=cond, body=body
  h = f32[4,6] add(l, s)
  g = f32[4,6] sine(h)
  zero = f32[] constant(0)
  r = f32[4] reduce(g, zero), dimensions={1}, to_apply=add
  ROOT t = (f32[4], f32[4,6]) tuple(r, g)
}
"""
FORMING = (
    "broadcast-duplication", "attention-fusion", "row-fusion", "fusion", "multi-output-fusion",
    "layout-normalization", "defuser", "constant-panels", "schedule", "rematerialization",
    "expand-rejected", "rejected-constants", "constant-kernels",
)  # fmt: skip


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "layer.hlo"
    path.write_text(PROGRAM)
    return path


@pytest.mark.parametrize("platform", ["cpu", "template_npu", "interpreter"])
def test_the_list_has_every_pass_of_the_platform(
    platform: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["opt", "--platform", platform, "--list"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    shown = [(words[0], words[1]) for words in lines]
    target = current_registry().platform(platform).compile_target(None)
    wanted = [(p.within, p.found.name) for p in listed_passes(target, CompileOptions())]
    assert shown[1 : len(wanted) + 1] == wanted
    assert ("default/simplify", "cse") in shown
    assert {"fusion", "while-unroller"} <= {name for _, name in shown}


@pytest.mark.parametrize("name", FORMING)
def test_each_pass_runs_alone_and_leaves_a_valid_program(
    name: str, program: Path, tmp_path: Path
) -> None:
    after = tmp_path / "after.hlo"
    arguments = ["opt", str(program), "--platform", "cpu", "--passes", name, "-o", str(after)]
    assert main(arguments) == 0
    verify(parse_module(after.read_text()))


def test_a_fusion_pass_alone_forms_kernels(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["opt", str(program), "--platform", "cpu", "--passes", "fusion"]) == 0
    assert capsys.readouterr().out.count(" fusion(") == 4
    assert main(["opt", str(program), "--passes", "fusion{max_group=x}"]) == 2
    assert "must be of type int" in capsys.readouterr().err
    assert main(["opt", str(program), "--passes", "fusion{can_fuse=x}"]) == 2
    assert "has no option 'can_fuse'" in capsys.readouterr().err


PRODUCT = """HloModule product
ENTRY e {
  x = f32[8,8] parameter(0)
  p = f32[8,8] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[8,8] negate(p)
}
"""


def test_the_platform_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The template's products go on with elementwise instructions, those of the CPU do not."""
    path = tmp_path / "product.hlo"
    path.write_text(PRODUCT)
    counts = []
    for arguments in ([], ["--platform", "cpu"], ["--platform", "template_npu"]):
        assert main(["opt", str(path), "--passes", "fusion", *arguments]) == 0
        counts.append(capsys.readouterr().out.count(" fusion("))
    assert counts == [0, 0, 1]


def test_passes_of_a_platform_are_known_with_it(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["opt", str(program), "--passes", "constant-panels"]
    assert main(command) == 2
    assert "there is no pass 'constant-panels'" in capsys.readouterr().err
    assert main([*command, "--platform", "cpu"]) == 0
    assert main([*command, "--platform", "cpu", "--option", "optimization_level=0"]) == 2
