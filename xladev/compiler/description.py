"""What a device is, as data: dtypes, memories, rates. Every field has a default.

A description feeds the cost model, fusion, placement and roofline, and is available without the
device (`Compiler.describe`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, NoneType

from xladev.errors import ArgumentError
from xladev.hlo import dtype as dt


@dataclass(frozen=True, slots=True)
class MemorySpace:
    """One memory that buffers may live in.

    Attributes:
        name: such as ``device``, ``pinned_host``, ``scratch``.
        nbytes: size in bytes; None if unknown. The conformance suite cuts large cases to it.
        bandwidth: bytes per second; None if unknown.
        host_addressable: True if the host reads and writes it through plain pointers. The SDK
            then wraps NumPy arrays without a copy (`Executor.wrap_host`, `Executor.host_view`).
        alignment: alignment in bytes that the SDK asks of `Executor.allocate`, for arrays,
            constants and scratch alike; a power of two. What kernels are given within one
            allocation of the first memory begins at multiples of it, too, and of 64 at least;
            only NumPy arrays that are used without a copy go by ``wrap_alignment``.
        wrap_alignment: alignment in bytes that a NumPy array needs to be used without a copy.
    """

    name: str = "device"
    nbytes: int | None = None
    bandwidth: float | None = None
    host_addressable: bool = False
    alignment: int = 64
    wrap_alignment: int = 16

    def __post_init__(self) -> None:
        _check_types(f"memory {self.name!r}", self, _SPACE_TYPES)
        if self.nbytes is not None and self.nbytes < 1:
            raise ArgumentError(f"memory {self.name!r} has {self.nbytes} bytes")
        for value in (self.alignment, self.wrap_alignment):
            if value < 1 or value & (value - 1):
                raise ArgumentError(f"memory {self.name!r}: alignment {value} is no power of two")


@dataclass(frozen=True, slots=True)
class Link:
    """A way for data between two memories.

    Attributes:
        bandwidth: bytes per second.
        latency_s: seconds that a copy of nothing takes, the host's part included.
    """

    bandwidth: float
    latency_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.bandwidth > 0 or self.latency_s < 0:
            raise ArgumentError(
                f"a link of {self.bandwidth} bytes per second and {self.latency_s} seconds",
                why="the first is positive, the second not negative",
            )

    def seconds(self, nbytes: int) -> float:
        """What a copy takes."""
        return self.latency_s + nbytes / self.bandwidth


def _check_types(what: str, value: object, types: Mapping[str, tuple[type, ...]]) -> None:
    """Refuses a field of another type where it is written, not where it is first used.

    Raises:
        ArgumentError: naming the field.
    """
    for name, wanted in types.items():
        found = getattr(value, name)
        if not isinstance(found, wanted) or (isinstance(found, bool) and bool not in wanted):
            names = " or ".join("None" if t is NoneType else t.__name__ for t in wanted)
            raise ArgumentError(
                f"{what}: {name} is {found!r}, a {type(found).__name__}",
                why=f"{name} has to be of type {names}",
                hint=f"correct it where this {type(value).__name__} is made",
            )


_SPACE_TYPES: Mapping[str, tuple[type, ...]] = MappingProxyType(
    {"name": (str,), "nbytes": (int, NoneType), "bandwidth": (int, float, NoneType),
     "host_addressable": (bool,), "alignment": (int,), "wrap_alignment": (int,)}
)  # fmt: skip
_DEVICE_TYPES: Mapping[str, tuple[type, ...]] = MappingProxyType(
    {"name": (str,), "kind": (str,), "target": (str,), "dtypes": (frozenset,),
     "memory_spaces": (tuple,), "cores": (int,), "compute_streams": (int,),
     "streams_share_cores": (bool,), "overlaps_collectives": (bool,),
     "dlpack_device_type": (int, NoneType)}
)  # fmt: skip

_ALL_DTYPES = frozenset(t.name for t in dt.ARRAY_TYPES)
_NO_LINKS: Mapping[str, Link] = MappingProxyType({})
HOST_LINK = "host"
"""Key of the link between a device and the memory of the host."""
_NO_RATES: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class DeviceDescription:
    """A device type, for the compiler.

    Attributes:
        name: what people call it, such as ``NVIDIA H100``.
        kind: ``cpu``, ``gpu``, ``npu`` or any other lower-case word; empty means the platform's.
        target: what the compiler generates code for, such as ``sm_90`` or ``x86-64-v4``.
        dtypes: a frozenset of the names of the primitive types that the device computes with, such
            as ``frozenset({"f32", "s32", "pred"})``.
        memory_spaces: the memories; an index into this tuple is the ``S(n)`` of a layout.
            Parameters and results are where their layouts say; kernels and regions are given them
            in the first memory.
        peak_flops: operations per second by dtype name. Kernels are estimated to take what their
            operations take by these (1e13 where missing) or their bytes by the bandwidth of the
            first memory (1e12), whichever is more.
        cores: independent processors (CPU cores, multiprocessors). A kernel that reads and writes
            32 KiB for each of them is taken to fill the device, and gains nothing from streams.
        vector_nbytes: width of one vector register or SIMD group, in bytes.
        tile: shape of the matrix unit's tile, such as (16, 16, 16); empty if there is none.
        cache_nbytes: last-level cache of one core, in bytes.
        transfer_bandwidth: bytes per second between host and device.
        links: links to other memories, by name of the platform whose devices they lead to, or
            ``host``. Where there is none, data goes by way of the host. They say where instructions
            are worth placing: the SDK may then run on the host, or leave there, what costs more to
            bring to the device than the device saves. Without any, that is only done among devices
            that `CompileOptions.devices` names, and the link to the host is measured.
        launch_overhead_s: seconds that one launch costs the host: kernels that end before the next
            is launched gain nothing from streams, unless they are replayed.
        dlpack_device_type: the number that DLPack gives this device type; None: not offered.
        compute_streams: most streams that one program of kernels is spread over
            (`Stream.branches`), where that saves 10 us and a twentieth of the time by these rates
            and takes at most a quarter more memory; ``decisions.txt`` of a dump says why or why
            not. 1: its kernels run one after the other.
        replays_launches: programs without loops and branches are recorded and replayed as one
            (`Executor.create_launch_graphs`), so that their kernels cost no launch each.
        streams_share_cores: kernels of several streams run on the same processors, as on a GPU.
            False: each stream is a queue with processors of its own, whose rates ``peak_flops``
            has, and only the bandwidth of the memory is shared.
        overlaps_collectives: a collective may run on a branch of the stream (`Stream.branches`)
            while kernels run on the stream, and a thread of the SDK's calls the communicator.
            Programs are then cut so that there is something to run meanwhile, where that hides
            5 us and a launch by these rates and ``links`` (to the platform's own devices; 10 GB
            per second and 10 us where there is none).
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
    links: Mapping[str, Link] = field(default_factory=lambda: _NO_LINKS)
    launch_overhead_s: float = 0.0
    dlpack_device_type: int | None = None
    compute_streams: int = 1
    replays_launches: bool = False
    streams_share_cores: bool = True
    overlaps_collectives: bool = False

    def __post_init__(self) -> None:
        _check_types(f"device {self.name!r}", self, _DEVICE_TYPES)
        spaces: tuple[object, ...] = self.memory_spaces
        odd = [space for space in spaces if not isinstance(space, MemorySpace)]
        if odd:
            raise ArgumentError(f"device {self.name!r}: {odd[0]!r} is no MemorySpace")
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
