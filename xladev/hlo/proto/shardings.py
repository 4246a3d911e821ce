"""Shardings <-> ``OpSharding`` and ``NamedShardingProto``."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from types import MappingProxyType
from typing import Any, Final

from xladev.hlo.attributes import IotaTile, Mesh, Sharding
from xladev.hlo.proto.decode import decode
from xladev.hlo.proto.encode import encode
from xladev.hlo.proto.mesh import read_axes, read_iota, read_mesh, write_axes, write_mesh
from xladev.hlo.proto.message import Message
from xladev.hlo.proto.metadata import read_metadata, write_metadata
from xladev.hlo.proto.schema import MESSAGES

_KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "REPLICATED": "replicated",
        "MAXIMAL": "maximal",
        "TUPLE": "tuple",
        "OTHER": "tiled",
        "MANUAL": "manual",
        "UNKNOWN": "unknown",
        "UNREDUCED": "unreduced",
    }
)
_TYPES: Final[Mapping[str, str]] = MappingProxyType({kind: name for name, kind in _KINDS.items()})
_GROUP_KINDS: Final[Mapping[str, str]] = MappingProxyType({"AS": "shard_as", "LIKE": "shard_like"})
_GROUP_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {kind: name for name, kind in _GROUP_KINDS.items()}
)


def sharding_from(data: bytes) -> Sharding:
    """The sharding in a serialized ``OpSharding``.

    Raises:
        ProtoError: malformed bytes.
    """
    return read_sharding(decode(data, MESSAGES["OpSharding"]))


def read_sharding(message: Message) -> Sharding:
    """The sharding in an ``OpSharding``; nesting is bounded by the decoder.

    A tuple is its parts: a group or metadata of its own, for which text has no place and which no
    partitioner looks at, is not read.

    Raises:
        ProtoError: unknown type, or device lists that do not fit the tile dimensions.
    """
    named = message.child("named_sharding")
    if named is not None:
        return _read_named(named)
    kind = _KINDS[message.enum("type")]
    if kind == "tuple":
        return Sharding(kind, parts=tuple(map(read_sharding, message.children("tuple_shardings"))))
    group = None
    if message.flag("is_shard_group"):
        group = (_GROUP_KINDS[message.enum("shard_group_type")], message.integer("shard_group_id"))
    devices = message.integers("tile_assignment_devices")
    tiled = kind == "tiled"
    return Sharding(
        kind,
        device=devices[0] if kind == "maximal" and devices else 0,
        tile_dims=message.integers("tile_assignment_dimensions") if tiled else (),
        devices=_read_devices(message) if tiled else (),
        last_tile_dims=_read_last_tile_dims(message) if tiled else (),
        shard_group=group,
        metadata=tuple(map(read_metadata, message.children("metadata"))),
    )


def _read_devices(message: Message) -> IotaTile | tuple[int, ...]:
    dims = message.integers("tile_assignment_dimensions")
    if message.has("iota_reshape_dims"):
        return read_iota(message, dims, "iota_reshape_dims", "iota_transpose_perm")
    devices = message.integers("tile_assignment_devices")
    if prod(dims) != len(devices):
        raise message.error(f"{len(devices)} devices do not fill tiles {list(dims)}")
    return devices


def _read_last_tile_dims(message: Message) -> tuple[str, ...]:
    if message.flag("replicate_on_last_tile_dim"):
        return ("replicated",)
    return tuple(_KINDS[name] for name in message.enums("last_tile_dims"))


def _read_named(message: Message) -> Sharding:
    mesh_message = message.child("mesh")
    mesh = Mesh(()) if mesh_message is None else read_mesh(mesh_message)
    return Sharding(
        "named",
        mesh=mesh,
        dim_axes=tuple(
            (read_axes(d.children("axes"), mesh), d.flag("is_closed"))
            for d in message.children("dim_shardings")
        ),
        replicated_axes=read_axes(message.children("replicated_axes"), mesh),
        unreduced_axes=read_axes(message.children("unreduced_axes"), mesh),
        manual_axes=read_axes(message.children("manual_axes"), mesh),
        reduction=message.enum("reduction_op").lower(),
        metadata=tuple(map(read_metadata, message.children("metadata"))),
    )


def write_sharding(sharding: Sharding) -> bytes:
    """The ``OpSharding`` of a sharding."""
    if sharding.kind == "named":
        return encode("OpSharding", {"named_sharding": _write_named(sharding)})
    values: dict[str, Any] = {
        "type": _TYPES[sharding.kind],
        "tuple_shardings": [write_sharding(part) for part in sharding.parts],
        "metadata": [write_metadata(m) for m in sharding.metadata],
    }
    if sharding.kind == "maximal":
        values["tile_assignment_devices"] = (sharding.device,)
    if sharding.kind == "tiled":
        values.update(_tile_values(sharding))
    if sharding.shard_group is not None:
        kind, values["shard_group_id"] = sharding.shard_group
        values |= {"is_shard_group": True, "shard_group_type": _GROUP_TYPES[kind]}
    return encode("OpSharding", values)


def _tile_values(sharding: Sharding) -> dict[str, Any]:
    values: dict[str, Any] = {"tile_assignment_dimensions": sharding.tile_dims}
    devices = sharding.devices
    if isinstance(devices, IotaTile):
        values["iota_reshape_dims"] = devices.reshape_dims
        values["iota_transpose_perm"] = devices.transpose
    else:
        values["tile_assignment_devices"] = devices
    if sharding.last_tile_dims == ("replicated",):
        values["replicate_on_last_tile_dim"] = True
    else:
        values["last_tile_dims"] = [_TYPES[kind] for kind in sharding.last_tile_dims]
    return values


def _write_named(sharding: Sharding) -> bytes:
    mesh = sharding.mesh or Mesh(())
    return encode(
        "NamedShardingProto",
        {
            "mesh": write_mesh(mesh),
            "dim_shardings": [
                encode(
                    "NamedShardingProto.DimensionSharding",
                    {"axes": write_axes(axes, mesh), "is_closed": closed},
                )
                for axes, closed in sharding.dim_axes
            ],
            "replicated_axes": write_axes(sharding.replicated_axes, mesh),
            "unreduced_axes": write_axes(sharding.unreduced_axes, mesh),
            "manual_axes": write_axes(sharding.manual_axes, mesh),
            "reduction_op": sharding.reduction.upper(),
            "metadata": [write_metadata(m) for m in sharding.metadata],
        },
    )
