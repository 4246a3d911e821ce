"""Collectives: every opcode on several devices, and every form and mode of groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.tools.rejections import assert_rejected, result_of
from tests.tools.single_op import run, scalar_computation
from xladev.errors import EvaluationError, ShapeError, VerifyError
from xladev.hlo import dtype as dt
from xladev.hlo.attributes import ReplicaGroups
from xladev.hlo.devices import Topology
from xladev.hlo.multi_device import evaluate_replicated
from xladev.hlo.text import parse_module
from xladev.hlo.verifier import verify

REDUCER = """
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
second { a = f32[] parameter(0)  ROOT b = f32[] parameter(1) }
"""


def on(topology: Topology, body: str, arguments: Sequence[Sequence[Any]]) -> list[Any]:
    """Values of an entry computation's body on each device, tuples as lists of lists."""
    module = parse_module(f"HloModule m\n{REDUCER}\nENTRY e {{ {body} }}")
    results = evaluate_replicated(module, arguments, topology=topology)
    return [
        [v.tolist() for v in r] if isinstance(r, tuple) else np.asarray(r).tolist() for r in results
    ]


def scalars(count: int) -> list[list[Any]]:
    """Device i has the argument 10 ** i."""
    return [[np.array(10**i, np.float32)] for i in range(count)]


def summed(attributes: str, topology: Topology) -> list[Any]:
    """What an all-reduce of 1, 10, 100, ... gives each device."""
    body = f"x = f32[] parameter(0)  ROOT r = f32[] all-reduce(x), {attributes}, to_apply=add"
    return on(topology, body, scalars(topology.replica_count * topology.num_partitions))


FOUR, TWO_BY_TWO = Topology(4, 1), Topology(2, 2)


@pytest.mark.parametrize(
    ("groups", "want"),
    [
        ("{}", [1111] * 4),
        ("{{0,1},{2,3}}", [11, 11, 1100, 1100]),
        ("{{3,0},{1,2}}", [1001, 110, 110, 1001]),
        ("{{0},{1,2,3}}", [1, 1110, 1110, 1110]),
        ("{{0,1}}", [11, 11, 100, 1000]),
        ("[2,2]<=[4]", [11, 11, 1100, 1100]),
        ("[2,2]<=[2,2]T(1,0)", [101, 1010, 101, 1010]),
    ],
)
def test_forms_of_groups(groups: str, want: list[int]) -> None:
    assert summed(f"replica_groups={groups}", FOUR) == want


@pytest.mark.parametrize(
    ("axes", "want"),
    [("'a'", [101, 1010, 101, 1010]), ("'b'", [11, 11, 1100, 1100]), ("'a','b'", [1111] * 4)],
)
def test_mesh_axes(axes: str, want: list[int]) -> None:
    groups = f"replica_groups=mesh['a'=2,'b'=2] {{{axes}}}"
    attributes = f"channel_id=1, {groups}, use_global_device_ids=true"
    assert summed(attributes, Topology(1, 4)) == want


# Devices are numbered replica * 2 + partition.
@pytest.mark.parametrize(
    ("attributes", "want"),
    [
        ("replica_groups={}", [101, 1010, 101, 1010]),
        ("replica_groups={{0},{1}}", [1, 10, 100, 1000]),
        ("channel_id=1, replica_groups={{0},{1}}", [11, 11, 1100, 1100]),
        ("channel_id=1, replica_groups={}", [1111] * 4),
        (
            "channel_id=1, replica_groups={{0,3},{1,2}}, use_global_device_ids=true",
            [1001, 110, 110, 1001],
        ),
    ],
)
def test_modes_of_reductions(attributes: str, want: list[int]) -> None:
    assert summed(attributes, TWO_BY_TWO) == want


@pytest.mark.parametrize(
    ("attributes", "want"),
    [
        ("source_target_pairs={{0,1}}", [0, 0, 1, 10]),
        ("channel_id=1, source_target_pairs={{0,1}}", [0, 1, 0, 100]),
    ],
)
def test_modes_of_permutations(attributes: str, want: list[int]) -> None:
    body = f"x = f32[] parameter(0)  ROOT r = f32[] collective-permute(x), {attributes}"
    assert on(TWO_BY_TWO, body, scalars(4)) == want


