"""Tactics as text, and what can be chosen for which kernel."""

import pytest

from xladev.codegen.kernel_spec import KernelSpec
from xladev.codegen.llvm import TargetTraits
from xladev.errors import FormatError
from xladev.hlo.text import parse_module
from xladev.platforms.cpu.codegen.choices import choices, rounded
from xladev.platforms.cpu.codegen.tactics import DEFAULT, Crossing, SortWay, Tactic, tactic_of

WIDE, NARROW = TargetTraits(vector_nbytes=64), TargetTraits(vector_nbytes=32)
TACTICS = (
    DEFAULT,
    Tactic(tile=(12, 2), block_rows=480),
    Tactic(panel_nbytes=65536, is_streamed=False),
    Tactic(in_tiles=True, part_ns=5000),
    Tactic(sort_way=SortWay.RADIX, crossing=Crossing.TILES, block_columns=256),
)


def dot_spec(
    m: int, n: int, k: int, types: str = "f32 f32 f32", columns: bool = False
) -> KernelSpec:
    left, right, result = types.split()
    right_dims = f"{n},{k}" if columns else f"{k},{n}"
    return KernelSpec("k", parse_module(f"""
    HloModule m
    ENTRY e {{ x = {left}[{m},{k}] parameter(0)  y = {right}[{right_dims}] parameter(1)
      ROOT d = {result}[{m},{n}] dot(x, y), lhs_contracting_dims={{1}},
        rhs_contracting_dims={{{int(columns)}}} }}
    """).entry)  # fmt: skip


def tactics(spec: KernelSpec, target: TargetTraits = WIDE) -> set[str]:
    return {str(t) for choice in choices(spec, target, 1) for t in choice.tactics}


def key(spec: KernelSpec) -> str:
    (choice,) = choices(spec, WIDE, 1)
    return choice.key


@pytest.mark.parametrize("tactic", TACTICS, ids=str)
def test_text_says_all_of_a_tactic(tactic: Tactic) -> None:
    assert tactic_of(str(tactic)) == tactic


@pytest.mark.parametrize("text", ["tile", "tile=8", "rows=3", "block_rows=many", "tile=8x2x1"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="no part of a tactic"):
        tactic_of(text)


def test_what_comes_later_counts_more() -> None:
    both = Tactic(tile=(8, 3), block_rows=48).and_then(Tactic(block_rows=96, in_tiles=False))
    assert both == Tactic(tile=(8, 3), block_rows=96, in_tiles=False)


@pytest.mark.parametrize(
    ("size", "kept"), [(0, 0), (1, 1), (16, 16), (17, 18), (64, 64), (65, 72), (500, 512)]
)
def test_sizes_keep_four_significant_bits(size: int, kept: int) -> None:
    assert rounded(size) == kept
    assert rounded(kept) == kept


def test_the_first_way_is_the_kernels_own() -> None:
    (choice,) = choices(dot_spec(100, 100, 100), WIDE, 1)
    assert choice.tactics[0] == DEFAULT
    assert len(set(choice.tactics)) == len(choice.tactics)


def test_classes_tell_what_decides() -> None:
    one = key(dot_spec(500, 500, 500))
    assert key(dot_spec(498, 502, 511)) == one
    others = {
        key(dot_spec(500, 512, 500)),  # columns fill tiles
        key(dot_spec(400, 500, 500)),
        key(dot_spec(500, 500, 500, columns=True)),
        key(dot_spec(500, 500, 500, "f64 f64 f64")),
        key(dot_spec(500, 500, 500, "bf16 bf16 f32")),
    }
    assert len(others | {one}) == 6


def test_ways_are_those_that_the_kernel_has() -> None:
    assert "in_tiles=1" in tactics(dot_spec(100, 100, 100))
    for types in ("bf16 bf16 f32", "bf16 bf16 bf16"):  # their pairs are summed in another order
        assert "in_tiles=1" not in tactics(dot_spec(100, 100, 100, types))
    assert "is_streamed=0" in tactics(dot_spec(128, 128, 128))  # it is near
    assert "is_streamed=1" in tactics(dot_spec(512, 512, 512))
    assert not any("stream" in t for t in tactics(dot_spec(128, 24, 128)))  # no tile is full
    assert not any("stream" in t for t in tactics(dot_spec(128, 128, 128, columns=True)))
    assert "block_rows=960" in tactics(dot_spec(241, 128, 128))
    assert "block_rows=960" not in tactics(dot_spec(240, 128, 128))
    assert "tile=6x4" not in tactics(dot_spec(128, 128, 128), NARROW)


def test_parts_are_a_choice_where_threads_share() -> None:
    families = [c.family for c in choices(dot_spec(512, 512, 512), WIDE, 2)]
    assert families == ["dot", "parts"]
    assert [c.family for c in choices(dot_spec(32, 32, 32), WIDE, 2)] == ["dot"]


SORT = """
HloModule m
less {{ a = {t}[] parameter(0)  b = {t}[] parameter(1)
  ROOT l = pred[] compare(a, b), direction={direction} }}
ENTRY e {{ x = {t}[{rows},{size}] parameter(0)
  ROOT s = {t}[{rows},{size}] sort(x), dimensions={{1}}, to_apply=less }}
"""


def sort_spec(size: int, t: str = "s32", direction: str = "LT", rows: int = 8) -> KernelSpec:
    text = SORT.format(size=size, t=t, direction=direction, rows=rows)
    return KernelSpec("k", parse_module(text).entry)


def test_sorts_choose_among_different_ways() -> None:
    assert tactics(sort_spec(1000)) == {"", "sort_way=radix", "sort_way=merge"}
    assert tactics(sort_spec(10000)) == {"", "sort_way=merge"}  # by radix as it is
    assert tactics(sort_spec(20, "s64")) == {"", "sort_way=radix"}  # merged as it is
    assert tactics(sort_spec(1000, "c64", "EQ")) == set()  # no key
    assert tactics(sort_spec(0)) == set()
    keys = {key(sort_spec(1000)), key(sort_spec(1000, "u32")), key(sort_spec(1000, direction="GT"))}
    assert len(keys) == 3


TRANSPOSE = """
HloModule m
ENTRY e {{ x = f32[{n},{m}] parameter(0)  ROOT t = f32[{m},{n}] transpose(x), dimensions={{1,0}}
  {more} }}
"""


def transpose_spec(m: int, n: int, more: str = "") -> KernelSpec:
    text = TRANSPOSE.format(m=m, n=n, more=more.format(m=m, n=n))
    return KernelSpec("k", parse_module(text.replace("ROOT t", "t") if more else text).entry)


def test_transposes_choose_how_to_cross_memory() -> None:
    assert tactics(transpose_spec(500, 300)) == {"", "crossing=tiles", "crossing=rows"}
    assert key(transpose_spec(500, 300)) != key(transpose_spec(501, 300))
    assert (
        tactics(transpose_spec(500, 300, "ROOT r = f32[{m},{n}] tanh(t)")) == set()
    )  # more than a transpose
    assert tactics(transpose_spec(20, 20)) == set()


def test_small_kernels_and_those_in_place_have_none() -> None:
    assert not choices(dot_spec(1, 100, 100), WIDE, 1)
    spec = dot_spec(512, 512, 512)
    assert not choices(KernelSpec("k", spec.computation, frozenset({(0, 0)})), WIDE, 2)
