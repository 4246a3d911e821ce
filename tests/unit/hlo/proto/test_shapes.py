"""Shapes, layouts, meshes and device lists that are malformed, or that older writers made."""

from typing import Any

import pytest

from xladev.errors import ProtoError
from xladev.hlo import dtype as dt
from xladev.hlo.attributes import AxisRef, IotaTile, Mesh, ReplicaGroups, Sharding
from xladev.hlo.proto.decode import decode
from xladev.hlo.proto.encode import encode
from xladev.hlo.proto.groups import read_groups
from xladev.hlo.proto.mesh import write_axes
from xladev.hlo.proto.message import Message
from xladev.hlo.proto.schema import MESSAGES
from xladev.hlo.proto.shapes import read_program_shape, read_shape, write_shape
from xladev.hlo.proto.shardings import read_sharding
from xladev.hlo.shape import Layout, Shape, Tile, array, tuple_of

F32_2 = write_shape(array(dt.F32, (2,)))


def message(name: str, **fields: Any) -> Message:
    return decode(encode(name, fields), MESSAGES[name])


def shape(**fields: Any) -> Message:
    return message("ShapeProto", **{"element_type": "F32", **fields})


def layout(**fields: Any) -> bytes:
    return encode("LayoutProto", {"minor_to_major": (0,), **fields})


def test_what_a_layout_leaves_out() -> None:
    found = read_shape(shape(dimensions=(2,), layout=layout()))
    assert found == array(dt.F32, (2,), layout=Layout((0,)))
    assert found.layout is not None and found.layout.tail_padding_alignment == 1


def test_sparse_layouts() -> None:
    whole = Layout(
        (1, 0),
        dim_level_types=("D", "C+~"),
        index_type=dt.U32,
        pointer_type=dt.U64,
        tiles=(Tile((-(2**63), 128)),),
        physical_shape=array(dt.F32, (10,)),
    )
    sparse = array(dt.F32, (4, 8), layout=whole)
    assert read_shape(decode(write_shape(sparse), MESSAGES["ShapeProto"])) == sparse


def test_a_tuple_of_many_levels() -> None:
    deep = tuple_of()
    for _ in range(60):
        deep = tuple_of(deep)
    assert read_shape(decode(write_shape(deep), MESSAGES["ShapeProto"])) == deep


@pytest.mark.parametrize(
    "fields, what",
    [
        ({"dimensions": (-2,)}, "size -2"),
        ({"dimensions": (-1,), "is_dynamic_dimension": (True,)}, "size -1"),
        ({"dimensions": (-(2**63),)}, "size -1"),
        ({"dimensions": (2**62, 2**62)}, "bytes"),
        ({"dimensions": (1,) * 300}, "rank 300"),
        ({"dimensions": (2, 3), "is_dynamic_dimension": (True,)}, "dynamic flags"),
        ({"dimensions": (2,), "layout": layout(minor_to_major=(1,))}, "does not fit rank"),
        ({"dimensions": (2, 2), "layout": layout()}, "does not fit rank"),
        (
            {"dimensions": (2,), "layout": layout(dim_unique=(False,))},
            "levels and their flags",
        ),
        *(
            ({"dimensions": (2,), "layout": layout(minor_to_major=(0,), **fields)}, what)
            for fields, what in (
                ({"memory_space": -1}, "negative size"),
                ({"element_size_in_bits": -4}, "negative size"),
                ({"tail_padding_alignment_in_elements": -8}, "negative size"),
                ({"dynamic_shape_metadata_prefix_bytes": -1}, "negative size"),
                ({"tiles": [b""]}, "a tile that is none"),
                ({"tiles": [encode("TileProto", {"dimensions": (-3,)})]}, "a tile that is none"),
                ({"split_configs": [b""]}, "splits nothing"),
            )
        ),
        ({"tuple_shapes": [F32_2]}, "1 parts"),
        ({"element_type": "TUPLE", "dimensions": (2,)}, "a tuple has 1 dimensions"),
        ({"element_type": "BUFFER", "tuple_shapes": [F32_2, F32_2]}, "2 parts"),
        ({"element_type": "PRIMITIVE_TYPE_INVALID"}, "primitive type 0"),
    ],
)
def test_malformed_shapes(fields: dict[str, Any], what: str) -> None:
    with pytest.raises(ProtoError, match=what) as caught:
        read_shape(shape(**fields))
    assert caught.value.where


