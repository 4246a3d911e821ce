"""Compiles the extension when a wheel is built."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FLAGS = (
    "-std=gnu11", "-O2", "-g1", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-fPIC",
    "-shared", "-fvisibility=hidden",
    "-fstack-clash-protection",  # tables of many arrays are on the stack
)  # fmt: skip
EXTENSION = "_native.abi3.so"


def find_compiler() -> list[str]:
    """The command that compiles C.

    Raises:
        SystemExit: there is none.
    """
    command = shlex.split(os.environ.get("CC", "")) or ["cc"]
    if shutil.which(command[0]) is None:
        raise SystemExit(
            f"xladev-calls: there is no wheel for this machine, and no C compiler {command[0]!r} "
            "to build one with. Install a compiler (Debian: apt-get install gcc libc6-dev), or "
            "name one with the variable CC; or go without: xladev's calls take longer then."
        )
    return command


def compile_extension(root: Path, folder: Path) -> Path:
    """Compiles the sources under ``root`` into an extension in ``folder``; its path."""
    target = folder / EXTENSION
    sources = sorted(map(str, (root / "src").glob("*.c")))
    headers = (sysconfig.get_path("include"), np.get_include())
    included = [f"-isystem{each}" for each in headers]
    command = [*find_compiler(), *FLAGS, *included, *sources, "-o", str(target)]
    subprocess.run(command, check=True)
    return target


class CustomBuildHook(BuildHookInterface[Any]):
    """Puts the compiled extension into the wheel, and its machine into the wheel's name."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles, and tags the wheel for this machine's CPython 3.11 and later.

        The extension is among the sources only where these are installed as they are (editable).
        """
        root = Path(self.root)
        self._folder = tempfile.TemporaryDirectory()
        folder = root / "xladev_calls" if version == "editable" else Path(self._folder.name)
        made = compile_extension(root, folder)
        build_data["force_include"][str(made)] = f"xladev_calls/{EXTENSION}"
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"cp311-abi3-{platform}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Removes what was compiled; the wheel has it."""
        self._folder.cleanup()


if __name__ == "__main__":
    print(compile_extension(Path(__file__).parent, Path(sys.argv[1])))
