"""Random modules that set random attributes of random opcodes: material for round trips.

They obey the grammar, not the opset's shape rules: the parser asks for no more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from xladev.hlo import dtype as dt
from xladev.hlo.attributes import (
    AxisRef,
    ConvDims,
    IotaTile,
    Mesh,
    Metadata,
    ModuleAlias,
    Origin,
    OutputAlias,
    PadDim,
    ReplicaGroups,
    ResultAccuracy,
    Sharding,
    SliceDim,
    WindowDim,
)
from xladev.hlo.ir import (
    Annotations,
    HloComputation,
    HloInstruction,
    HloModule,
    ModuleHeader,
    StackFrames,
)
from xladev.hlo.literal import Literal
from xladev.hlo.opdef import Attr, AttrKind, OpDef
from xladev.hlo.opset import OPSET
from xladev.hlo.shape import (
    TOKEN_SHAPE,
    Layout,
    Shape,
    SplitConfig,
    Tile,
    array,
    tuple_of,
)
from xladev.hlo.text.spellings import known_words

Draw = st.DrawFn

small = st.integers(0, 5)
integers = st.integers(-(2**63), 2**63 - 1)
sizes = st.integers(1, 4)
texts = st.text(st.characters(codec="utf-8"), max_size=8)
words = st.from_regex(r"[a-z_][a-z0-9_.\-]{0,5}", fullmatch=True)
names = st.one_of(words, st.text(st.characters(codec="utf-8"), min_size=1, max_size=5))
finite = st.floats(allow_nan=False, width=64)


def tuples(item: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(item, max_size=most).map(tuple)


# -- shapes and literals


@st.composite
def array_shapes(draw: Draw, rank: int | None = None) -> Shape:
    dims = draw(st.lists(small, max_size=3 if rank is None else rank))
    layout = draw(st.none() | layouts(len(dims)))
    dynamic = draw(st.just(()) | st.tuples(*(st.booleans() for _ in dims)))
    return array(draw(st.sampled_from(dt.ARRAY_TYPES)), dims, layout=layout, dynamic=dynamic)


@st.composite
def layouts(draw: Draw, rank: int) -> Layout:
    return Layout(
        minor_to_major=tuple(draw(st.permutations(range(rank)))),
        dim_level_types=draw(st.just(()) | tuples(st.sampled_from(["D", "C+", "S~", "H+~"]))),
        tiles=draw(tuples(tuples(sizes).filter(bool).map(Tile), 2)),
        tail_padding_alignment=draw(sizes),
        index_type=draw(st.none() | st.just(dt.U32)),
        pointer_type=draw(st.none() | st.just(dt.U64)),
        element_bits=draw(small),
        memory_space=draw(small),
        split_configs=draw(tuples(st.builds(SplitConfig, small, tuples(small).filter(bool)), 2)),
        metadata_prefix_bytes=draw(small),
    )


leaves = array_shapes() | st.just(TOKEN_SHAPE)
shapes = st.recursive(leaves, lambda s: st.lists(s, max_size=3).map(lambda p: tuple_of(*p)))


@st.composite
def literals(draw: Draw, shape: Shape) -> Literal:
    if shape.is_tuple:
        return Literal(shape, parts=tuple(draw(literals(part)) for part in shape.tuple_shapes))
    if not shape.is_array or draw(st.integers(0, 9)) == 0:
        return Literal(shape, elided=shape.is_array)
    element = shape.element_type
    if element is dt.PRED:
        values = np.array(draw(_list_of(st.booleans(), shape)), np.bool_)
    elif element.is_integral:
        low = -(1 << element.bits - 1) if element.is_signed else 0
        found = draw(_list_of(st.integers(low, low + (1 << element.bits) - 1), shape))
        values = np.array(found, np.int64 if element.is_signed else np.uint64).astype(element.np)
    else:
        bits = draw(_list_of(st.integers(0, (1 << element.bits) - 1), shape))
        raw = b"".join(b.to_bytes(element.host_nbytes, "little") for b in bits)
        values = np.frombuffer(raw, element.np)
    return Literal(shape, values.reshape(shape.dims))


def _list_of(item: st.SearchStrategy[Any], shape: Shape) -> st.SearchStrategy[list[Any]]:
    return st.lists(item, min_size=shape.size, max_size=shape.size)


typed_literals = shapes.flatmap(literals)

# -- devices

device_ids = st.integers(0, 9)


@st.composite
def iotas(draw: Draw, dims: tuple[int, ...]) -> IotaTile:
    reshape = draw(st.permutations(dims)) if dims else ()
    return IotaTile(dims, tuple(reshape), tuple(draw(st.permutations(range(len(dims))))))


@st.composite
def meshes(draw: Draw) -> Mesh:
    axes = draw(
        st.dictionaries(texts, sizes, min_size=1, max_size=3).map(lambda d: tuple(d.items()))
    )
    dims = tuple(size for _, size in axes)
    listed = st.permutations(range(int(np.prod(dims)))).map(tuple)
    iota = iotas(dims).filter(lambda i: len(i.reshape_dims) > 1)
    return Mesh(axes, draw(st.none() | listed | (iota if len(dims) > 1 else st.none())))


def axes_of(mesh: Mesh) -> st.SearchStrategy[tuple[AxisRef, ...]]:
    whole = st.sampled_from(mesh.axes).map(lambda axis: AxisRef(axis[0]))
    part = st.sampled_from(mesh.axes).map(lambda axis: AxisRef(axis[0], 1, axis[1]))
    return tuples(whole | part)


tile_dims = st.lists(sizes, min_size=1, max_size=3).map(tuple)
metadata = st.builds(
    Metadata, texts, texts, texts, small, small, small, small, small, texts, texts, tuples(sizes),
    small, small, st.booleans(),
)  # fmt: skip


@st.composite
def plain_shardings(draw: Draw) -> Sharding:
    kind = draw(
        st.sampled_from(["replicated", "manual", "unreduced", "unknown", "maximal", "tiled"])
    )
    fields: dict[str, Any] = {"metadata": draw(tuples(metadata, 2))}
    fields["shard_group"] = draw(
        st.none() | st.tuples(st.sampled_from(["shard_as", "shard_like"]), small)
    )
    if kind == "maximal":
        fields["device"] = draw(device_ids)
    if kind == "tiled":
        dims = draw(tile_dims)
        listed = st.lists(device_ids, min_size=int(np.prod(dims)), max_size=int(np.prod(dims)))
        kinds = st.sampled_from(["replicated", "manual"])
        fields |= {
            "tile_dims": dims,
            "devices": draw(listed.map(tuple) | iotas(dims)),
            "last_tile_dims": draw(tuples(kinds, 2)),
        }
    return Sharding(kind, **fields)


@st.composite
def named_shardings(draw: Draw) -> Sharding:
    mesh = draw(meshes())
    unreduced = draw(axes_of(mesh))
    return Sharding(
        "named",
        mesh=mesh,
        dim_axes=draw(tuples(st.tuples(axes_of(mesh), st.booleans()))),
        replicated_axes=draw(axes_of(mesh)),
        unreduced_axes=unreduced,
        manual_axes=draw(axes_of(mesh)),
        reduction=draw(st.sampled_from(["sum", "max"])) if unreduced else "sum",
        metadata=draw(tuples(metadata, 2)),
    )


shardings = st.recursive(
    plain_shardings() | named_shardings(),
    lambda s: st.lists(s, max_size=3).map(lambda p: Sharding("tuple", parts=tuple(p))),
    max_leaves=4,
)


@st.composite
def replica_groups(draw: Draw) -> ReplicaGroups:
    form = draw(st.integers(0, 2))
    if form == 0:
        return ReplicaGroups(draw(tuples(tuples(device_ids))))
    if form == 1:
        return ReplicaGroups(iota=draw(iotas(draw(st.tuples(sizes, sizes)))))
    mesh = draw(meshes())
    return ReplicaGroups(mesh=mesh, axes=draw(axes_of(mesh)))


# -- attributes

index = tuples(small)


@st.composite
def conv_dims(draw: Draw) -> ConvDims:
    rank = draw(st.integers(0, 3))
    sides: list[Any] = []
    for _ in range(3):
        first, second, *spatial = draw(st.permutations(range(rank + 2)))
        sides += [first, second, tuple(spatial)]
    return ConvDims(*sides)


windows = tuples(st.builds(WindowDim, *[integers] * 6, st.booleans()))
accuracies = st.builds(ResultAccuracy, st.just(""), finite, finite, integers) | st.builds(
    ResultAccuracy, st.sampled_from(["highest", "default"])
)
settings = st.sampled_from(["{lhs={sparsity=2x4 idx=2}}", "{}", "{rhs={scale_idx=2} lhs={idx=1}}"])

VALUES: dict[AttrKind, st.SearchStrategy[Any]] = {
    AttrKind.INT: integers,
    AttrKind.BOOL: st.booleans(),
    AttrKind.FLOAT: finite,
    AttrKind.STRING: texts,
    AttrKind.INTS: tuples(integers),
    AttrKind.BOOLS: tuples(st.booleans()),
    AttrKind.INT_LISTS: tuples(tuples(integers)),
    AttrKind.PAIRS: tuples(st.tuples(integers, integers)),
    AttrKind.WINDOW: windows,
    AttrKind.CONV_DIMS: conv_dims(),
    AttrKind.SLICE: tuples(st.builds(SliceDim, integers, integers, integers)),
    AttrKind.PADDING: tuples(st.builds(PadDim, integers, integers, integers)),
    AttrKind.LITERAL: typed_literals,
    AttrKind.GROUPS: replica_groups(),
    AttrKind.SHAPE: shapes,
    AttrKind.SHAPES: tuples(shapes),
    AttrKind.ALIASING: tuples(st.builds(OutputAlias, index, integers, index)),
    AttrKind.ACCURACY: accuracies,
    AttrKind.SHARDINGS: st.tuples(shardings, shardings),
    AttrKind.SPARSITY: settings,
}


def value_of(op: OpDef, attr: Attr, callees: list[HloComputation]) -> st.SearchStrategy[Any]:
    if attr.kind is AttrKind.COMPUTATION:
        return st.sampled_from(callees)
    if attr.kind is AttrKind.COMPUTATIONS:
        return tuples(st.sampled_from(callees))
    if attr.kind in (AttrKind.WORD, AttrKind.WORDS):
        word = st.sampled_from(sorted(known_words(op.name, attr) or {"word"}))
        return word if attr.kind is AttrKind.WORD else tuples(word)
    return VALUES[attr.kind]


# -- notes, instructions, modules

pairs = st.dictionaries(names, texts, max_size=2).map(lambda d: tuple(sorted(d.items())))
configs = texts | st.sampled_from(['{"a": {"b": "}"}}', "{", "{} {}", '{"\\u00e9": [1, 2]}'])


@st.composite
def origins(draw: Draw) -> Origin:
    count = draw(st.integers(0, 3))
    value = st.tuples(texts.filter(bool), index)
    leaf_values = [draw(value) for _ in range(count)]
    indices: list[tuple[int, ...]] = [()] if count == 1 else [(i // 2, i % 2) for i in range(count)]
    pairs_ = zip(indices, leaf_values, strict=True)
    calls = draw(st.sampled_from(["", "synthetic_call", "a b"]))
    return Origin(tuple((i, name, part) for i, (name, part) in pairs_), calls)


@st.composite
def annotations(draw: Draw, before: list[HloInstruction]) -> Annotations:
    return Annotations(
        metadata=draw(metadata),
        sharding=draw(st.none() | shardings),
        frontend_attributes=draw(pairs),
        backend_config=draw(configs),
        control_predecessors=draw(tuples(st.sampled_from(before), 2)) if before else (),
        origin=draw(st.none() | origins()),
        statistics=draw(tuples(st.tuples(words, finite))),
        device=draw(st.none() | texts),
    )


@st.composite
def computations(
    draw: Draw, label: str, taken: set[str], callees: list[HloComputation]
) -> HloComputation:
    instructions = [parameter(draw, 0, taken)]
    for _ in range(draw(st.integers(0, 4))):
        instructions.append(instruction(draw, taken, instructions, callees))
    thread = draw(st.sampled_from(["", "side", 'a"b']))
    root = draw(st.sampled_from(instructions))
    return HloComputation(label, tuple(instructions), root, thread)


def fresh(draw: Draw, taken: set[str]) -> str:
    name = draw(names.filter(lambda n: n not in taken and "#" not in n))
    taken.add(name)
    return name


def parameter(draw: Draw, number: int, taken: set[str]) -> HloInstruction:
    attrs = {
        "parameter_number": number,
        "parameter_replication": draw(st.none() | tuples(st.booleans())),
    }
    return HloInstruction(OPSET["parameter"], draw(shapes), (), attrs, fresh(draw, taken))


def instruction(
    draw: Draw,
    taken: set[str],
    before: list[HloInstruction],
    callees: list[HloComputation],
) -> HloInstruction:
    usable = [
        o for o in OPSET.values() if o.name != "parameter" and (callees or not needs_callee(o))
    ]
    op = draw(st.sampled_from(usable))
    least, most = op.arity_range
    count = draw(st.integers(least, least + 2 if most < 0 else most))
    operands = tuple(draw(st.sampled_from(before)) for _ in range(count))
    shape = draw(shapes)
    attrs: dict[str, Any] = {}
    for attr in op.attrs:
        if op.name == "constant":
            attrs[attr.name] = draw(literals(shape))
        elif attr.required or (
            draw(st.booleans()) and not (needs_callee_attr(attr) and not callees)
        ):
            attrs[attr.name] = draw(value_of(op, attr, callees))
    if op.name == "topk":
        attrs["is_stable"] = True
    if op.name == "compare":
        attrs.pop("type", None)
    note = draw(annotations(before)) if draw(st.booleans()) else Annotations()
    return HloInstruction(op, shape, operands, attrs, fresh(draw, taken), note)


def needs_callee_attr(attr: Attr) -> bool:
    return attr.kind in (AttrKind.COMPUTATION, AttrKind.COMPUTATIONS)


def needs_callee(op: OpDef) -> bool:
    return any(attr.required and needs_callee_attr(attr) for attr in op.attrs)


headers = st.builds(
    ModuleHeader,
    is_scheduled=st.booleans(),
    replica_count=sizes,
    num_partitions=sizes,
    aliases=tuples(
        st.builds(ModuleAlias, index, small, index, st.sampled_from(["may-alias", "must-alias"]))
    ),
    buffer_donors=tuples(st.tuples(small, index)),
    alias_passthrough_params=st.booleans(),
    frontend_attributes=pairs,
    propagate_to_parameters=tuples(st.booleans()),
    propagate_to_output=tuples(st.booleans()),
    origin_recovery_table=st.sampled_from(["", '{ {"a"} : {"b"} }']),
    debug_attributes=st.sampled_from(["", '{ {"a"}: {op_id=1} }']),
    backend_config=configs,
    stack_frames=st.builds(
        StackFrames,
        tuples(texts),
        tuples(texts),
        tuples(st.tuples(*[small] * 6)),
        tuples(st.tuples(small, small)),
    ),
)


@st.composite
def modules(draw: Draw) -> HloModule:
    taken: set[str] = set()
    labels = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    made: list[HloComputation] = []
    for label in labels:
        made.append(draw(computations(label, taken, made)))
    return HloModule(draw(names), made[-1], draw(headers))
