"""Three machines of different rates. The first chip of each has the host's memory."""

from __future__ import annotations

from tests.simulated.chip import Chip
from xladev.compiler.description import Link

MOVING = frozenset(
    {
        "broadcast", "transpose", "gather", "scatter", "sort", "reverse", "concatenate", "pad",
        "slice", "iota", "dynamic-slice", "dynamic-update-slice", "reshape",
    }
)  # fmt: skip

WORKSTATION = (
    Chip("host", products=5e10, vector=1e10, bandwidth=2e10, start_s=1e-6, launch_s=1e-6),
    Chip("npu", products=4e12, vector=2e11, bandwidth=2e11, link=Link(1.2e10, 8e-6), count=2),
)
"""Two quick devices behind PCIe."""

BOARD = (
    Chip("host", products=8e9, vector=2e9, bandwidth=6e9, start_s=2e-6, launch_s=2e-6, half=1e5),
    Chip("array", products=5e11, vector=4e9, bandwidth=1.2e10, start_s=5e-6, launch_s=1e-5,
         link=Link(3e9, 2e-5), refused=MOVING),
)  # fmt: skip
"""A small host, and a chip for products behind a slow bus that moves nothing around."""

SERVER = (
    Chip("host", products=6e11, vector=1e11, bandwidth=1e11, start_s=1e-6, launch_s=2e-6),
    Chip("gpu", products=4e13, vector=2e12, bandwidth=1.5e12, start_s=3e-6, launch_s=6e-6,
         link=Link(2.5e10, 1.2e-5), half=2e7, function=4.0),
    Chip("npu", products=8e12, vector=5e10, bandwidth=4e11, start_s=1e-6, launch_s=2e-6,
         link=Link(1.2e10, 6e-6), function=20.0),
)  # fmt: skip
"""A fast host, a GPU whose launches cost much, and an NPU that is slow at all but products."""

MACHINES = {"workstation": WORKSTATION, "board": BOARD, "server": SERVER}
