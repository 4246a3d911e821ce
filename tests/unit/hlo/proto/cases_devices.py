"""Cases of collectives and asynchronous pairs."""

from tests.unit.hlo.proto.case import ADD, ONE, Case, F
from xladev.hlo.attributes import AxisRef, IotaTile, Mesh, ReplicaGroups

LISTED = ReplicaGroups(((0, 1), (2, 3)))
IOTA = ReplicaGroups(iota=IotaTile((2, 4), (4, 2), (1, 0)))
MESH = Mesh((("a", 2), ("b", 4)))
GLOBAL = "channel_id=1, use_global_device_ids=true"
GLOBAL_ATTRS = {"channel_id": 1, "use_global_device_ids": True}
COLLECTIVE = [
    Case(
        "all-reduce",
        (F,),
        f"{F} all-reduce(p0), replica_groups={{{{0,1}},{{2,3}}}}, {GLOBAL}, constrain_layout=true,"
        " to_apply=add",
        {"replica_groups": LISTED, **GLOBAL_ATTRS, "constrain_layout": True, "to_apply": "add"},
        ADD,
    ),
    Case(
        "all-reduce everywhere",
        (F,),
        f"{F} all-reduce(p0), replica_groups={{}}, to_apply=add",
        {"to_apply": "add"},
        ADD,
    ),
    Case(
        "all-reduce iota",
        (F,),
        f"{F} all-reduce(p0), replica_groups=[2,4]<=[4,2]T(1,0), {GLOBAL}, to_apply=add",
        {"replica_groups": IOTA, **GLOBAL_ATTRS, "to_apply": "add"},
        ADD,
    ),
    Case(
        "all-reduce mesh",
        (F,),
        f"{F} all-reduce(p0), replica_groups=mesh['a'=2,'b'=4] {{'a','b':(2)2}}, {GLOBAL},"
        " to_apply=add",
        {
            "replica_groups": ReplicaGroups(mesh=MESH, axes=(AxisRef("a"), AxisRef("b", 2, 2))),
            **GLOBAL_ATTRS,
            "to_apply": "add",
        },
        ADD,
    ),
    Case(
        "all-reduce mesh ids",
        (F,),
        f"{F} all-reduce(p0), replica_groups=mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0))"
        f" {{'b'}}, {GLOBAL}, to_apply=add",
        {
            "replica_groups": ReplicaGroups(
                mesh=Mesh(MESH.axes, IotaTile((2, 4), (4, 2), (1, 0))), axes=(AxisRef("b"),)
            ),
            **GLOBAL_ATTRS,
            "to_apply": "add",
        },
        ADD,
    ),
    Case(
        "all-gather",
        (F,),
        f"f32[4,16] all-gather(p0), replica_groups={{{{0,1}},{{2,3}}}}, dimensions={{1}}, {GLOBAL}",
        {"replica_groups": LISTED, "dimensions": (1,), **GLOBAL_ATTRS},
    ),
    Case(
        "reduce-scatter",
        (F,),
        f"f32[2,8] reduce-scatter(p0), replica_groups={{{{0,1}},{{2,3}}}}, dimensions={{0}},"
        f" {GLOBAL}, to_apply=add",
        {"replica_groups": LISTED, "dimensions": (0,), **GLOBAL_ATTRS, "to_apply": "add"},
        ADD,
    ),
    Case(
        "all-to-all",
        (F,),
        f"{F} all-to-all(p0), replica_groups={{{{0,1}},{{2,3}}}}, dimensions={{0}}",
        {"replica_groups": LISTED, "dimensions": (0,)},
    ),
    Case(
        "ragged-all-to-all",
        (F, F, "s32[2]", "s32[2]", "s32[2]", "s32[2]"),
        f"{F} ragged-all-to-all(p0, p1, p2, p3, p4, p5), replica_groups={{{{0,1}},{{2,3}}}},"
        " channel_id=2",
        {"replica_groups": LISTED, "channel_id": 2},
    ),
    Case(
        "collective-broadcast",
        (F,),
        f"{F} collective-broadcast(p0), replica_groups={{{{0,1}},{{2,3}}}}, channel_id=2",
        {"replica_groups": LISTED, "channel_id": 2},
    ),
    Case(
        "collective-broadcast dynamic root",
        (F, "s32[]"),
        f"{F} collective-broadcast(p0, p1), replica_groups={{{{0,1}},{{2,3}}}},"
        " has_dynamic_root=true",
        {"replica_groups": LISTED, "has_dynamic_root": True},
    ),
    Case(
        "collective-reduce",
        (F,),
        f"{F} collective-reduce(p0), replica_groups={{{{0,1}},{{2,3}}}}, to_apply=add",
        {"replica_groups": LISTED, "to_apply": "add"},
        ADD,
    ),
    Case(
        "collective-permute",
        (F,),
        f"{F} collective-permute(p0), channel_id=4, source_target_pairs={{{{0,1}},{{1,2}}}}",
        {"channel_id": 4, "source_target_pairs": ((0, 1), (1, 2))},
    ),
    Case(
        "collective-permute slices",
        (F, F, "(s32[], s32[])", "(s32[], s32[])"),
        f"{F} collective-permute(p0, p1, p2, p3), source_target_pairs={{{{0,1}}}},"
        " slice_sizes={{1,2}}",
        {"source_target_pairs": ((0, 1),), "slice_sizes": ((1, 2),)},
    ),
    Case(
        "shuffle",
        (F,),
        f"{F} shuffle(p0), dimensions={{0,1}}, mode=rotate, shifts={{-1,2}}",
        {"dimensions": (0, 1), "mode": "rotate", "shifts": (-1, 2)},
    ),
]

