"""Shapes with layouts as plain JSON data, for signatures; no code is ever loaded from them."""

from __future__ import annotations

from typing import Any

from xladev.compiler.json_values import DAMAGE, shown
from xladev.errors import FormatError, ShapeError
from xladev.hlo.dtype import by_name
from xladev.hlo.shape import MAX_TUPLE_DEPTH, Layout, Shape, Tile, check_shape


def shape_to_json(shape: Shape) -> dict[str, Any]:
    """Plain data for a shape.

    Raises:
        FormatError: a layout with sparse levels or splits, which no device buffer has.
    """
    data: dict[str, Any] = {"type": shape.element_type.name}
    if shape.dims:
        data["dims"] = list(shape.dims)
    if shape.dynamic:
        data["dynamic"] = [bool(d) for d in shape.dynamic]
    if shape.layout is not None:
        data["layout"] = _layout_to_json(shape.layout)
    if shape.tuple_shapes:
        data["parts"] = [shape_to_json(s) for s in shape.tuple_shapes]
    return data


def _layout_to_json(layout: Layout) -> dict[str, Any]:
    plain = _plain_layout(
        layout.minor_to_major, layout.tiles, layout.element_bits, layout.memory_space
    )
    if plain != layout:
        raise FormatError(f"layout {layout} cannot be stored", why="it is no dense layout")
    return {
        "order": list(layout.minor_to_major),
        "tiles": [list(t.dims) for t in layout.tiles],
        "bits": layout.element_bits,
        "space": layout.memory_space,
    }


def shape_from_json(data: Any, depth: int = 0) -> Shape:
    """The shape that `shape_to_json` wrote, checked.

    Raises:
        FormatError: data of another form, or a shape that breaks the rules of `check_shape`.
    """
    if depth > MAX_TUPLE_DEPTH:
        raise FormatError("shape nested too deep", why=f"at most {MAX_TUPLE_DEPTH} levels")
    try:
        shape = _shape_from_json(data, depth)
        check_shape(shape, depth)
    except (*DAMAGE, ShapeError) as e:
        raise FormatError("damaged shape", why=str(e) or shown(e)) from e
    return shape


def _shape_from_json(data: Any, depth: int) -> Shape:
    dims = _ints(data.get("dims", ()))
    dynamic = tuple(bool(d) for d in data.get("dynamic", ()))
    if dynamic and len(dynamic) != len(dims):
        raise ValueError(f"{len(dynamic)} dynamic flags for {len(dims)} dimensions")
    layout = data.get("layout")
    return Shape(
        by_name(data["type"]),
        dims,
        None if layout is None else _layout_from_json(layout),
        dynamic,
        tuple(shape_from_json(part, depth + 1) for part in data.get("parts", ())),
    )


def _layout_from_json(data: Any) -> Layout:
    tiles = tuple(Tile(_ints(t)) for t in data["tiles"])
    bits, space = _ints((data["bits"], data["space"]))
    return _plain_layout(_ints(data["order"]), tiles, bits, space)


def _plain_layout(order: tuple[int, ...], tiles: tuple[Tile, ...], bits: int, space: int) -> Layout:
    return Layout(order, tiles=tiles, element_bits=bits, memory_space=space)


def _ints(values: Any) -> tuple[int, ...]:
    result = tuple(values)
    if any(type(v) is not int for v in result):
        raise TypeError(f"{shown(values)} holds something else than integers")
    return result
