"""NVIDIA's devices as the compiler sees them: by target, or by what a driver says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from xladev.compiler.description import DeviceDescription, MemorySpace
from xladev.errors import OptionError
from xladev.platforms.cuda.driver.interface import DeviceProperties

DEFAULT_TARGET = "sm_90a"
"""What is compiled for where no device is asked: Hopper."""

_KNOWN: Mapping[str, DeviceDescription] = MappingProxyType(
    {
        "sm_90a": DeviceDescription(
            name="NVIDIA H100",
            peak_flops=MappingProxyType({"f32": 67e12, "bf16": 989e12, "f16": 989e12}),
            cores=132,
        ),
    }
)
"""Data sheet figures by target."""


def describe_target(target: str | None) -> DeviceDescription:
    """The device type that a target names.

    Raises:
        OptionError: it is no ``sm_NN``, or an older one than NVPTX and PTX 8.6 have in common.
    """
    name = target or DEFAULT_TARGET
    found = re.fullmatch(r"sm_(\d+)([af]?)", name)
    if found is None or int(found.group(1)) < 75:
        raise OptionError(
            f"the CUDA platform cannot compile for target {target!r}",
            why="targets are sm_75 and later, such as sm_80 or sm_90a",
        )
    base = _KNOWN.get(name, DeviceDescription(name=f"NVIDIA GPU {name}"))
    return replace(
        base,
        kind="gpu",
        target=name,
        memory_spaces=(MemorySpace("device", alignment=256),),
        vector_nbytes=16,
        cache_nbytes=50 << 20,
        launch_overhead_s=4e-6,
        compute_streams=4,
        replays_launches=True,
    )


def has_tensor_cores(target: str) -> bool:
    """Whether a target multiplies bf16 on tensor cores: from sm_80 on."""
    return int(re.sub(r"\D", "", target)) >= 80


def describe_device(
    properties: DeviceProperties, dlpack_device: tuple[int, int] | None = None
) -> DeviceDescription:
    """A device that is there."""
    space = MemorySpace(
        "device", properties.memory_nbytes, bandwidth=properties.bandwidth, alignment=256
    )
    return replace(
        describe_target(properties.target),
        name=properties.name,
        memory_spaces=(space,),
        dlpack_device_type=None if dlpack_device is None else dlpack_device[0],
        cores=properties.multiprocessors,
    )
