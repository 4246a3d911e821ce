"""Values of structured attributes: windows, dimension numbers, groups, aliasing, metadata.

All are frozen and hashable. Enumerations are plain strings in their text spelling.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from xladev.errors import ShapeError
from xladev.hlo.shape import ShapeIndex


@dataclass(frozen=True, slots=True)
class WindowDim:
    """One dimension of a window (``WindowDimension`` in xla_data.proto).

    At position ``o`` of the result, element ``k`` of the window meets the place ``o * stride +
    k * window_dilation - pad_low``. If ``base_dilation`` divides that, and the quotient is an index
    of the input, it is this element; else it is a hole or padding: zero in a convolution, the
    initial value in a reduce-window.

    A convolution has one for each spatial dimension, in the order of `ConvDims.input_spatial`; a
    reduce-window or select-and-scatter has one for each dimension of its operand. A window is the
    tuple of them, ``()`` where it is absent.

    Attributes:
        size: elements of the window.
        stride: places from one position of the window to the next.
        pad_low: places before the first element; negative: places that are left out.
        pad_high: places behind the last element; negative: places that are left out.
        base_dilation: places from one element of the input to the next.
        window_dilation: places from one element of the window to the next.
        reversal: element ``k`` of the window is the kernel's ``size - 1 - k``.
    """

    size: int
    stride: int = 1
    pad_low: int = 0
    pad_high: int = 0
    base_dilation: int = 1
    window_dilation: int = 1
    reversal: bool = False

    def output_size(self, input_size: int) -> int:
        """Number of window positions over a dimension of ``input_size`` elements."""
        padded = self.pad_low + dilated(input_size, self.base_dilation) + self.pad_high
        extent = dilated(self.size, self.window_dilation)
        if padded < extent or padded == 0:
            return 0
        return (padded - extent) // self.stride + 1


def dilated(size: int, dilation: int) -> int:
    """Extent of ``size`` elements with ``dilation - 1`` holes between each two."""
    return 0 if size == 0 else (size - 1) * dilation + 1


Window = tuple[WindowDim, ...]
"""A window: one entry per dimension it covers."""


@dataclass(frozen=True, slots=True)
class ConvDims:
    """Dimension numbers of a convolution; text such as ``bf01_01io->bf01``.

    Each field is a dimension of the input, the kernel or the output, or one for each spatial
    dimension: ``input_spatial[n]``, ``kernel_spatial[n]`` and ``output_spatial[n]`` belong to
    ``window[n]``. In text the place of a letter is the dimension: ``b01f`` is an input whose batch
    is dimension 0 and whose features are dimension 3.

    With ``feature_group_count`` of g, output features and input features are g parts each, and part
    n of the output is made of part n of the input; ``kernel_input_feature`` has the size of one
    part. With ``batch_group_count`` of g, output features and the input's batch are g parts each,
    and part n of the features is made of part n of the batch; the output's batch has the size of
    one part. One of the two counts is 1.
    """

    input_batch: int
    input_feature: int
    input_spatial: tuple[int, ...]
    kernel_input_feature: int
    kernel_output_feature: int
    kernel_spatial: tuple[int, ...]
    output_batch: int
    output_feature: int
    output_spatial: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SliceDim:
    """``[start:limit:stride]`` of one dimension; a slice has a tuple, one for each.

    ``limit`` is behind the last index that may be taken; none is negative, and ``stride`` is at
    least 1.
    """

    start: int
    limit: int
    stride: int = 1


@dataclass(frozen=True, slots=True)
class PadDim:
    """Padding of one dimension; a pad has a tuple, one for each.

    Attributes:
        low: elements put before the first one; negative: removed there.
        high: elements put behind the last one; negative: removed there.
        interior: elements put between each two neighbours, before edges are removed.
    """

    low: int
    high: int
    interior: int = 0


@dataclass(frozen=True, slots=True)
class IotaTile:
    """Devices ``0..n-1`` reshaped, transposed and reshaped: text ``[2,4]<=[4,2]T(1,0)``."""

    dims: tuple[int, ...]
    reshape_dims: tuple[int, ...]
    transpose: tuple[int, ...]

    def device_ids(self) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """Device ids as an array of shape ``dims``."""
        ids = np.arange(prod(self.dims), dtype=np.int64).reshape(self.reshape_dims)
        return ids.transpose(self.transpose).reshape(self.dims)


@dataclass(frozen=True, slots=True)
class Mesh:
    """Named axes over devices: text ``mesh['a'=2,'b'=4]``; device ids are iota unless given."""

    axes: tuple[tuple[str, int], ...]
    device_ids: IotaTile | tuple[int, ...] | None = None

    def ids(self) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """Device ids as an array with one dimension per axis."""
        sizes = tuple(size for _, size in self.axes)
        if self.device_ids is None:
            return np.arange(prod(sizes), dtype=np.int64).reshape(sizes)
        if isinstance(self.device_ids, IotaTile):
            return self.device_ids.device_ids().reshape(sizes)
        return np.asarray(self.device_ids, dtype=np.int64).reshape(sizes)


@dataclass(frozen=True, slots=True)
class AxisRef:
    """An axis of a mesh, or the part ``pre_size:size`` of it (text ``'a':(2)4``)."""

    name: str
    pre_size: int = 1
    size: int | None = None


@dataclass(frozen=True, slots=True)
class ReplicaGroups:
    """Which devices a collective joins: listed, iota or mesh-axes form (exactly one is used).

    The empty list means one group of all devices.
    """

    groups: tuple[tuple[int, ...], ...] = ()
    iota: IotaTile | None = None
    mesh: Mesh | None = None
    axes: tuple[AxisRef, ...] = ()

    def expand(self) -> tuple[tuple[int, ...], ...]:
        """The groups as lists of ids, whatever their form."""
        if self.iota is not None:
            return tuple(tuple(map(int, row)) for row in self.iota.device_ids())
        if self.mesh is not None:
            return tuple(tuple(map(int, row)) for row in _mesh_groups(self.mesh, self.axes))
        return self.groups


def _mesh_groups(
    mesh: Mesh, axes: tuple[AxisRef, ...]
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Rows of device ids that differ only along ``axes``, in the order the axes are named."""
    sizes: list[int] = []
    at: dict[tuple[str, int], int] = {}
    for name, size in mesh.axes:
        for pre, part in _split_axis(name, size, axes):
            at[name, pre] = len(sizes)
            sizes.append(part)
    for axis in axes:
        if (axis.name, axis.pre_size) not in at:
            raise ShapeError(f"mesh has no axis {axis.name!r} with {axis.pre_size} before it")
    grouped = [at[a.name, a.pre_size] for a in axes]
    others = [i for i in range(len(sizes)) if i not in grouped]
    ids = mesh.ids().reshape(sizes).transpose(others + grouped)
    return ids.reshape(-1, prod(sizes[i] for i in grouped))


