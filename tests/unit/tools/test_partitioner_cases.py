"""The tools that read XLA's test of its partitioner, on a file of the same form."""

from pathlib import Path

import pytest

from tests.tools.partitioner_bytes import compared, counted, ours
from tests.tools.partitioner_cases import Case, cases
from tests.tools.partitioner_equal import outcome, smaller
from xladev.hlo.text import parse_module

PROGRAM = """HloModule m
ENTRY e {
  x = f32[4096,4096] parameter(0), sharding={devices=[2,1]<=[2]}
  t = f32[4096,4096] transpose(x), dimensions={1,0}
  ROOT r = f32[4096,4096] add(x, t), sharding={devices=[2,1]<=[2]}
}"""
FILE = f"""
TEST_P(Some, First) {{
  absl::string_view hlo_string = R"({PROGRAM})";
  TF_ASSERT_OK_AND_ASSIGN(auto module,
                          PartitionComputation(hlo_string, /*num_devices=*/2));
}}
TEST_P(Some, WithoutProgram) {{ }}
"""


@pytest.fixture
def found(tmp_path: Path) -> list[Case]:
    path = tmp_path / "some_test.cc"
    path.write_text(FILE, "utf-8")
    return cases(path)


def test_programs_of_a_file(found: list[Case]) -> None:
    assert found == [Case("First", PROGRAM, 2)]
    assert found[0].module.header.num_partitions == 2


def test_large_programs_are_made_smaller(found: list[Case]) -> None:
    small = smaller(found[0])
    dims = small.module.entry.root.shape.dims
    assert 8 <= dims[0] == dims[1] <= 1024 and "devices=[2,1]<=[2]" in small.text
    assert outcome(found[0]).startswith("equal (made smaller)")


def test_bytes_are_counted(found: list[Case]) -> None:
    half = 4096 * 4096 * 4 // 2
    assert ours(found[0]).nbytes == half / 2
    loop = parse_module("""HloModule m, num_partitions=2
ENTRY e {
  x = f32[8] parameter(0)
  ROOT p = f32[8] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,0}}
}""")
    assert counted(loop, 2).nbytes == 32


def test_answers_are_kept(found: list[Case], tmp_path: Path) -> None:
    """What XLA said before is not asked again."""
    text = PROGRAM.replace("HloModule m", "HloModule m, num_partitions=2")
    (tmp_path / "First.hlo").write_text(text, "utf-8")
    kind, here, there = compared(found[0], tmp_path)
    assert kind == "more" and here.nbytes > there.nbytes == 0
    (tmp_path / "First.hlo").write_text("F0000 Check failed: no\nerror\n", "utf-8")
    assert compared(found[0], tmp_path)[0] == "not compiled by XLA"
