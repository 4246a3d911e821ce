"""The C extension of xladev-calls, compiled from the sources that are tested."""

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "packaging" / "xladev-calls"


def provide() -> None:
    """Lets this process and its children import the package as its sources are.

    Where it cannot be compiled, an installed one is used, or calls go through Python.

    Raises:
        subprocess.CalledProcessError: the compiler finds errors.
    """
    if not is_possible():
        return
    folder = str(_compiled())
    sys.path.insert(0, folder)
    inherited = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *([inherited] if inherited else [])])


def is_possible() -> bool:
    """Whether there are sources, a C compiler, headers of this Python, and what builds wheels."""
    return (
        PACKAGE.is_dir()
        and shutil.which(os.environ.get("CC", "cc").split()[0]) is not None
        and Path(sysconfig.get_path("include"), "Python.h").exists()
        and find_spec("hatchling") is not None
    )


def _compiled() -> Path:
    """A folder that holds the package; compiled once for one state of the sources and a Python."""
    sources = sorted([*PACKAGE.glob("*.py"), *PACKAGE.glob("*/*.py"), *PACKAGE.glob("src/*")])
    text = b"".join(path.read_bytes() for path in sources)
    name = hashlib.sha256(text + sys.version.encode()).hexdigest()[:16]
    folder = ROOT / "build" / "xladev-calls" / name
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            package = Path(made, "whole", "xladev_calls")
            shutil.copytree(
                PACKAGE / "xladev_calls",
                package,
                ignore=shutil.ignore_patterns("__pycache__", "*.so"),
            )
            build = [sys.executable, str(PACKAGE / "hatch_build.py"), str(package)]
            subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
            _move(package.parent, folder)
    return folder


def _move(made: Path, folder: Path) -> None:
    """Renames what is whole; another process may have been first."""
    try:
        made.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
