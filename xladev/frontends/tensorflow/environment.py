"""What the environment says about TensorFlow's device; `src/options.c` reads it for the plugin."""

from __future__ import annotations

import os
import re

DEVICE, PLATFORM = "XLADEV_TF_DEVICE", "XLADEV_TF_PLATFORM"
COUNT, DEFAULT = "XLADEV_TF_DEVICES", "XLADEV_TF_DEFAULT"
REPLAY = "XLADEV_TF_REPLAY"
"""`0`: operators that run alone go through TensorFlow's own lookup at each call."""
DEVICE_TYPE = "XLADEV"
"""The device type where `DEVICE` names no other."""

_NAME = re.compile("[A-Z][A-Z0-9_]{0,62}")
_TAKEN = frozenset(
    ("CPU", "GPU", "TPU", "TPU_SYSTEM", "XLA_CPU", "XLA_GPU", "DEFAULT", "COMPOSITE", "CUSTOM")
)


def device_type() -> str:
    """The type of the device in TensorFlow."""
    name = os.environ.get(DEVICE, "")
    return name if _NAME.fullmatch(name) and name not in _TAKEN else DEVICE_TYPE


def platform_name() -> str | None:
    """The platform behind it; None means that of highest priority.

    A device type of another name than XLADEV means the platform of that name, in small letters.
    """
    named = os.environ.get(PLATFORM)
    if named:
        return named
    return None if device_type() == DEVICE_TYPE else device_type().lower()
