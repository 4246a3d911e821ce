"""Compiles the microkernels that programs share when a wheel is built: docs/reference/caching.md.

Without llvmlite, NumPy and ml_dtypes where the wheel is built, it has none, and they are compiled
where they are wanted first.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACE = "xladev/platforms/cpu/microkernels"
NEEDED = ("llvmlite>=0.50", "numpy>=2.0", "ml_dtypes>=0.5")


class SharedProcedures(BuildHookInterface[Any]):
    """Adds a file of object code for each processor level."""

    _folder = ""

    def dependencies(self) -> list[str]:
        """What the compiler needs; an environment made for the build has it."""
        return list(NEEDED)

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects files."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        try:
            from xladev.platforms.cpu.ship import ship
        except ImportError as e:
            self.app.display_warning(f"no microkernels are compiled for the wheel: {e}")
            return
        self._folder = tempfile.mkdtemp()
        for path in ship(Path(self._folder)):
            build_data["force_include"][str(path)] = f"{PLACE}/{path.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called by hatchling when the wheel is there."""
        if self._folder:
            shutil.rmtree(self._folder)
