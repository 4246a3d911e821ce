"""Finds and loads the C library of the distribution xladev-pjrt."""

from __future__ import annotations

import ctypes
import importlib
import os
from functools import cache
from pathlib import Path

from xladev.errors import PluginError

VARIABLE = "XLADEV_PJRT_LIBRARY"
INTERFACE = 13
"""What the library's xladev_interface must return."""


def library_path() -> Path:
    """Where the library is: the variable XLADEV_PJRT_LIBRARY, else the package xladev_pjrt.

    Raises:
        PluginError: the package is not installed, or holds no library.
    """
    named = os.environ.get(VARIABLE)
    path = Path(named) if named else _installed_path()
    if not path.is_file():
        raise PluginError(
            f"there is no library {path}",
            where=VARIABLE if named else "package xladev_pjrt",
            why="JAX talks to xladev through this library",
            hint="build it: python -m pip install xladev-pjrt, which needs a C compiler where "
            "no wheel fits",
        )
    return path


def _installed_path() -> Path:
    try:
        package = importlib.import_module("xladev_pjrt")
    except ImportError as error:
        raise PluginError(
            "the package xladev_pjrt is not installed",
            why="JAX talks to xladev through its C library",
            hint="python -m pip install xladev-pjrt (from a checkout: pip install "
            "packaging/xladev-pjrt; needs a C compiler)",
        ) from error
    path: Path = package.library_path()
    return path


@cache
def load() -> ctypes.CDLL:
    """The library in this process; Python's lock is free while its functions run.

    Raises:
        PluginError: there is none, the system cannot load it, or it is of another release.
    """
    path = library_path()
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise PluginError(
            f"{path} cannot be loaded",
            why=str(error),
            hint="build it again on this machine: python -m pip install --force-reinstall "
            "--no-binary :all: xladev-pjrt",
        ) from error
    found = library.xladev_interface() if hasattr(library, "xladev_interface") else 0
    if found != INTERFACE:
        raise PluginError(
            f"{path} speaks interface {found}",
            why=f"this xladev speaks interface {INTERFACE}",
            hint="install xladev and xladev-pjrt of the same release",
        )
    library.xladev_event_set.argtypes = [
        ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t,
    ]  # fmt: skip
    return library
