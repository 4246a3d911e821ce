"""Rules of slices, pads and concatenations."""

import pytest

from tests.unit.passes.algebra.rule_cases import Case, check
from xladev.passes.algebra import slicing as s

CASES = (
    Case(s.slice_all, "x: f32[2,1] | ROOT r = f32[2,1] slice(x), slice={[0:2], [0:1:3]}", "x"),
    Case(
        s.slice_twice,
        "x: f32[20] | m = f32[6] slice(x), slice={[2:20:3]}  "
        "ROOT r = f32[3] slice(m), slice={[1:6:2]}",
        "ROOT r = f32[3] slice(x), slice={[5:18:6]}",
    ),
    Case(
        s.slice_twice,
        "x: f32[20] | m = f32[6] slice(x), slice={[2:20:3]}  "
        "ROOT r = f32[0] slice(m), slice={[6:6]}",
        "ROOT r = f32[0] slice(x), slice={[0:0]}",
    ),
    Case(
        s.slice_broadcast,
        "x: f32[4] | m = f32[3,4] broadcast(x), dimensions={1}  "
        "ROOT r = f32[2,2] slice(m), slice={[0:2], [1:3]}",
        "m = f32[2] slice(x), slice={[1:3]}  ROOT r = f32[2,2] broadcast(m), dimensions={1}",
    ),
    Case(
        s.slice_broadcast,
        "x: f32[4] | m = f32[3,4] broadcast(x), dimensions={1}  "
        "ROOT r = f32[2,4] slice(m), slice={[0:2], [0:4]}",
        "ROOT r = f32[2,4] broadcast(x), dimensions={1}",
    ),
    Case(
        s.slice_concatenate,
        "x: f32[4]; y: f32[3]; z: f32[2] | m = f32[9] concatenate(x, y, z), dimensions={0}  "
        "ROOT r = f32[2] slice(m), slice={[5:7]}",
        "ROOT r = f32[2] slice(y), slice={[1:3]}",
    ),
    Case(
        s.slice_concatenate,
        "x: f32[4]; y: f32[3]; z: f32[2] | m = f32[9] concatenate(x, y, z), dimensions={0}  "
        "ROOT r = f32[2] slice(m), slice={[5:9:3]}",
        "m = f32[5] concatenate(y, z), dimensions={0}  ROOT r = f32[2] slice(m), slice={[1:5:3]}",
    ),
    Case(
        s.slice_concatenate,
        "x: f32[4]; y: f32[3] | m = f32[7] concatenate(x, y), dimensions={0}  "
        "ROOT r = f32[2] slice(m), slice={[3:5]}",
    ),
    Case(
        s.slice_pad,
        "x: f32[4]; v: f32[] | m = f32[9] pad(x, v), padding=2_3  "
        "ROOT r = f32[2] slice(m), slice={[3:6:2]}",
        "ROOT r = f32[2] slice(x), slice={[1:4:2]}",
    ),
    Case(
        s.slice_pad,
        "x: f32[4]; v: f32[] | m = f32[9] pad(x, v), padding=2_3  "
        "ROOT r = f32[2] slice(m), slice={[7:9]}",
        "ROOT r = f32[2] broadcast(v)",
    ),
    Case(
        s.slice_pad,
        "x: f32[4]; v: f32[] | m = f32[9] pad(x, v), padding=2_3  "
        "ROOT r = f32[2] slice(m), slice={[1:3]}",
    ),
    Case(
        s.slice_pad,
        "x: f32[4]; v: f32[] | m = f32[7] pad(x, v), padding=0_0_1  "
        "ROOT r = f32[2] slice(m), slice={[2:4]}",
    ),
    Case(
        s.pad_nothing, "x: f32[4,1]; v: f32[] | ROOT r = f32[4,1] pad(x, v), padding=0_0x0_0_3", "x"
    ),
    Case(s.pad_nothing, "x: f32[4]; v: f32[] | ROOT r = f32[4] pad(x, v), padding=1_-1"),
    Case(
        s.pad_empty,
        "x: f32[0]; v: f32[] | ROOT r = f32[3] pad(x, v), padding=1_2",
        "ROOT r = f32[3] broadcast(v)",
    ),
    Case(
        s.pad_negative,
        "x: f32[9]; v: f32[] | ROOT r = f32[4] pad(x, v), padding=-2_-3",
        "ROOT r = f32[4] slice(x), slice={[2:6]}",
    ),
    Case(s.pad_negative, "x: f32[9]; v: f32[] | ROOT r = f32[8] pad(x, v), padding=1_-2"),
    Case(
        s.pad_twice,
        "x: f32[9]; v: f32[] | m = f32[12] pad(x, v), padding=1_2  "
        "ROOT r = f32[15] pad(m, v), padding=3_0",
        "ROOT r = f32[15] pad(x, v), padding=4_2",
    ),
    Case(
        s.pad_twice,
        "x: f32[9]; v: f32[]; w: f32[] | m = f32[12] pad(x, v), padding=1_2  "
        "ROOT r = f32[15] pad(m, w), padding=3_0",
    ),
    Case(
        s.pad_with_same,
        "v: f32[] | m = f32[2] broadcast(v)  ROOT r = f32[6] pad(m, v), padding=1_2_1",
        "ROOT r = f32[6] broadcast(v)",
    ),
    Case(s.concatenate_some, "x: f32[4] | ROOT r = f32[4] concatenate(x), dimensions={0}", "x"),
    Case(
        s.concatenate_some,
        "x: f32[4]; y: f32[0]; z: f32[1] | ROOT r = f32[5] concatenate(x, y, z), dimensions={0}",
        "ROOT r = f32[5] concatenate(x, z), dimensions={0}",
    ),
    Case(
        s.concatenate_twice,
        "x: f32[4]; y: f32[3]; z: f32[1] | m = f32[7] concatenate(x, y), dimensions={0}  "
        "ROOT r = f32[8] concatenate(z, m), dimensions={0}",
        "ROOT r = f32[8] concatenate(z, x, y), dimensions={0}",
    ),
    Case(
        s.concatenate_twice,
        "x: f32[2,2]; z: f32[2,4] | m = f32[2,4] concatenate(x, x), dimensions={1}  "
        "ROOT r = f32[4,4] concatenate(z, m), dimensions={0}",
    ),
    Case(
        s.concatenate_broadcasts,
        "v: f32[] | a = f32[3] broadcast(v)  b = f32[2] broadcast(v)  "
        "ROOT r = f32[5] concatenate(a, b), dimensions={0}",
        "ROOT r = f32[5] broadcast(v)",
    ),
    Case(
        s.concatenate_slices,
        "x: f32[9]; y: f32[1] | a = f32[3] slice(x), slice={[1:4]}  "
        "b = f32[2] slice(x), slice={[4:6]}  "
        "ROOT r = f32[6] concatenate(y, a, b), dimensions={0}",
        "s = f32[5] slice(x), slice={[1:6]}  ROOT r = f32[6] concatenate(y, s), dimensions={0}",
    ),
    Case(
        s.concatenate_slices,
        "x: f32[9] | a = f32[3] slice(x), slice={[1:4]}  b = f32[2] slice(x), slice={[5:7]}  "
        "ROOT r = f32[5] concatenate(a, b), dimensions={0}",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule(case: Case) -> None:
    check(case)


def test_every_rule_has_a_case_in_which_it_applies() -> None:
    assert {c.rule for c in CASES if c.after} == set(s.SLICING)
