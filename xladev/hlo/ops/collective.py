"""Opcodes that join several devices."""

from __future__ import annotations

from xladev.hlo.attributes import ReplicaGroups
from xladev.hlo.opdef import VARIADIC, Attr, AttrKind, OpDef, Tolerance

CHANNEL = Attr("channel_id", AttrKind.INT)
GROUPS = Attr("replica_groups", AttrKind.GROUPS, default=ReplicaGroups())
GLOBAL_IDS = Attr("use_global_device_ids", AttrKind.BOOL, default=False)
CONSTRAIN = Attr("constrain_layout", AttrKind.BOOL, default=False)
COLLECTIVE = (CHANNEL, GROUPS, CONSTRAIN)
DIMENSIONS = Attr("dimensions", AttrKind.INTS, required=True)
TO_APPLY = Attr("to_apply", AttrKind.COMPUTATION, required=True)
GATHER = (*COLLECTIVE, GLOBAL_IDS, DIMENSIONS)
REDUCE = (*COLLECTIVE, GLOBAL_IDS, TO_APPLY)
PERMUTE = (
    CHANNEL,
    Attr("source_target_pairs", AttrKind.PAIRS, required=True),
    Attr("slice_sizes", AttrKind.INT_LISTS, default=(), proto="dynamic_slice_sizes"),
)


OPS: tuple[OpDef, ...] = (
    OpDef(
        "all-gather",
        (1, VARIADIC),
        "Concatenates over the group.",
        attrs=GATHER,
        category="collective",
    ),
    OpDef(
        "all-reduce",
        (0, VARIADIC),
        "Reduces over the group.",
        attrs=REDUCE,
        category="collective",
        tolerance=Tolerance.SUM,
    ),
    OpDef(
        "reduce-scatter",
        (1, VARIADIC),
        "Reduces over the group and keeps one part.",
        attrs=(*COLLECTIVE, GLOBAL_IDS, DIMENSIONS, TO_APPLY),
        category="collective",
        tolerance=Tolerance.SUM,
    ),
    OpDef(
        "all-to-all",
        (1, VARIADIC),
        "Exchanges parts within the group.",
        attrs=(*COLLECTIVE, Attr("dimensions", AttrKind.INTS, default=())),
        category="collective",
    ),
    OpDef(
        "ragged-all-to-all",
        6,
        "Exchanges parts of run-time size within the group.",
        attrs=COLLECTIVE,
        category="collective",
    ),
    OpDef(
        "collective-broadcast",
        (1, VARIADIC),
        "Copies from one member to the group.",
        attrs=(*COLLECTIVE, Attr("has_dynamic_root", AttrKind.BOOL, default=False)),
        category="collective",
    ),
    OpDef(
        "collective-reduce",
        (1, VARIADIC),
        "Reduces over the group to its root.",
        attrs=REDUCE,
        category="collective",
        tolerance=Tolerance.SUM,
    ),
    OpDef(
        "collective-permute",
        (1, VARIADIC),
        "Moves values between pairs of devices.",
        attrs=PERMUTE,
        category="collective",
    ),
    OpDef(
        "shuffle",
        1,
        "Moves elements along dimensions; the mode says how, and ``rotate`` is the one there is.",
        attrs=(
            DIMENSIONS,
            Attr("mode", AttrKind.WORD, proto="shuffle_mode"),
            Attr("shifts", AttrKind.INTS, default=(), proto="shuffle_mode.rotate.shifts"),
        ),
        category="collective",
    ),
    OpDef(
        "replica-id",
        0,
        "Index of this replica.",
        category="collective",
    ),
    OpDef(
        "partition-id",
        0,
        "Index of this partition.",
        category="collective",
    ),
)