def test_any_reducer_in_group_order() -> None:
    body = """x = f32[] parameter(0)
    ROOT r = f32[] all-reduce(x), replica_groups={{2,0,1}}, to_apply=second"""
    assert on(Topology(3, 1), body, scalars(3)) == [10, 10, 10]


def vectors(count: int, size: int) -> list[list[Any]]:
    return [[np.arange(size, dtype=np.float32) + 10 * i] for i in range(count)]


def test_all_gather_concatenates_in_group_order() -> None:
    body = """x = f32[2] parameter(0)
    ROOT r = f32[4] all-gather(x), dimensions={0}, replica_groups={{1,0}}"""
    assert on(Topology(2, 1), body, vectors(2, 2)) == [[10, 11, 0, 1]] * 2


def test_all_gather_of_several() -> None:
    body = """x = f32[2] parameter(0)  y = f32[2] negate(x)
    ROOT r = (f32[4], f32[4]) all-gather(x, y), dimensions={0}"""
    want = [[0, 1, 10, 11], [0, -1, -10, -11]]
    assert on(Topology(2, 1), body, vectors(2, 2)) == [want, want]


def test_reduce_scatter_keeps_one_part() -> None:
    body = (
        "x = f32[4] parameter(0)  ROOT r = f32[2] reduce-scatter(x), dimensions={0}, to_apply=add"
    )
    assert on(Topology(2, 1), body, vectors(2, 4)) == [[10, 12], [14, 16]]


def test_all_to_all_of_an_array() -> None:
    body = "x = f32[4] parameter(0)  ROOT r = f32[4] all-to-all(x), dimensions={0}"
    assert on(Topology(2, 1), body, vectors(2, 4)) == [[0, 1, 10, 11], [2, 3, 12, 13]]


def test_all_to_all_of_a_tuple() -> None:
    body = """x = f32[2] parameter(0)  y = f32[2] negate(x)
    ROOT r = (f32[2], f32[2]) all-to-all(x, y), replica_groups={{0,1}}"""
    want = [[[0, 1], [10, 11]], [[0, -1], [-10, -11]]]
    assert on(Topology(2, 1), body, vectors(2, 2)) == want


def test_ragged_all_to_all() -> None:
    body = """x = f32[4] parameter(0)  o = f32[6] parameter(1)  io = s32[2] parameter(2)
    ss = s32[2] parameter(3)  oo = s32[2] parameter(4)  rs = s32[2] parameter(5)
    ROOT r = f32[6] ragged-all-to-all(x, o, io, ss, oo, rs), replica_groups={{0,1}}"""

    def numbers(*values: list[int]) -> list[Any]:
        return [np.array(v, np.int32) for v in values]

    output = np.full(6, -1, np.float32)
    # Device 0 keeps element 0 and sends 1 to 3; device 1 sends 10, 11 and keeps 12.
    first = [np.arange(4, dtype=np.float32), output, *numbers([0, 1], [1, 3], [0, 1], [1, 2])]
    second = [
        np.arange(10, 14, dtype=np.float32), output, *numbers([0, 2], [2, 1], [4, 0], [3, 1]),
    ]  # fmt: skip
    want = [[0, -1, -1, -1, 10, 11], [12, 1, 2, 3, -1, -1]]
    assert on(Topology(2, 1), body, [first, second]) == want


def test_collective_broadcast() -> None:
    body = """x = f32[] parameter(0)
    ROOT r = f32[] collective-broadcast(x), replica_groups={{2,0}}"""
    assert on(Topology(3, 1), body, scalars(3)) == [100, 0, 100]


def test_collective_reduce() -> None:
    body = """x = f32[] parameter(0)
    ROOT r = f32[] collective-reduce(x), replica_groups={{1,0}}, to_apply=add"""
    assert on(Topology(2, 1), body, scalars(2)) == [1, 11]


