"""How text and proto carry the device of an instruction: as a frontend attribute.

XLA has no field for it, but keeps frontend attributes, so that a module survives a trip through its
tools; and a frontend can place an instruction by setting the attribute.
"""

from __future__ import annotations

from xladev.hlo.ir import StringPairs

DEVICE_KEY = "xladev_device"


def with_device(attributes: StringPairs, device: str | None) -> StringPairs:
    """Sorted frontend attributes that name the device too."""
    if device is None:
        return attributes
    return tuple(sorted({**dict(attributes), DEVICE_KEY: device}.items()))


def without_device(attributes: StringPairs) -> tuple[StringPairs, str | None]:
    """Frontend attributes but for the device, and the device; None where they name none."""
    device = dict(attributes).get(DEVICE_KEY)
    if device is None:
        return attributes, None
    return tuple(pair for pair in attributes if pair[0] != DEVICE_KEY), device