START = f"(({F}), {F}, s32[])"
ASYNC = [
    Case(
        "async-start",
        (F,),
        f'{START} async-start(p0), calls=one, async_execution_thread="side"',
        {"calls": "one", "async_execution_thread": "side"},
        ONE + ', execution_thread="side"',
    ),
    Case(
        "async-update",
        (F,),
        f"{START} async-update(s)",
        {},
        ONE,
        f"  s = {START} async-start(p0), calls=one",
    ),
    Case(
        "async-done",
        (F,),
        f"{F} async-done(s)",
        {},
        ONE,
        f"  s = {START} async-start(p0), calls=one",
    ),
    Case(
        "all-gather-start",
        (F,),
        f"({F}, f32[8,8]) all-gather-start(p0), replica_groups={{{{0,1}},{{2,3}}}},"
        f" dimensions={{0}}, {GLOBAL}",
        {"replica_groups": LISTED, "dimensions": (0,), **GLOBAL_ATTRS},
    ),
    Case(
        "all-gather-done",
        (F,),
        "f32[8,8] all-gather-done(s)",
        before=f"  s = ({F}, f32[8,8]) all-gather-start(p0), replica_groups={{{{0,1}}}},"
        " dimensions={0}",
    ),
    Case(
        "all-reduce-start",
        (F,),
        f"{F} all-reduce-start(p0), replica_groups={{{{0,1}},{{2,3}}}}, {GLOBAL}, to_apply=add",
        {"replica_groups": LISTED, **GLOBAL_ATTRS, "to_apply": "add"},
        ADD,
    ),
    Case(
        "all-reduce-done",
        (F,),
        f"{F} all-reduce-done(s)",
        {},
        ADD,
        f"  s = {F} all-reduce-start(p0), replica_groups={{}}, to_apply=add",
    ),
    Case(
        "collective-permute-start",
        (F,),
        f"({F}, {F}) collective-permute-start(p0), channel_id=4,"
        " source_target_pairs={{0,1},{1,2}}",
        {"channel_id": 4, "source_target_pairs": ((0, 1), (1, 2))},
    ),
    Case(
        "collective-permute-done",
        (F,),
        f"{F} collective-permute-done(s)",
        before=f"  s = ({F}, {F}) collective-permute-start(p0), channel_id=4,"
        " source_target_pairs={{0,1}}",
    ),
    Case(
        "copy-start",
        (F,),
        f"({F}, {F}, u32[]) copy-start(p0), cross_program_prefetch_index=0",
        {"cross_program_prefetch_index": 0},
    ),
    Case(
        "copy-done",
        (F,),
        f"{F} copy-done(s)",
        before=f"  s = ({F}, {F}, u32[]) copy-start(p0)",
    ),
]
