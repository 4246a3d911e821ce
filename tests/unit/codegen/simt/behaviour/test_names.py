"""What all targets share names none of them: no intrinsics, targets or tools of one vendor."""

import re
from pathlib import Path

import pytest

CODEGEN = Path(__file__).parents[5] / "xladev" / "codegen"
OWN = re.compile(r"nvvm|ptx|cuda|nvidia|amdgcn|spirv|\bsm_\d*", re.IGNORECASE)


def names_of_targets(root: Path) -> list[str]:
    """Each name of a target in the files below a folder, with its place."""
    return [
        f"{path.relative_to(root)}:{number}: {found.group()}"
        for path in sorted(root.rglob("*.py"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        for found in OWN.finditer(line)
    ]


def test_no_file_of_codegen_names_a_target():
    assert names_of_targets(CODEGEN) == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('b.call("llvm.nvvm.barrier0", VOID)', "nvvm"),
        ('"""Assembled by ptxas."""', "ptx"),
        ("from xladev.platforms.cuda import x", "cuda"),
        ('target = "sm_90a"', "sm_90"),
        ("# as NVIDIA says", "NVIDIA"),
        ('"llvm.amdgcn.s.barrier"', "amdgcn"),
    ],
)
def test_a_planted_name_is_found(line, name, tmp_path):
    (tmp_path / "reductions").mkdir()
    (tmp_path / "reductions" / "rows.py").write_text(f"x = 1\n{line}\n")
    assert names_of_targets(tmp_path) == [f"reductions/rows.py:2: {name}"]


def test_plain_words_are_none(tmp_path):
    (tmp_path / "x.py").write_text("parse_asm_text = prism_colours = 1  # sms\n")
    assert names_of_targets(tmp_path) == []
