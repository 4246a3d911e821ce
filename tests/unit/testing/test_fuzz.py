"""Campaigns of random programs: wrong answers and crashes become small files and a command."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.unit.testing import fuzz_subjects
from xladev.cli.main import main as xladev_main
from xladev.codegen.scalar import elementwise
from xladev.compiler.options import CompileOptions
from xladev.hlo import dtype as dt
from xladev.hlo.opset import OPSET
from xladev.hlo.text import parse_module
from xladev.testing import fuzz_task
from xladev.testing.campaign import Campaign
from xladev.testing.coverage import coverage_of, table
from xladev.testing.fuzz import main
from xladev.testing.fuzz_task import Task, draw, judged
from xladev.testing.recipes.table import RECIPES
from xladev.testing.verdict import OK, Verdict
from xladev.testing.wire import pack, unpack, unpack_module

ADD = Task(level=0, steps=1, opcodes=("add",))
SELECT = Task(level=0, steps=5, opcodes=("select", "add", "negate", "reverse"))
SUBJECTS = fuzz_subjects.__name__


def test_messages_keep_arrays_of_every_type() -> None:
    arrays = [np.zeros((2, 0, 3), t.np) for t in dt.ARRAY_TYPES]
    arrays += [np.ones((), t.np) for t in dt.ARRAY_TYPES]
    module = parse_module("HloModule m\nENTRY e { ROOT x = f32[2] parameter(0) }")
    head, found, proto = unpack(pack({"a": [1, None]}, arrays, module))
    assert head["a"] == [1, None]
    for got, want in zip(found, arrays, strict=True):
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        np.testing.assert_array_equal(got, want)
    assert unpack_module(proto).entry.root.shape == module.entry.root.shape


def test_a_seed_is_a_program() -> None:
    first, arguments = draw(5, ADD)
    again, same = draw(5, ADD)
    assert str(first.entry.root) == str(again.entry.root)
    for a, b in zip(arguments, same, strict=True):
        np.testing.assert_array_equal(a, b)


def test_programs_are_compiled_with_the_options_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XLADEV_FLAGS", "fusion=false optimization_level=3")
    seen: list[CompileOptions] = []

    def verdict_on(*given: object) -> tuple[Verdict, tuple[()]]:
        assert isinstance(given[-1], CompileOptions)
        seen.append(given[-1])
        return Verdict(OK), ()

    monkeypatch.setattr(fuzz_task, "verdict_on", verdict_on)
    assert judged(*draw(5, ADD), ADD, 1) == Verdict(OK).to_json()
    assert seen == [CompileOptions(fusion=False, optimization_level=1)]


def test_every_opcode_with_a_meaning_is_drawn() -> None:
    drawn = {o for name in RECIPES for o in _opcodes_of(name)}
    exempt = {name for name, op in OPSET.items() if op.exempt}
    assert set(OPSET) - drawn == exempt - {"parameter"}


def _opcodes_of(name: str) -> set[str]:
    task = Task(steps=1, opcodes=(name,))
    return {opcode for seed in range(4) for opcode, _ in coverage_of(draw(seed, task)[0])}


def test_coverage_counts_opcodes_by_type() -> None:
    module = parse_module(
        "HloModule m\nENTRY e { x = f32[2] parameter(0)\nROOT r = s32[2] convert(x) }"
    )
    counts = coverage_of(module)
    assert counts["convert", "f32"] == counts["convert", "s32"] == 1
    lines = list(table(counts))
    assert any(line.startswith("convert ") and line.count("1") == 2 for line in lines)
    assert f"2 of {len(OPSET)} opcodes, 3 cells of opcode and element type" in lines
    assert any(line.startswith("never drawn: infeed (") for line in lines)


@pytest.mark.long
def test_a_planted_bug_becomes_a_few_instructions_and_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []
    campaign = Campaign(SELECT, tmp_path, function=f"{SUBJECTS}:with_bug", report=said.append)
    campaign.run(0, 12)
    failure = campaign.failures["value-select"]
    assert failure.instructions <= 5
    assert campaign.programs == 12
    assert len(said) == len(campaign.failures)
    assert failure.command in campaign.summary()
    words = shlex.split(failure.command)
    assert words[:2] == ["xladev", "run"]
    assert xladev_main(words[1:]) == 0
    with monkeypatch.context() as patch:
        patch.setattr(elementwise, "GENERAL_EMITTERS", fuzz_subjects.WITH_BUG)
        assert xladev_main(words[1:]) == 1
    assert "check against interpreter: FAILED" in capsys.readouterr().out


@pytest.mark.long
def test_a_crash_is_a_failure(tmp_path: Path) -> None:
    campaign = Campaign(ADD, tmp_path, function=f"{SUBJECTS}:dies", report=lambda _: None)
    campaign.run(7, 1)
    assert campaign.kinds == {"crash": 1}
    assert {p.suffix for p in tmp_path.iterdir()} == {".hlo", ".npz"}


@pytest.mark.long
def test_jobs_share_the_seeds(tmp_path: Path) -> None:
    campaign = Campaign(ADD, tmp_path)
    campaign.run(0, 30, jobs=2)
    assert campaign.kinds == {"ok": 30}
    assert campaign.coverage["add", "f32"] > 0


@pytest.mark.long
def test_the_command_counts_and_covers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["--programs", "4", "--opcodes", "add", "--steps", "1", "--out", str(tmp_path)]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert "4 programs: 4 ok" in printed.out
    assert "4 of 4 programs" in printed.err


def test_opcodes_without_a_recipe_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--opcodes", "ad"])
    assert "no recipe for ad" in capsys.readouterr().err