def _split_axis(name: str, size: int, axes: tuple[AxisRef, ...]) -> Iterator[tuple[int, int]]:
    """Yields (pre_size, size) of the parts that references cut one axis into."""
    cuts = {1, size}
    for a in axes:
        if a.name == name:
            cuts |= {a.pre_size, a.pre_size * (a.size or size // a.pre_size)}
    ordered = sorted(cuts)
    if len(ordered) == 1:
        yield 1, 1
    for low, high in zip(ordered, ordered[1:], strict=False):
        if high % low:
            raise ShapeError(f"axis {name!r} of size {size} cannot be cut at {low} and {high}")
        yield low, high // low


@dataclass(frozen=True, slots=True)
class Sharding:
    """How a value is laid over devices (``OpSharding`` in xla_data.proto).

    Attributes:
        kind: ``replicated``, ``maximal``, ``manual``, ``unreduced``, ``unknown``, ``tiled``,
            ``tuple`` or ``named`` (mesh form).
        device: the device of a maximal sharding.
        tile_dims: sizes of the tile assignment of a tiled sharding.
        devices: device ids of the tile assignment, listed or as iota.
        last_tile_dims: kinds of trailing subgroup dimensions; ``("replicated",)`` prints as
            ``last_tile_dim_replicate``.
        parts: the shardings of a tuple's parts.
        mesh: the mesh of a named sharding.
        dim_axes: axes per dimension of a named sharding; the flag says the dimension is closed.
        replicated_axes, unreduced_axes, manual_axes: further axes of a named sharding.
        shard_group: ``(kind, id)`` with kind ``shard_as`` or ``shard_like``.
        reduction: how unreduced axes will be combined: ``sum``, ``max`` or ``min``.
        metadata: where it came from.
    """

    kind: str
    device: int = 0
    tile_dims: tuple[int, ...] = ()
    devices: IotaTile | tuple[int, ...] = ()
    last_tile_dims: tuple[str, ...] = ()
    parts: tuple[Sharding, ...] = ()
    mesh: Mesh | None = None
    dim_axes: tuple[tuple[tuple[AxisRef, ...], bool], ...] = ()
    replicated_axes: tuple[AxisRef, ...] = ()
    unreduced_axes: tuple[AxisRef, ...] = ()
    manual_axes: tuple[AxisRef, ...] = ()
    shard_group: tuple[str, int] | None = None
    reduction: str = "sum"
    metadata: tuple[Metadata, ...] = ()


@dataclass(frozen=True, slots=True)
class Metadata:
    """Where an instruction came from (``OpMetadata`` in xla_data.proto)."""

    op_type: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0
    source_end_line: int = 0
    source_column: int = 0
    source_end_column: int = 0
    stack_frame_id: int = 0
    scheduling_name: str = ""
    deduplicated_name: str = ""
    profile_type: tuple[int, ...] = ()
    size_of_generated_code_in_bytes: int = 0
    size_of_memory_working_set_in_bytes: int = 0
    preserve_layout: bool = False

    @property
    def location(self) -> str:
        """``file:line``, or empty."""
        return f"{self.source_file}:{self.source_line}" if self.source_file else ""


NO_METADATA = Metadata()


@dataclass(frozen=True, slots=True)
class OutputAlias:
    """Part ``output_index`` of the result shares the buffer of a part of an operand."""

    output_index: ShapeIndex
    operand: int
    operand_index: ShapeIndex


@dataclass(frozen=True, slots=True)
class ModuleAlias:
    """Part ``output_index`` of the result may or must reuse a part of a parameter."""

    output_index: ShapeIndex
    parameter: int
    parameter_index: ShapeIndex
    kind: str = "may-alias"


@dataclass(frozen=True, slots=True)
class ResultAccuracy:
    """Accuracy asked of an elementwise function: a mode, or tolerances where mode is empty."""

    mode: str = "default"
    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0


@dataclass(frozen=True, slots=True)
class Origin:
    """Original values of the leaves of a result: (leaf index, instruction, its leaf index)."""

    leaves: tuple[tuple[ShapeIndex, str, ShapeIndex], ...] = ()
    synthetic: str = ""
