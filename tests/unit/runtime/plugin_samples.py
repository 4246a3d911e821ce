"""Plugins, good and misbehaving, each an object that an entry point may name."""

import sys
from types import SimpleNamespace

from tests.unit.runtime.null_device import Driver, null_spec
from xladev.runtime.hookspecs import PlatformSpec, hookimpl
from xladev.runtime.registry import current_registry


def plugin(hook):
    """An object with `hook` as its implementation."""
    hook.__name__ = "xladev_platforms"
    return SimpleNamespace(xladev_platforms=hookimpl(hook))


def raising():
    raise ValueError("no licence")


def exiting():
    sys.exit(7)


def asking():
    current_registry().devices()
    return null_spec(Driver(), name="eager")


def registering():
    current_registry().register(null_spec(Driver(), name="cpu", priority=999))
    return null_spec(Driver(), name="eager")


registers_cpu = plugin(registering)
asks_for_devices = plugin(asking)
good = plugin(lambda: null_spec(Driver(), name="good", priority=300))
other = plugin(lambda: null_spec(Driver(), name="other", kind="npu", priority=200))
twins = plugin(lambda: [null_spec(Driver(), name="twin_a"), null_spec(Driver(), name="twin_b")])
good_again = plugin(lambda: null_spec(Driver(), name="good", priority=900))
raises = plugin(raising)
exits = plugin(exiting)
returns_text = plugin(lambda: "npu")
returns_none = plugin(lambda: None)
bad_name = plugin(lambda: PlatformSpec("Has Spaces", factory=Driver))
old_major = plugin(lambda: null_spec(Driver(), name="old", api=(0, 9)))
new_major = plugin(lambda: null_spec(Driver(), name="new", api=(2, 0)))
new_minor = plugin(lambda: null_spec(Driver(), name="newer", api=(1, 7)))
claims_cpu, claims_interpreter, claims_template_npu, claims_cuda, claims_cuda_emu = (
    plugin(lambda name=name: null_spec(Driver(), name=name, priority=999))
    for name in ("cpu", "interpreter", "template_npu", "cuda", "cuda_emu")
)
no_hook = SimpleNamespace()


def wants_argument(device):
    return null_spec(Driver())


wrong_signature = plugin(wants_argument)
unknown_hook = SimpleNamespace(xladev_devices=hookimpl(lambda: None))
unknown_hook.xladev_devices.__name__ = "xladev_devices"
