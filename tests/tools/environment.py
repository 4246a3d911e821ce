"""Makes a Python environment for a test that installs something, without an index.

It is a virtual environment that borrows the packages of the one that runs the tests: their folders
are on its path, behind its own. What `pip install` puts there is seen there and nowhere else.
"""

import os
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPTS = {
    "xladev": "xladev.cli.main:main",
    "pytest": "pytest:main",
    "pip": "pip._internal.cli.main:main",
}
PIP = "[global]\nno-index = true\ndisable-pip-version-check = true\nno-build-isolation = false\n"
"""pip reads the last line as the option --no-build-isolation: hatchling is borrowed too."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment in `folder`."""

    folder: Path

    @property
    def variables(self) -> dict[str, str]:
        """Of a process in which `python`, `pip`, `pytest` and `xladev` are this environment's."""
        kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
        path = os.pathsep.join([str(self.folder / "bin"), kept.get("PATH", os.defpath)])
        return kept | {"PATH": path, "PIP_CONFIG_FILE": str(self.folder / "pip.conf")}

    def run(self, *command: str, cwd: Path, timeout_s: float = 300) -> tuple[int, str]:
        """Exit code, and all that it printed."""
        program = str(self.folder / "bin" / command[0])
        done = subprocess.run(
            [program, *command[1:]], cwd=cwd, env=self.variables, text=True, timeout=timeout_s,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return done.returncode, done.stdout


def make_environment(folder: Path, *paths: Path) -> Environment:
    """A fresh environment.

    Args:
        folder: where, not there yet.
        paths: on its path before the borrowed packages; ROOT for the xladev of this checkout.
    """
    venv.create(folder, symlinks=True)
    bin_folder, python = folder / "bin", folder / "bin" / "python"
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    borrowed = [path for path in sys.path if path.endswith("-packages")]
    # Lines of a .pth file only extend the path: the .pth files of borrowed folders are not read.
    (site / "borrowed.pth").write_text("".join(f"{p}\n" for p in [*paths, *borrowed]))
    (folder / "pip.conf").write_text(PIP)
    for name, target in SCRIPTS.items():
        module, function = target.split(":")
        bytecode = bin_folder / name
        main = f"from {module} import {function} as main"
        bytecode.write_text(f"#!{python}\nimport sys\n{main}\nsys.exit(main())\n")
        bytecode.chmod(0o755)
    return Environment(folder)
