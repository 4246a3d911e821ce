"""Parses and prints device lists, meshes, replica groups and shardings."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from xladev.hlo.attributes import AxisRef, IotaTile, Mesh, Metadata, ReplicaGroups, Sharding
from xladev.hlo.shape import MAX_TUPLE_DEPTH
from xladev.hlo.text.cursor import STRING, Cursor, escape
from xladev.hlo.text.metadata import metadata_text, parse_metadata
from xladev.hlo.text.scalar_values import parse_int_lists, parse_list

_MAX_DEVICES = 1 << 31

# -- tile assignments: [2,4]0,1,2,3,4,5,6,7 or [2,4]<=[4,2]T(1,0)


def _parse_sizes(cursor: Cursor) -> tuple[int, ...]:
    start = cursor.start
    sizes = parse_list(cursor, Cursor.signed, "[", "]")
    if not sizes or min(sizes) < 1 or prod(sizes) > _MAX_DEVICES:
        cursor.fail(f"device counts {list(sizes)} are not positive, or too large", start)
    return sizes


def _parse_iota(cursor: Cursor, dims: tuple[int, ...]) -> IotaTile:
    """``[4,2]T(1,0)``, reshaped to ``dims``."""
    start = cursor.start
    reshape = _parse_sizes(cursor)
    order = tuple(range(len(reshape)))
    if cursor.accept_word("T"):
        order = parse_list(cursor, Cursor.signed, "(", ")")
    if sorted(order) != list(range(len(reshape))):
        cursor.fail(f"{list(order)} does not permute {len(reshape)} dimensions", start)
    if prod(reshape) != prod(dims):
        cursor.fail(f"devices {list(reshape)} do not fill {list(dims)}", start)
    return IotaTile(dims, reshape, order)


def _iota_text(iota: IotaTile) -> str:
    reshape = ",".join(map(str, iota.reshape_dims))
    if len(iota.reshape_dims) == 1:
        return f"[{reshape}]"
    return f"[{reshape}]T({','.join(map(str, iota.transpose))})"


# -- meshes: mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0))


def _parse_axis_name(cursor: Cursor) -> str:
    return cursor.string() if cursor.kind == STRING else cursor.word("the name of an axis")


def parse_mesh(cursor: Cursor) -> Mesh:
    """A mesh, or one device: ``maximal_mesh[device_id=3]`` and ``single_device[device_id=3]``."""
    if cursor.value in _SINGLE:
        return _parse_single_device(cursor)
    if not cursor.accept_word("mesh"):
        cursor.fail(f"expected a mesh, not {cursor.seen()}")
    axes = parse_list(cursor, _parse_axis, "[", "]")
    if prod(size for _, size in axes) > _MAX_DEVICES or len(dict(axes)) != len(axes):
        cursor.fail("mesh axes are too large, or two have the same name")
    if cursor.sees(",") and cursor.look_ahead()[1] == "device_ids":
        return Mesh(axes, _parse_device_ids(cursor, tuple(size for _, size in axes)))
    return Mesh(axes)


_SINGLE = ("maximal_mesh", "single_device")


def _parse_single_device(cursor: Cursor) -> Mesh:
    cursor.advance()
    cursor.expect("[")
    if not cursor.accept_word("device_id"):
        cursor.fail(f"expected device_id, not {cursor.seen()}")
    cursor.expect("=")
    device = cursor.signed()
    cursor.expect("]")
    return Mesh((), (device,))


def _parse_axis(cursor: Cursor) -> tuple[str, int]:
    name = _parse_axis_name(cursor)
    cursor.expect("=")
    size = cursor.signed("the size of an axis")
    if size < 1:
        cursor.fail(f"axis {name} has size {size}")
    return name, size


def _parse_device_ids(cursor: Cursor, sizes: tuple[int, ...]) -> IotaTile | tuple[int, ...] | None:
    cursor.expect(",")
    cursor.word()
    cursor.expect("=")
    start = cursor.start
    if cursor.look_ahead()[1] != "[":
        ids = parse_list(cursor, Cursor.signed, "(", ")")
        if len(ids) != prod(sizes):
            cursor.fail(f"{len(ids)} device ids for a mesh of {prod(sizes)}", start)
        return ids
    cursor.expect("(")
    iota = _parse_iota(cursor, sizes)
    cursor.expect(")")
    return None if len(iota.reshape_dims) == 1 else iota


def mesh_text(mesh: Mesh) -> str:
    """A mesh as text."""
    if not mesh.axes and isinstance(mesh.device_ids, tuple) and mesh.device_ids:
        return f"maximal_mesh[device_id={mesh.device_ids[0]}]"
    axes = ",".join(f"'{escape(name)}'={size}" for name, size in mesh.axes)
    text = f"mesh[{axes}]"
    if mesh.device_ids is None:
        return text
    ids = mesh.device_ids
    inner = _iota_text(ids) if isinstance(ids, IotaTile) else ",".join(map(str, ids))
    return f"{text}, device_ids=({inner})"


# -- axes: {'a', 'b':(2)4, ?}


def _parse_axes(cursor: Cursor, mesh: Mesh) -> tuple[tuple[AxisRef, ...], bool]:
    """Axes and whether the list is closed, that is, does not end with ``?``."""
    sizes = dict(mesh.axes)
    refs: list[AxisRef] = []
    closed = True
    cursor.expect("{", "before a list of axes")
    while not cursor.sees("}"):
        if cursor.accept("?"):
            closed = False
            break
        refs.append(_parse_axis_ref(cursor, sizes))
        if not cursor.accept(","):
            break
    cursor.expect("}", "after a list of axes")
    return tuple(refs), closed


def _parse_axis_ref(cursor: Cursor, sizes: dict[str, int]) -> AxisRef:
    start = cursor.start
    name = _parse_axis_name(cursor)
    if name not in sizes:
        cursor.fail(f"mesh has no axis {name!r}", start, hint=f"it has: {', '.join(sizes)}")
    if not cursor.accept(":"):
        return AxisRef(name)
    cursor.expect("(")
    before = cursor.signed()
    cursor.expect(")")
    size = cursor.signed()
    if before < 1 or size < 1 or sizes[name] % (before * size):
        cursor.fail(f"axis {name!r} of size {sizes[name]} has no part ({before}){size}", start)
    return AxisRef(name, before, size)


def _axis_text(axis: AxisRef) -> str:
    name = f"'{escape(axis.name)}'"
    return name if axis.size is None else f"{name}:({axis.pre_size}){axis.size}"


def _axes_text(axes: Sequence[AxisRef], closed: bool = True, separator: str = ", ") -> str:
    texts = [*map(_axis_text, axes), *(() if closed else ("?",))]
    return "{" + separator.join(texts) + "}"


# -- replica groups


def parse_groups(cursor: Cursor) -> ReplicaGroups:
    """Replica groups listed, as iota, or as axes of a mesh."""
    if cursor.sees("{"):
        return ReplicaGroups(parse_int_lists(cursor))
    if cursor.sees("["):
        start = cursor.start
        dims = _parse_sizes(cursor)
        cursor.expect("<=", "after the shape of replica groups")
        if len(dims) != 2:
            cursor.fail("replica groups have two dimensions", start)
        return ReplicaGroups(iota=_parse_iota(cursor, dims))
    mesh = parse_mesh(cursor)
    return ReplicaGroups(mesh=mesh, axes=_parse_axes(cursor, mesh)[0])


def groups_text(groups: ReplicaGroups) -> str:
    """Replica groups in the form they have."""
    if groups.mesh is not None:
        return f"{mesh_text(groups.mesh)} {_axes_text(groups.axes, separator=',')}"
    if groups.iota is not None:
        dims = ",".join(map(str, groups.iota.dims))
        return f"[{dims}]<={_iota_text(groups.iota)}"
    return "{" + ",".join("{" + ",".join(map(str, g)) + "}" for g in groups.groups) + "}"


# -- shardings

_KINDS = ("replicated", "maximal", "manual", "unknown", "unreduced")
_GROUPS = ("shard_as", "shard_like")
_TILED = frozenset({"tile_dims", "last_tile_dims"})


def parse_sharding(cursor: Cursor, depth: int = 0) -> Sharding:
    """A sharding in braces; braces within braces are the parts of a tuple."""
    if depth > MAX_TUPLE_DEPTH:
        cursor.fail("sharding nested too deep")
    cursor.expect("{", "before a sharding")
    if cursor.sees("{") or cursor.accept("}"):
        return _parse_tuple_sharding(cursor, depth)
    if cursor.value == "mesh" or cursor.value in _SINGLE:
        sharding = _parse_named(cursor)
    else:
        sharding = _parse_tiled(cursor)
    cursor.expect("}", "after a sharding")
    return sharding


def _parse_tuple_sharding(cursor: Cursor, depth: int) -> Sharding:
    """The parts, unless the braces were empty and already closed."""
    parts: list[Sharding] = []
    if cursor.sees("{"):
        parts.append(parse_sharding(cursor, depth + 1))
        while cursor.accept(","):
            parts.append(parse_sharding(cursor, depth + 1))
        cursor.expect("}", "after the parts of a tuple sharding")
    return Sharding("tuple", parts=tuple(parts))


def _parse_tiled(cursor: Cursor) -> Sharding:
    start = cursor.start
    fields: dict[str, Any] = {}
    while not cursor.sees("}"):
        _parse_sharding_item(cursor, fields)
        cursor.accept(",")
    if "kind" not in fields and "tile_dims" not in fields:
        cursor.fail("sharding has neither a kind nor devices", start)
    kind = fields.setdefault("kind", "tiled")
    if ("device" in fields) != (kind == "maximal") or (kind != "tiled" and _TILED & set(fields)):
        cursor.fail(f"devices do not fit a {kind} sharding", start)
    return Sharding(**fields)


def _parse_sharding_item(cursor: Cursor, fields: dict[str, Any]) -> None:
    """Takes one word or ``name=value`` into ``fields``, named as those of Sharding."""
    start = cursor.start
    word = cursor.word("a part of a sharding")
    if word in _KINDS:
        found: dict[str, Any] = {"kind": word}
    elif word == "last_tile_dim_replicate":
        found = {"last_tile_dims": ("replicated",)}
    elif word in _GROUPS:
        found = {"shard_group": (word, cursor.signed("a shard group"))}
    elif word in _VALUES:
        cursor.expect("=")
        found = _VALUES[word](cursor)
    else:
        known = ", ".join((*_KINDS, *_VALUES, *_GROUPS))
        cursor.fail(f"unknown part {word!r} of a sharding", start, hint=f"one of {known}")
    for name in found:
        if name in fields:
            cursor.fail(f"{word} contradicts an earlier part of this sharding", start)
    fields.update(found)


def _parse_device(cursor: Cursor) -> dict[str, Any]:
    return {"device": cursor.signed("a device id")}


def _parse_devices(cursor: Cursor) -> dict[str, Any]:
    dims = _parse_sizes(cursor)
    if cursor.accept("<="):
        return {"tile_dims": dims, "devices": _parse_iota(cursor, dims)}
    ids = [cursor.signed("a device id")]
    start = cursor.start
    while cursor.accept(","):
        ids.append(cursor.signed("a device id"))
    if len(ids) != prod(dims):
        cursor.fail(f"{len(ids)} devices do not fill tiles {list(dims)}", start)
    return {"tile_dims": dims, "devices": tuple(ids)}


def _parse_last_tile_dims(cursor: Cursor) -> dict[str, Any]:
    return {"last_tile_dims": parse_list(cursor, _parse_kind)}


def _parse_kind(cursor: Cursor) -> str:
    if cursor.value not in _KINDS:
        cursor.fail(f"expected one of {', '.join(_KINDS)}, not {cursor.seen()}")
    return cursor.word()


def _parse_metadata_list(cursor: Cursor) -> dict[str, Any]:
    """One metadata, or several in braces."""
    if cursor.look_ahead()[1] == "{":
        return {"metadata": parse_list(cursor, parse_metadata)}
    return {"metadata": (parse_metadata(cursor),)}


_VALUES = {
    "device": _parse_device,
    "devices": _parse_devices,
    "last_tile_dims": _parse_last_tile_dims,
    "metadata": _parse_metadata_list,
}


# -- shardings by mesh: {mesh['a'=2,'b'=4], [{'a'}, {'b', ?}], replicated={..}}


def _parse_named(cursor: Cursor) -> Sharding:
    mesh = parse_mesh(cursor)
    every = tuple(AxisRef(name) for name, _ in mesh.axes)
    whole: dict[str, dict[str, Any]] = {
        "replicated": {},
        "manual": {"manual_axes": every},
        "unreduced": {"unreduced_axes": every},
    }
    fields: dict[str, Any] = {}
    while not cursor.sees("}"):
        cursor.accept(",")
        if cursor.sees("["):
            fields["dim_axes"] = parse_list(cursor, lambda c: _parse_axes(c, mesh), "[", "]")
        elif cursor.value in whole and cursor.look_ahead()[1] != "=":
            fields.update(whole[cursor.word()])
        else:
            _parse_named_field(cursor, mesh, fields)
    return Sharding("named", mesh=mesh, **fields)


def _parse_named_field(cursor: Cursor, mesh: Mesh, fields: dict[str, Any]) -> None:
    start = cursor.start
    word = cursor.word("a part of a sharding")
    cursor.expect("=")
    if word == "metadata":
        fields.update(_parse_metadata_list(cursor))
    elif word in ("replicated", "unreduced", "manual"):
        if word == "unreduced" and not cursor.sees("{"):
            fields["reduction"] = cursor.word("a reduction, such as max")
        fields[f"{word}_axes"] = _parse_axes(cursor, mesh)[0]
    else:
        cursor.fail(f"unknown part {word!r} of a sharding", start)


def sharding_text(sharding: Sharding) -> str:
    """A sharding in braces."""
    if sharding.kind == "tuple":
        return "{" + ", ".join(map(sharding_text, sharding.parts)) + "}"
    parts = _named_parts(sharding) if sharding.kind == "named" else [_tiled_text(sharding)]
    return "{" + ", ".join(parts) + "}"


def _tiled_text(sharding: Sharding) -> str:
    parts = ["" if sharding.kind == "tiled" else sharding.kind]
    if sharding.kind == "maximal":
        parts.append(f"device={sharding.device}")
    if sharding.kind == "tiled":
        parts = [_devices_text(sharding), *_last_tile_texts(sharding.last_tile_dims)]
    if sharding.shard_group is not None:
        parts.append("{} {}".format(*sharding.shard_group))
    if sharding.metadata:
        parts.append(f"metadata={_metadata_list_text(sharding.metadata)}")
    return " ".join(parts)


def _devices_text(sharding: Sharding) -> str:
    dims = ",".join(map(str, sharding.tile_dims))
    devices = sharding.devices
    if isinstance(devices, IotaTile):
        return f"devices=[{dims}]<={_iota_text(devices)}"
    return f"devices=[{dims}]{','.join(map(str, devices))}"


def _last_tile_texts(kinds: tuple[str, ...]) -> list[str]:
    if kinds == ("replicated",):
        return ["last_tile_dim_replicate"]
    return [f"last_tile_dims={{{', '.join(kinds)}}}"] if kinds else []


def _metadata_list_text(metadata: tuple[Metadata, ...]) -> str:
    if len(metadata) == 1:
        return metadata_text(metadata[0])
    return "{" + ", ".join(map(metadata_text, metadata)) + "}"


def _named_parts(sharding: Sharding) -> list[str]:
    mesh = sharding.mesh or Mesh(())
    parts = [mesh_text(mesh)]
    lists = (
        ("replicated", sharding.replicated_axes),
        ("unreduced", sharding.unreduced_axes),
        ("manual", sharding.manual_axes),
    )
    used = [(name, axes) for name, axes in lists if axes]
    every = tuple(AxisRef(name) for name, _ in mesh.axes)
    whole = sharding.reduction == "sum" and _is_whole(used, every)
    if sharding.dim_axes or (mesh.axes and used and not whole):
        dims = (_axes_text(axes, closed) for axes, closed in sharding.dim_axes)
        parts.append("[" + ", ".join(dims) + "]")
        how = {"unreduced": "" if sharding.reduction == "sum" else sharding.reduction}
        parts.extend(f"{name}={how.get(name, '')}{_axes_text(axes)}" for name, axes in used)
    elif mesh.axes:
        parts.append(used[0][0] if used else "replicated")
    if sharding.metadata:
        parts.append(f"metadata={_metadata_list_text(sharding.metadata)}")
    return parts


def _is_whole(used: list[tuple[str, tuple[AxisRef, ...]]], every: tuple[AxisRef, ...]) -> bool:
    """True if one word says it: all axes are unreduced, or all manual."""
    return len(used) == 1 and used[0][0] != "replicated" and used[0][1] == every
