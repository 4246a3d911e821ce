"""Jobs started by mpiexec, for tests."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
PATIENCE_S = 120


def mpiexec() -> str:
    """The launcher of this environment; skips the test where MPI is not there."""
    pytest.importorskip("mpi4py")
    found = shutil.which("mpiexec", path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip("no mpiexec in this environment: pip install mpich")
    return found


def run_by_mpi(
    rows: Sequence[Sequence[str]],
    timeout_s: float = 60.0,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a process of Python for each row of arguments; all they print."""
    command = [mpiexec()]
    for row in rows:
        command += [*([":"] if len(command) > 1 else []), "-n", "1", sys.executable, *row]
    said = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(_ROOT), os.environ.get("PYTHONPATH", ""))),
        "XLADEV_COLLECTIVE_TIMEOUT_S": str(timeout_s),
        **(environment or {}),
    }
    return subprocess.run(
        command, env=said, cwd=_ROOT, text=True, timeout=PATIENCE_S,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