def test_collective_permute_of_slices() -> None:
    body = """x = f32[4] parameter(0)  o = f32[4] parameter(1)
    a = s32[] constant(1)  b = s32[] constant(2)
    s = (s32[]) tuple(a)  t = (s32[]) tuple(b)
    ROOT r = f32[4] collective-permute(x, o, s, t),
      source_target_pairs={{0,1}}, slice_sizes={{2}}"""
    output = np.full(4, -1, np.float32)
    got = on(Topology(2, 1), body, [[v[0], output] for v in vectors(2, 4)])
    assert got == [[-1, -1, -1, -1], [-1, -1, 1, 2]]


def test_ids() -> None:
    body = "r = u32[] replica-id()  p = u32[] partition-id()  ROOT t = (u32[], u32[]) tuple(r, p)"
    assert on(TWO_BY_TWO, body, [[]] * 4) == [[0, 0], [0, 1], [1, 0], [1, 1]]


def test_shuffle_rotates() -> None:
    x = np.arange(12, dtype=np.int32).reshape(3, 4)
    got = run("shuffle", x, dimensions=(1, 0), mode="rotate", shifts=(1, -1))
    assert got[0].tolist() == [9, 10, 11, 8]


def test_one_device_is_a_group_of_its_own() -> None:
    x = np.arange(4, dtype=np.float32)
    assert run("all-reduce", x, to_apply=scalar_computation("add")).tolist() == x.tolist()
    assert run("all-to-all", x, dimensions=(0,)).tolist() == x.tolist()


def test_groups_of_devices_that_are_not_there_are_refused() -> None:
    with pytest.raises(EvaluationError, match="not there"):
        run("all-reduce", np.float32(1), to_apply=ADD, **groups((0, 1)))


ADD = scalar_computation("add")
PAIR = ReplicaGroups(((0, 1),))
COMPLEX = scalar_computation("complex")
ROOT = {"has_dynamic_root": True}
NUMBERS = ("s32[2]",) * 3
FOUR_NUMBERS = ("s32[2]",) * 4


def groups(*rows: tuple[int, ...]) -> dict[str, Any]:
    return {"replica_groups": ReplicaGroups(rows)}


def pairs(*ends: tuple[int, int], **more: Any) -> dict[str, Any]:
    return {"source_target_pairs": ends, **more}


@pytest.mark.parametrize(
    ("constraint", "opcode", "operands", "attrs"),
    [
        ("all_reduce_groups1", "all-reduce", ("f32[]",), groups((0, 0))),
        ("all_reduce_groups2", "all-reduce", ("f32[]",), groups((-1,))),
        ("all_reduce_groups4", "all-reduce", ("f32[]",), {"use_global_device_ids": True}),
        ("all_reduce_groups5", "all-reduce", ("f32[]",), groups((0, 1), ())),
        ("all_reduce_operand", "all-reduce", ("token",), {}),
        ("all_reduce_c7", "all-reduce", ("f32[]",), {"to_apply": COMPLEX}),
        ("all_gather_groups3", "all-gather", ("f32[2]",), groups((0, 1), (2,))),
        ("all_gather_c1", "all-gather", ("f32[2]",), {"dimensions": (1,)}),
        ("all_gather_c1", "all-gather", ("f32[2]",), {"dimensions": ()}),
        ("reduce_scatter_c1", "reduce-scatter", ("f32[3]",), {"replica_groups": PAIR}),
        ("all_to_all_c1", "all-to-all", ("f32[2]",), {"dimensions": (1,)}),
        ("all_to_all_groups5", "all-to-all", ("f32[2]",), {"dimensions": (0,), **groups(())}),
        ("all_to_all_c2", "all-to-all", ("f32[3]",), {"dimensions": (0,), "replica_groups": PAIR}),
        ("all_to_all_c3", "all-to-all", ("f32[2]", "f32[2]"), {"dimensions": (0,)}),
        ("all_to_all_c3", "all-to-all", ("f32[2]",), {"replica_groups": PAIR}),
        ("all_to_all_c4", "all-to-all", ("f32[2]", "f32[3]"), {}),
        ("ragged_all_to_all_c1", "ragged-all-to-all", ("f32[4]", "s32[4]", *FOUR_NUMBERS), {}),
        ("ragged_all_to_all_c2", "ragged-all-to-all", ("f32[4]", "f32[4]", *NUMBERS, "s32[3]"), {}),
        ("collective_permute_c1", "collective-permute", ("f32[]",), pairs((0, 1), (0, 2))),
        ("collective_permute_c2", "collective-permute", ("f32[]",), pairs((0, 1), (2, 1))),
        ("collective_permute_c3", "collective-permute", ("f32[]",), pairs((-1, 1))),
        ("collective_permute_c4", "collective-permute", ("f32[4]",), pairs(slice_sizes=((1,),))),
        ("collective_broadcast_c8", "collective-broadcast", ("f32[]", "f32[]"), ROOT),
        ("shuffle_c1", "shuffle", ("f32[2]",), {"dimensions": (1,), "shifts": (1,)}),
        ("shuffle_c2", "shuffle", ("f32[2]",), {"shifts": ()}),
        ("shuffle_c3", "shuffle", ("f32[2]",), {"mode": "permute", "shifts": (1,)}),
    ],
)  # fmt: skip
def test_rejects(
    constraint: str, opcode: str, operands: tuple[str, ...], attrs: dict[str, Any]
) -> None:
    given = dict(attrs)
    if opcode in ("all-reduce", "reduce-scatter"):
        given.setdefault("to_apply", ADD)
    if opcode in ("all-gather", "reduce-scatter", "shuffle"):
        given.setdefault("dimensions", (0,))
    assert_rejected(constraint, opcode, *operands, **given)


