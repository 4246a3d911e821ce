"""Device meshes, their axes and iota forms <-> ``MeshProto``, ``AxisRefProto`` and their like."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xladev.errors import ProtoError
from xladev.hlo.attributes import AxisRef, IotaTile, Mesh
from xladev.hlo.proto.encode import encode
from xladev.hlo.proto.message import Message


def read_iota(message: Message, dims: tuple[int, ...], reshape: str, transpose: str) -> IotaTile:
    """The iota form of device ids, whose last reshape is to ``dims``.

    Raises:
        ProtoError: a transpose that is no permutation, or sizes that do not multiply out.
    """
    reshape_dims, order = message.integers(reshape), message.integers(transpose)
    if sorted(order) != list(range(len(reshape_dims))):
        raise message.error(f"{list(order)} does not permute {len(reshape_dims)} dimensions")
    if min(reshape_dims + dims, default=1) < 1 or prod(reshape_dims) != prod(dims):
        raise message.error(f"devices {list(reshape_dims)} do not fill {list(dims)}")
    return IotaTile(dims, reshape_dims, order)


def read_mesh(message: Message) -> Mesh:
    """The mesh in a ``MeshProto``."""
    axes = tuple((a.text("name"), a.integer("size")) for a in message.children("axes"))
    iota = message.child("iota_transform")
    sizes = tuple(size for _, size in axes)
    if iota is not None and iota.has("reshape_dims"):
        return Mesh(axes, read_iota(iota, sizes, "reshape_dims", "transpose_perm"))
    return Mesh(axes, message.integers("device_ids") or None)


def write_mesh(mesh: Mesh) -> bytes:
    """The ``MeshProto`` of a mesh."""
    ids = mesh.device_ids
    values: dict[str, Any] = {
        "axes": [encode("MeshProto.MeshAxis", {"name": n, "size": s}) for n, s in mesh.axes]
    }
    if isinstance(ids, IotaTile):
        values["iota_transform"] = encode(
            "MeshProto.IotaTransform",
            {"reshape_dims": ids.reshape_dims, "transpose_perm": ids.transpose},
        )
    elif ids is not None:
        values["device_ids"] = ids
    return encode("MeshProto", values)


def read_axes(messages: Sequence[Message], mesh: Mesh) -> tuple[AxisRef, ...]:
    """Axes of ``mesh`` that messages refer to by index; a ProtoError if there is no such axis."""
    return tuple(_read_axis(m, mesh) for m in messages)


def _read_axis(message: Message, mesh: Mesh) -> AxisRef:
    index = message.integer("mesh_axis_index")
    if not 0 <= index < len(mesh.axes):
        raise message.error(f"axis {index} is not one of the mesh's {len(mesh.axes)}")
    part = message.child("sub_axis_info")
    name, whole = mesh.axes[index]
    if part is None:
        return AxisRef(name)
    before, size = part.integer("pre_size"), part.integer("size")
    if before < 1 or size < 1 or whole % (before * size):
        raise message.error(f"axis {name!r} of size {whole} has no part ({before}){size}")
    return AxisRef(name, before, size)


def write_axes(axes: Sequence[AxisRef], mesh: Mesh) -> list[bytes]:
    """The ``AxisRefProto`` of each axis; a ProtoError if ``mesh`` has no axis of that name."""
    index = {name: i for i, (name, _) in enumerate(mesh.axes)}
    out: list[bytes] = []
    for axis in axes:
        if axis.name not in index:
            raise ProtoError(f"mesh has no axis {axis.name!r}", hint=f"it has: {', '.join(index)}")
        part = {"pre_size": axis.pre_size, "size": axis.size}
        info = None if axis.size is None else encode("AxisRefProto.SubAxis", part)
        values = {"mesh_axis_index": index[axis.name], "sub_axis_info": info}
        out.append(encode("AxisRefProto", values))
    return out
