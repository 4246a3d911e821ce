"""Goes on after a device was lost."""

from __future__ import annotations

from xladev.errors import DeviceLostError
from xladev.frontends.tensorflow.adapter import forget_constants
from xladev.frontends.tensorflow.environment import platform_name
from xladev.runtime.device import Device
from xladev.runtime.registry import current_registry


def reset_lost_devices() -> None:
    """Makes the lost ones of TensorFlow's devices usable again.

    Tensors and variables on them are gone: they raise `tf.errors.UnavailableError` where they are
    used, variables until something is assigned to them. TensorFlow also keeps constants on
    devices, for operators and graphs; these are made anew.

    Raises:
        XladevError: a device could not be reset.
    """
    devices = current_registry().platform(platform_name()).devices()
    lost = [device for device in devices if _is_lost(device)]
    for device in lost:
        device.reset()
    if lost:
        forget_constants()


def _is_lost(device: Device) -> bool:
    try:
        device.check_usable()
    except DeviceLostError:
        return True
    return False
