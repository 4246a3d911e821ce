"""What the command line of the suite says, as one value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from xladev.testing.conformance.waivers import NOTHING, Declarations


@dataclass(frozen=True, slots=True)
class Settings:
    """How the suite is run.

    Attributes:
        backend: platform, kind or device name.
        seed: of the inputs.
        tighten: factor, at most 1, on what the suite allows.
        declarations: what the backend says about itself in writing.
        report: folder for reports and failures; None for none.
        most_seconds: limit on the time of each case, beside its own.
    """

    backend: str
    seed: int = 0
    tighten: float = 1.0
    declarations: Declarations = NOTHING
    report: Path | None = None
    most_seconds: float = float("inf")
