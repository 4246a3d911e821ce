"""The version of torch that this front end is written for; known without importing torch."""

from __future__ import annotations

TESTED = "2.13"


def is_tested(version: str) -> bool:
    """Whether a version of torch, such as ``2.13.0+cpu``, is the one."""
    return version.startswith(f"{TESTED}.")
