"""Public names of xladev, resolved on first use so that `import xladev` stays cheap."""

from importlib import import_module
from os import environ
from pkgutil import extend_path
from typing import TYPE_CHECKING

# Distributions such as xladev-cuda install into xladev/platforms/ on a path of their own.
__path__ = extend_path(__path__, __name__)
__version__ = "0.1.0"

if TYPE_CHECKING:
    from xladev.client import compile, devices, load, load_executable
    from xladev.compiler.options import CompileOptions
    from xladev.compiler.placement.placement_log import set_log_device_placement
    from xladev.errors import XladevError
    from xladev.hlo.device_scope import device
    from xladev.hlo.ir import HloModule
    from xladev.hlo.jit_scope import jit_scope
    from xladev.hlo.text import parse_module as parse
    from xladev.hlo.text import print_module
    from xladev.profiling.timeline import profile

# Public name -> "module:attribute" that defines it.
_PUBLIC = {
    "CompileOptions": "xladev.compiler.options:CompileOptions",
    "HloModule": "xladev.hlo.ir:HloModule",
    "XladevError": "xladev.errors:XladevError",
    "compile": "xladev.client:compile",
    "device": "xladev.hlo.device_scope:device",
    "devices": "xladev.client:devices",
    "jit_scope": "xladev.hlo.jit_scope:jit_scope",
    "load": "xladev.client:load",
    "load_executable": "xladev.client:load_executable",
    "parse": "xladev.hlo.text:parse_module",
    "print_module": "xladev.hlo.text:print_module",
    "profile": "xladev.profiling.timeline:profile",
    "set_log_device_placement": (
        "xladev.compiler.placement.placement_log:set_log_device_placement"
    ),
}

__all__ = [
    "CompileOptions",
    "HloModule",
    "XladevError",
    "compile",
    "device",
    "devices",
    "jit_scope",
    "load",
    "load_executable",
    "parse",
    "print_module",
    "profile",
    "set_log_device_placement",
]


# What makes pages of the files that a compilation dumps; looked up by instrument, far to its left.
_DUMP_PAGES = "xladev.profiling.dumps.pages:add_file"


def __getattr__(name: str) -> object:
    """Import the module that defines the public `name`, and remember the value."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'xladev' has no attribute {name!r}")
    module, _, attribute = _PUBLIC[name].partition(":")
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value


if "XLADEV_TRACE" in environ:
    import_module("xladev.profiling.timeline.environment").start()


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
