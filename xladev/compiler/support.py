"""The answer of a compiler to "can this run on your device?": yes, or no with a reason."""

from __future__ import annotations

from dataclasses import dataclass

from xladev.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Support:
    """Yes, or no with a reason; true in a condition if yes.

    Attributes:
        supported: the answer.
        reason: why not, as one clause without a full stop, such as ``f64 is not in hardware``;
            shown by `xladev doctor`, in reports and in dumps. Empty if supported.
    """

    supported: bool
    reason: str = ""

    def __post_init__(self) -> None:
        if not self.supported and not self.reason:
            raise ArgumentError(
                "a refusal without a reason",
                why="reasons are what a user sees when an instruction falls back to the host",
                hint='use no("f64 is not in hardware")',
            )

    def __bool__(self) -> bool:
        return self.supported


YES = Support(True)
"""Supported."""


def no(reason: str) -> Support:
    """Not supported, because of ``reason``."""
    return Support(False, reason)
