"""C libraries of packages beside xladev, compiled from their sources for tests."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@cache
def compiled(package: str) -> Path:
    """The library of ``packaging/<package>``, compiled once in a session; or a skip.

    Skips where the sources or a C compiler are missing; a compiler's warning fails the test.
    """
    sources = ROOT / "packaging" / package
    if not sources.is_dir() or not shutil.which(os.environ.get("CC", "cc").split()[0]):
        pytest.skip(f"needs packaging/{package} and a C compiler")
    folder = ROOT / "build" / package / str(os.getpid())
    folder.mkdir(parents=True, exist_ok=True)
    build = [sys.executable, str(sources / "hatch_build.py"), str(folder)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, f"the compiler warns: {done.stderr}"
    return Path(done.stdout.strip())
