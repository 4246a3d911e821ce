"""Compiles the library when a wheel is built."""

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

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FLAGS = (
    "-std=gnu11", "-O2", "-g1", "-Wall", "-Wextra", "-fPIC", "-shared", "-fvisibility=hidden",
    "-pthread",
)  # fmt: skip
LIBRARY = "libxladev_pjrt.so"


def find_compiler() -> list[str]:
    """The command that compiles C.

    Raises:
        SystemExit: there is none.
    """
    command = shlex.split(os.environ.get("CC", "")) or ["cc"]
    if shutil.which(command[0]) is None:
        raise SystemExit(
            f"xladev-pjrt: there is no wheel for this machine, and no C compiler {command[0]!r} to "
            "build one with. Install a compiler (Debian: apt-get install gcc libc6-dev), or name "
            "one with the variable CC."
        )
    return command


def compile_library(root: Path, folder: Path) -> Path:
    """Compiles the sources under ``root`` into a library in ``folder``; its path."""
    target = folder / LIBRARY
    sources = sorted(map(str, (root / "src").glob("*.c")))
    command = [*find_compiler(), *FLAGS, *sources, "-ldl", "-o", str(target)]
    subprocess.run(command, check=True)
    return target


class CustomBuildHook(BuildHookInterface[Any]):
    """Puts the compiled library into the wheel, and its machine into the wheel's name."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compiles, and tags the wheel for any Python of this machine.

        The library is among the sources only where these are installed as they are (editable).
        """
        root = Path(self.root)
        self._folder = tempfile.TemporaryDirectory()
        folder = root / "xladev_pjrt" if version == "editable" else Path(self._folder.name)
        made = compile_library(root, folder)
        build_data["force_include"][str(made)] = f"xladev_pjrt/{LIBRARY}"
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Removes what was compiled; the wheel has it."""
        self._folder.cleanup()


if __name__ == "__main__":
    print(compile_library(Path(__file__).parent, Path(sys.argv[1])))
