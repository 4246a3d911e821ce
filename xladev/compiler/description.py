"""What a device is, as data: dtypes, memories, rates. Every field has a default.

A description feeds the cost model, fusion, placement and roofline, and is available without the
device (`Compiler.describe`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from xladev.errors import ArgumentError
from xladev.hlo import dtype as dt


@dataclass(frozen=True, slots=True)
class MemorySpace:
    """One memory that buffers may live in.

    Attributes:
        name: such as ``device``, ``pinned_host``, ``scratch``.
        nbytes: size in bytes; None if unknown.
        bandwidth: bytes per second; None if unknown.
        host_addressable: True if the host reads and writes it through plain pointers. The SDK
            then wraps NumPy arrays without a copy (`Executor.wrap_host`, `Executor.host_view`).
        alignment: alignment in bytes that the SDK asks of `Executor.allocate`.
        wrap_alignment: alignment in bytes that a NumPy array needs to be used without a copy.
    """

    name: str = "device"
    nbytes: int | None = None
    bandwidth: float | None = None
    host_addressable: bool = False
    alignment: int = 64
    wrap_alignment: int = 16

    def __post_init__(self) -> None:
        for value in (self.alignment, self.wrap_alignment):
            if value < 1 or value & (value - 1):
                raise ArgumentError(f"memory {self.name!r}: alignment {value} is no power of two")


_ALL_DTYPES = frozenset(t.name for t in dt.ARRAY_TYPES)
_NO_RATES: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class DeviceDescription:
    """A device type, for the compiler.

    Attributes:
        name: what people call it, such as ``NVIDIA H100``.
        kind: ``cpu``, ``gpu``, ``npu`` or any other lower-case word; empty means the platform's.
        target: what the compiler generates code for, such as ``sm_90`` or ``x86-64-v4``.
        dtypes: names of the primitive types that the device computes with.
        memory_spaces: the memories; an index into this tuple is the ``S(n)`` of a layout.
        peak_flops: operations per second by dtype name.
        cores: independent processors (CPU cores, multiprocessors).
        vector_nbytes: width of one vector register or SIMD group, in bytes.
        tile: shape of the matrix unit's tile, such as (16, 16, 16); empty if there is none.
        cache_nbytes: last-level cache of one core, in bytes.
        transfer_bandwidth: bytes per second between host and device.
        launch_overhead_s: seconds that one launch costs.
        dlpack_device_type: the number that DLPack gives this device type; None: not offered.
        compute_streams: most streams that one program of kernels is spread over
            (`Stream.branches`); 1: its kernels run one after the other.
        replays_launches: programs without loops and branches are recorded and replayed as one
            (`Executor.create_launch_graphs`), so that their kernels cost no launch each.
    """

    name: str = "device"
    kind: str = ""
    target: str = ""
    dtypes: frozenset[str] = _ALL_DTYPES
    memory_spaces: tuple[MemorySpace, ...] = (MemorySpace(),)
    peak_flops: Mapping[str, float] = field(default_factory=lambda: _NO_RATES)
    cores: int = 1
    vector_nbytes: int = 16
    tile: tuple[int, ...] = ()
    cache_nbytes: int = 1 << 20
    transfer_bandwidth: float | None = None
    launch_overhead_s: float = 0.0
    dlpack_device_type: int | None = None
    compute_streams: int = 1
    replays_launches: bool = False

    def __post_init__(self) -> None:
        if not self.memory_spaces:
            raise ArgumentError(f"device {self.name!r} has no memory space")
        if self.compute_streams < 1:
            raise ArgumentError(f"device {self.name!r} has {self.compute_streams} compute streams")
        unknown = self.dtypes - _ALL_DTYPES
        if unknown:
            raise ArgumentError(f"device {self.name!r} names unknown dtypes {sorted(unknown)}")

    @property
    def host_addressable(self) -> bool:
        """True if the default memory space is host-addressable."""
        return self.memory_spaces[0].host_addressable

    def memory_space(self, index: int) -> MemorySpace:
        """The memory space ``S(index)``.

        Raises:
            ArgumentError: there is none of that index.
        """
        if not 0 <= index < len(self.memory_spaces):
            raise ArgumentError(
                f"device {self.name!r} has no memory space {index}",
                why=f"it has {len(self.memory_spaces)}",
            )
        return self.memory_spaces[index]
