"""How dots are cut: blocks, lines of a panel, and right operands that are read as they are."""

import pytest

from xladev.codegen.llvm import TargetTraits
from xladev.hlo.ir import HloInstruction
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.products.dot import (
    LONG_LINES,
    DotPlan,
    block_sizes,
    dot_kind,
    dot_plan,
)
from xladev.platforms.cpu.codegen.products.kinds import ProductKind
from xladev.platforms.cpu.codegen.tactics import DEFAULT, Tactic

WIDE, MIDDLE, NARROW = (TargetTraits(vector_nbytes=n) for n in (64, 32, 16))


def dot(m: int, k: int, n: int, dtype: str = "f32", out: str = "") -> HloInstruction:
    return parse_module(f"""
    HloModule m
    ENTRY e {{ x = {dtype}[{m},{k}] parameter(0)  y = {dtype}[{k},{n}] parameter(1)
      ROOT d = {out or dtype}[{m},{n}] dot(x, y), lhs_contracting_dims={{1}},
        rhs_contracting_dims={{0}} }}""").entry.root


def planned(
    i: HloInstruction, target: TargetTraits, tactic: Tactic = DEFAULT
) -> tuple[DotPlan, ProductKind]:
    plan = dot_plan(i, tactic)
    assert plan is not None
    return plan, dot_kind(plan, i, target)


@pytest.mark.parametrize(
    ("dtype", "target", "lines"),
    [("f32", WIDE, LONG_LINES), ("f32", MIDDLE, 512), ("f32", NARROW, 1024), ("f64", WIDE, 256),
     ("s32", WIDE, LONG_LINES), ("f16", WIDE, 256)],
)  # fmt: skip
def test_lines_of_a_part_fit_its_panel(dtype: str, target: TargetTraits, lines: int) -> None:
    plan, kind = planned(dot(64, 2000, 64, dtype), target)
    assert plan.lines(kind) == lines
    assert lines * kind.width * kind.size <= plan.panel_nbytes


def test_tactics_say_how_long_parts_are() -> None:
    plan, kind = planned(dot(64, 2000, 64), WIDE, Tactic(panel_nbytes=16 << 10))
    assert (plan.lines(kind), plan.panel_nbytes) == (128, 16 << 10)


def test_lines_of_bytes_come_after_their_correction() -> None:
    target = TargetTraits(vector_nbytes=64, has_byte_products=True)
    plan, kind = planned(dot(64, 2000, 64, "s8", "s32"), target)
    assert kind.has_quads
    assert (plan.lines(kind) + 1) * kind.width * kind.size <= plan.panel_nbytes


@pytest.mark.parametrize(
    ("m", "k", "n", "streams"),
    [(8, 4096, 4096, True), (8, 4096, 1000, True), (8, 4096, 31, False), (17, 4096, 1000, False),
     (200, 100, 130, True), (200, 1000, 130, False)],
)  # fmt: skip
def test_right_operands_used_seldom_or_near_are_streamed(
    m: int, k: int, n: int, streams: bool
) -> None:
    plan, kind = planned(dot(m, k, n), WIDE)
    assert plan.is_streamed(kind) is streams


def plan_of(rows: int, depth: int, columns: int) -> DotPlan:
    return planned(dot(rows, depth, columns), WIDE)[0]


@pytest.mark.parametrize(("columns", "width"), [(4096, 1024), (1024, 1024), (700, 1024)])
def test_columns_that_few_rows_read_are_cut_into_pages(columns: int, width: int) -> None:
    assert block_sizes(plan_of(8, 4096, columns), True, True)[1] == width


@pytest.mark.parametrize(("depth", "width"), [(256, 256), (1024, 256), (1025, 1024)])
def test_columns_near_the_core_are_cut_for_all_threads(depth: int, width: int) -> None:
    assert block_sizes(plan_of(8, depth, 1024), True, True)[1] == width


def test_columns_that_few_rows_read_are_one_block_for_one_thread() -> None:
    assert block_sizes(plan_of(8, 4096, 4096), True, False)[1] == 4096


def test_others_are_cut_until_there_are_enough_to_share() -> None:
    assert block_sizes(plan_of(64, 256, 512), True, True) == (48, 128)
    assert block_sizes(plan_of(64, 4096, 512), False, True) == (48, 128)
    assert block_sizes(plan_of(1024, 1024, 1024), False, True) == (240, 512)
    assert block_sizes(plan_of(1024, 1024, 1024), False, False) == (240, 512)


def test_columns_are_cut_before_rows() -> None:
    """A block of rows more would pack the columns once more."""
    assert block_sizes(plan_of(128, 768, 3072), False, True) == (240, 384)
    assert block_sizes(plan_of(197, 768, 512), False, True) == (144, 128)
