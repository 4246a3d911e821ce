"""Cases of shapes, layouts and shardings."""

from tests.unit.hlo.proto.case import Case, F
from xladev.hlo import dtype as dt
from xladev.hlo.attributes import AxisRef, IotaTile, Mesh, Metadata, Sharding
from xladev.hlo.dtype import PrimitiveType
from xladev.hlo.shape import (
    OPAQUE_SHAPE,
    TOKEN_SHAPE,
    UNBOUNDED,
    Layout,
    Shape,
    SplitConfig,
    Tile,
    array,
    tuple_of,
)


def _shaped(name: str, text: str, shape: Shape) -> Case:
    return Case(f"shape {name}", (), f"{text} parameter(0)", {"parameter_number": 0}, shape=shape)


def _laid_out(name: str, text: str, layout: Layout) -> Case:
    return _shaped(name, f"f32[4,8]{{{text}}}", array(dt.F32, (4, 8), layout=layout))


def _typed(element_type: PrimitiveType) -> Case:
    shape = array(element_type, (3,)).with_default_layout()
    return _shaped(f"of {element_type}", f"{element_type}[3]{{0}}", shape)


ROWS = (1, 0)
SHAPES = [
    *map(_typed, dt.ARRAY_TYPES),
    _shaped("scalar", "f32[]", array(dt.F32).with_default_layout()),
    _laid_out("columns", "0,1", Layout((0, 1))),
    _laid_out("tiles", "1,0:T(8,128)(2,1)", Layout(ROWS, tiles=(Tile((8, 128)), Tile((2, 1))))),
    _laid_out(
        "alignment", "1,0:T(8)L(16)", Layout(ROWS, tiles=(Tile((8,)),), tail_padding_alignment=16)
    ),
    _laid_out("element bits", "1,0:E(4)", Layout(ROWS, element_bits=4)),
    _laid_out("memory space", "1,0:S(5)", Layout(ROWS, memory_space=5)),
    _laid_out("split", "1,0:SC(1:2,4)", Layout(ROWS, split_configs=(SplitConfig(1, (2, 4)),))),
    _laid_out("prefix", "1,0:T(8)M(8)", Layout(ROWS, tiles=(Tile((8,)),), metadata_prefix_bytes=8)),
    _shaped(
        "bounded",
        "f32[<=4,8]{1,0}",
        array(dt.F32, (4, 8), layout=Layout(ROWS), dynamic=(True, False)),
    ),
    _shaped(
        "unbounded",
        "f32[?,8]{1,0}",
        array(dt.F32, (UNBOUNDED, 8), layout=Layout(ROWS), dynamic=(True, False)),
    ),
    _shaped("token", "token[]", TOKEN_SHAPE),
    _shaped("opaque", "opaque[]", OPAQUE_SHAPE),
    _shaped("empty tuple", "()", tuple_of()),
    _shaped(
        "nested tuple",
        "(f32[2]{0}, (token[], s8[]))",
        tuple_of(
            array(dt.F32, (2,)).with_default_layout(),
            tuple_of(TOKEN_SHAPE, array(dt.S8).with_default_layout()),
        ),
    ),
    _shaped(
        "buffer",
        "b(f32[2]{0})",
        Shape(dt.BUFFER, tuple_shapes=(array(dt.F32, (2,)).with_default_layout(),)),
    ),
]


def _sharded(name: str, text: str, sharding: Sharding) -> Case:
    return Case(f"sharding {name}", (F,), f"{F} negate(p0), sharding={{{text}}}", sharding=sharding)


MESH = Mesh((("a", 2), ("b", 4)))
A, B = AxisRef("a"), AxisRef("b")
NAMED = "mesh['a'=2,'b'=4]"
SHARDINGS = [
    _sharded("replicated", "replicated", Sharding("replicated")),
    _sharded("maximal", "maximal device=3", Sharding("maximal", device=3)),
    _sharded("manual", "manual", Sharding("manual")),
    _sharded("unknown", "unknown", Sharding("unknown")),
    _sharded(
        "unreduced",
        "unreduced",
        Sharding("unreduced", metadata=(Metadata("sdy::reduction_op", "SUM"),)),
    ),
    _sharded("listed", "devices=[2,1]1,0", Sharding("tiled", tile_dims=(2, 1), devices=(1, 0))),
    _sharded(
        "iota",
        "devices=[2,2]<=[2,2]T(1,0)",
        Sharding("tiled", tile_dims=(2, 2), devices=IotaTile((2, 2), (2, 2), (1, 0))),
    ),
    _sharded(
        "partly replicated",
        "devices=[2,1,2]<=[4] last_tile_dim_replicate",
        Sharding(
            "tiled",
            tile_dims=(2, 1, 2),
            devices=IotaTile((2, 1, 2), (4,), (0,)),
            last_tile_dims=("replicated",),
        ),
    ),
    _sharded(
        "subgroups",
        "devices=[2,1,2,2]<=[8] last_tile_dims={manual,replicated}",
        Sharding(
            "tiled",
            tile_dims=(2, 1, 2, 2),
            devices=IotaTile((2, 1, 2, 2), (8,), (0,)),
            last_tile_dims=("manual", "replicated"),
        ),
    ),
    _sharded("as", "replicated shard_as 5", Sharding("replicated", shard_group=("shard_as", 5))),
    _sharded(
        "like",
        "maximal device=1 shard_like 6",
        Sharding("maximal", device=1, shard_group=("shard_like", 6)),
    ),
    _sharded(
        "metadata",
        'replicated metadata={op_name="q"}',
        Sharding("replicated", metadata=(Metadata(op_name="q"),)),
    ),
    _sharded(
        "named",
        f"{NAMED}, [{{'a'}}, {{'b':(2)2,?}}], replicated={{'b':(1)2}}",
        Sharding(
            "named",
            mesh=MESH,
            dim_axes=(((A,), True), ((AxisRef("b", 2, 2),), False)),
            replicated_axes=(AxisRef("b", 1, 2),),
        ),
    ),
    _sharded(
        "named unreduced",
        f"{NAMED}, [{{?}}, {{}}], unreduced=max{{'a'}}, manual={{'b'}}",
        Sharding(
            "named",
            mesh=MESH,
            dim_axes=(((), False), ((), True)),
            unreduced_axes=(A,),
            manual_axes=(B,),
            reduction="max",
        ),
    ),
    Case(
        "sharding tuple",
        (F,),
        f"({F}, {F}) tuple(p0, p0), sharding={{{{replicated}}, {{maximal device=1}}}}",
        sharding=Sharding("tuple", parts=(Sharding("replicated"), Sharding("maximal", device=1))),
    ),
]
