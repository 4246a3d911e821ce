"""Replica groups <-> the four forms that ``HloInstructionProto`` has had for them."""

from __future__ import annotations

from math import prod
from typing import Any

from xladev.hlo.attributes import IotaTile, Mesh, ReplicaGroups
from xladev.hlo.proto.encode import encode
from xladev.hlo.proto.mesh import read_axes, read_iota, read_mesh, write_axes, write_mesh
from xladev.hlo.proto.message import Message


def read_groups(message: Message) -> ReplicaGroups:
    """Replica groups of an ``HloInstructionProto``, in whichever of their four forms they are."""
    meshed = message.child("mesh_axes_replica_group_list")
    if meshed is not None:
        mesh_message = meshed.child("mesh")
        mesh = Mesh(()) if mesh_message is None else read_mesh(mesh_message)
        return ReplicaGroups(mesh=mesh, axes=read_axes(meshed.children("axes"), mesh))
    listed = message.child("collective_device_list")
    iota = message.child("iota_collective_device_list")
    if iota is None and listed is not None:
        iota = listed.child("iota_replica_group_list")
    if iota is not None:
        dims = (iota.integer("num_replica_groups"), iota.integer("num_devices_per_group"))
        form = read_iota(iota, dims, "iota_reshape_dims", "iota_transpose_perm")
        return ReplicaGroups(iota=form)
    groups = (listed or message).children("replica_groups")
    return ReplicaGroups(tuple(g.integers("replica_ids") for g in groups))


def write_groups(groups: ReplicaGroups) -> dict[str, Any]:
    """Fields of ``HloInstructionProto`` that hold replica groups."""
    if groups.mesh is not None:
        values = {"mesh": write_mesh(groups.mesh), "axes": write_axes(groups.axes, groups.mesh)}
        return {"mesh_axes_replica_group_list": encode("MeshAxesReplicaGroupListProto", values)}
    if groups.iota is not None:
        return {"iota_collective_device_list": _write_iota_groups(groups.iota)}
    listed = [encode("ReplicaGroup", {"replica_ids": ids}) for ids in groups.groups]
    device_list = encode("CollectiveDeviceListProto", {"replica_groups": listed})
    return {"collective_device_list": device_list}


def _write_iota_groups(iota: IotaTile) -> bytes:
    return encode(
        "IotaReplicaGroupListProto",
        {
            "num_replica_groups": iota.dims[0],
            "num_devices_per_group": prod(iota.dims[1:]),
            "iota_reshape_dims": iota.reshape_dims,
            "iota_transpose_perm": iota.transpose,
        },
    )