def test_shapes() -> None:
    gather = {"dimensions": (0,), "replica_groups": PAIR}
    assert result_of("all-gather", "f32[2,3]", **gather) == "f32[4,3]"
    assert result_of("all-gather", "f32[2,3]", to="f32[8,3]", dimensions=(0,)) == "f32[8,3]"
    scatter = {**gather, "to_apply": scalar_computation("add", dt.F32)}
    assert result_of("reduce-scatter", "f32[4,3]", **scatter) == "f32[2,3]"
    del scatter["replica_groups"]
    assert result_of("reduce-scatter", "f32[8,3]", to="f32[2,3]", **scatter) == "f32[2,3]"
    assert result_of("all-to-all", "f32[4,3]", **gather) == "f32[4,3]"
    assert result_of("all-to-all", "f32[3]", "f32[3]", **groups((0, 1))) == "(f32[3], f32[3])"


def test_no_element_is_scattered_into_no_parts() -> None:
    """The size of a group follows from the shapes; none makes 0 elements of 1 by division."""
    text = """add { p = f32[] parameter(0)
      q = f32[] parameter(1)
      ROOT s = f32[] add(p, q) }
    ENTRY e { x = f32[0,2] parameter(0)
      ROOT r = f32[1,2] reduce-scatter(x), replica_groups={}, dimensions={0}, to_apply=add }"""
    with pytest.raises(VerifyError, match=r"is said to be f32\[1,2\]"):
        verify(parse_module(text))


def test_groups_without_members_are_refused() -> None:
    text = """add { p = f32[] parameter(0)
      q = f32[] parameter(1)
      ROOT s = f32[] add(p, q) }
    ENTRY e { x = f32[4,2] parameter(0)
      ROOT r = f32[4,2] reduce-scatter(x), replica_groups={{}}, dimensions={0}, to_apply=add }"""
    with pytest.raises(VerifyError):
        verify(parse_module(text))


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("x = f32[2] parameter(0)  ROOT g = f32[8] all-gather(x), dimensions={0}", (2,)),
        (
            "x = f32[8] parameter(0)  ROOT g = f32[2] reduce-scatter(x), dimensions={0}, "
            "to_apply=add",
            (8,),
        ),
    ],
)
def test_a_result_fits_the_group(body: str, shape: tuple[int, ...]) -> None:
    assert len(on(FOUR, body, [[np.ones(shape, np.float32)]] * 4)) == 4
    with pytest.raises(ShapeError, match="does not fit a group of 2 devices"):
        on(Topology(2, 1), body, [[np.ones(shape, np.float32)]] * 2)
