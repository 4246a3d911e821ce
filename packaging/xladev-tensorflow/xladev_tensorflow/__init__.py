"""The plugin by which TensorFlow sees xladev's platforms: one C library, and where it is."""

from __future__ import annotations

import sysconfig
from pathlib import Path

LIBRARY = "libxladev_tensorflow.so"
FOLDER = "tensorflow-plugins"


def library_path() -> Path:
    """The library, beside this package as in a wheel, or among the modules of this Python."""
    beside = Path(__file__).parents[1] / FOLDER / LIBRARY
    return beside if beside.is_file() else Path(sysconfig.get_path("purelib")) / FOLDER / LIBRARY
