"""`xladev explain --sharding`: where values lie, what moves, and why."""

import json
from pathlib import Path

import pytest

from xladev.cli.main import main

PROGRAM = """HloModule m
ENTRY e { x = f32[8,16] parameter(0), sharding={devices=[1,4]<=[4]}
  w = f32[16,4] parameter(1), sharding={devices=[4,1]<=[4]}
  p = f32[8,4] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT n = f32[8,4] negate(p), sharding={replicated} }"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "m.hlo"
    path.write_text(PROGRAM)
    return str(path)


def test_values_and_moves(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["explain", program, "--sharding", "--option", "num_partitions=4"]
    assert main(words) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == 'x: parameter f32[8,16] [{}, {"devices"}]'
    assert "p f32[8,4]: all-reduce, 192 bytes" in shown
    assert "each device has a part of the sum of dot" in shown[-2]
    assert shown[-1].startswith("m: over 4 partitions, 1 move between devices, 192 bytes")
    assert main([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [value["name"] for value in report["values"]] == ["x", "w", "p", "n"]
    (move,) = report["moves"]
    assert (move["steps"], move["nbytes"]) == (["all-reduce"], 192)
    assert move["source"] == '[{}, {}], unreduced={"devices"}'


def test_one_partition_has_nothing_to_show(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", program, "--sharding"]) != 0
    assert "one partition, which holds everything" in capsys.readouterr().err
