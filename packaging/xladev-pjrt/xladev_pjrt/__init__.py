"""The native half of xladev's PJRT plugin: one C library, and where it is."""

from __future__ import annotations

from pathlib import Path

LIBRARY = "libxladev_pjrt.so"


def library_path() -> Path:
    """The library; it exists in an installed package."""
    return Path(__file__).with_name(LIBRARY)