def test_a_buffer_holds_one_array() -> None:
    found = read_shape(shape(element_type="BUFFER", tuple_shapes=[F32_2]))
    assert found == Shape(dt.BUFFER, tuple_shapes=(array(dt.F32, (2,)),))
    with pytest.raises(ProtoError):
        read_shape(shape(element_type="BUFFER"))


def test_an_interface_has_a_result() -> None:
    with pytest.raises(ProtoError, match="no result"):
        read_program_shape(message("ProgramShapeProto", parameters=[F32_2]))


IOTA = {"iota_reshape_dims": (4, 2), "iota_transpose_perm": (1, 0)}


@pytest.mark.parametrize(
    "fields, what",
    [
        ({"tile_assignment_dimensions": (2, 2), "tile_assignment_devices": (0,)}, "do not fill"),
        ({"tile_assignment_dimensions": (2, 2), **IOTA}, "do not fill"),
        ({"tile_assignment_dimensions": (-8,), **IOTA}, "do not fill"),
        (
            {"tile_assignment_dimensions": (8,), **IOTA, "iota_transpose_perm": (1, 1)},
            "does not permute",
        ),
    ],
)
def test_malformed_shardings(fields: dict[str, Any], what: str) -> None:
    with pytest.raises(ProtoError, match=what):
        read_sharding(message("OpSharding", type="OTHER", **fields))


def test_an_axis_must_be_of_the_mesh() -> None:
    axis = encode("AxisRefProto", {"mesh_axis_index": 2})
    named = encode("NamedShardingProto", {"replicated_axes": [axis]})
    with pytest.raises(ProtoError, match="axis 2"):
        read_sharding(message("OpSharding", named_sharding=named))
    part = encode("AxisRefProto.SubAxis", {"pre_size": 2, "size": 2})
    small = encode("MeshProto", {"axes": [encode("MeshProto.MeshAxis", {"name": "a", "size": 2})]})
    axis = encode("AxisRefProto", {"sub_axis_info": part})
    named = encode("NamedShardingProto", {"mesh": small, "replicated_axes": [axis]})
    with pytest.raises(ProtoError, match=r"axis 'a' of size 2 has no part \(2\)2"):
        read_sharding(message("OpSharding", named_sharding=named))
    with pytest.raises(ProtoError, match="no axis 'z'"):
        write_axes((AxisRef("z"),), Mesh((("a", 2),)))


def test_a_maximal_sharding_of_older_writers() -> None:
    found = read_sharding(
        message(
            "OpSharding",
            type="MAXIMAL",
            tile_assignment_dimensions=(1,),
            tile_assignment_devices=(3,),
        )
    )
    assert found == Sharding("maximal", device=3)


def test_a_tuple_sharding_is_its_parts() -> None:
    group = {"is_shard_group": True, "shard_group_type": "AS", "shard_group_id": 1}
    parts = (encode("OpSharding", {"type": "REPLICATED", **group}),)
    found = read_sharding(message("OpSharding", type="TUPLE", tuple_shardings=parts, **group))
    assert found == Sharding("tuple", parts=(Sharding("replicated", shard_group=("shard_as", 1)),))


def test_replica_groups_of_older_writers() -> None:
    group = encode("ReplicaGroup", {"replica_ids": (0, 1)})
    assert read_groups(message("HloInstructionProto", replica_groups=[group])) == ReplicaGroups(
        ((0, 1),)
    )
    iota = {"num_replica_groups": 4, "num_devices_per_group": 2, **IOTA}
    inner = encode("IotaReplicaGroupListProto", iota)
    listed = encode("CollectiveDeviceListProto", {"iota_replica_group_list": inner})
    found = read_groups(message("HloInstructionProto", collective_device_list=listed))
    assert found == ReplicaGroups(iota=IotaTile((4, 2), (4, 2), (1, 0)))
