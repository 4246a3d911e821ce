"""Puts the platform's sources into what is built: from the repository, or from the sdist."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLATFORM = "xladev/platforms/cuda"


class PlatformSources(BuildHookInterface[Any]):
    """Adds the folder of the platform; an editable installation has the repository's own."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects files."""
        if version == "editable":
            return
        root = Path(self.root)
        places = (root / PLATFORM, root.parents[1] / PLATFORM)
        found = next((place for place in places if place.is_dir()), None)
        if found is None:
            raise SystemExit(f"xladev-cuda: {PLATFORM} is neither in the sdist nor beside it")
        build_data["force_include"][str(found)] = PLATFORM
