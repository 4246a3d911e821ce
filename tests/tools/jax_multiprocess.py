"""Runs JAX's own multi-process tests on an xladev platform, by JAX's own driver or by mpiexec.

    python -m tests.tools.jax_multiprocess --jax-repo ../jax all_reduce_test all_gather_test
    python -m tests.tools.jax_multiprocess --jax-repo ../jax --devices 4 array_test
    python -m tests.tools.jax_multiprocess --jax-repo ../jax --mpi all_reduce_test

JAX's driver starts its workers itself. With ``--mpi`` mpiexec starts them, each told what the
driver would have told it, and messages go over MPI. The checkout is not part of this repository;
its version should be that of the jax installed. Prints for each file how many tests ran in process
0, how many of them failed or were skipped, and fails if one did fail.
"""

import argparse
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.tools.jax_child import library
from tests.tools.job_processes import free_port
from tests.tools.mpi import mpiexec
from xladev.frontends.jax.library import VARIABLE

ROOT = Path(__file__).parents[2]
PLATFORMS = "xladev_cpu,cpu"
PATIENCE_S = 900
_RAN = re.compile(r"^Ran (\d+) tests? in .*s\n\n(OK|FAILED)(?: \((.*)\))?$", re.M)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of a test file in one process.

    Attributes:
        ran: tests, with those skipped.
        failed: failures and errors.
        skipped: tests.
    """

    ran: int
    failed: int
    skipped: int

    @property
    def passed(self) -> int:
        """Tests that ran and did not fail."""
        return self.ran - self.failed - self.skipped


def outcomes(text: str) -> list[Outcome]:
    """What unittest says at the end, of each process that reached it."""
    found = []
    for ran, _, said in _RAN.findall(text):
        counts = {
            what: int(n)
            for what, _, n in (part.partition("=") for part in said.split(", ") if said)
        }
        failed = counts.get("failures", 0) + counts.get("errors", 0)
        found.append(Outcome(int(ran), failed, counts.get("skipped", 0)))
    return found


def run_file(
    path: Path,
    processes: int,
    devices: int = 1,
    *,
    by_mpi: bool = False,
    logs: Path | None = None,
) -> tuple[list[Outcome], str]:
    """Runs a test file of JAX's in several processes; of each process, and all that they said.

    Args:
        path: of the file.
        processes: how many.
        devices: of each.
        by_mpi: True if mpiexec starts them.
        logs: where JAX's driver writes; default: its own choice.
    """
    said = _environment(devices)
    if logs is not None:
        said["TEST_UNDECLARED_OUTPUTS_DIR"] = str(logs)
    with TemporaryDirectory() as folder:
        if by_mpi:
            command = _by_mpi(path, processes, Path(folder))
            said["XLADEV_TRANSPORT"] = "mpi"
        else:
            command = [sys.executable, str(path), f"--num_processes={processes}"]
        done = subprocess.run(
            command, env=said, cwd=path.parent, text=True, timeout=PATIENCE_S,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        kept = [each.read_text(errors="replace") for each in sorted(Path(folder).iterdir())]
    text = "\n".join((done.stdout, *kept))
    return outcomes(text), text


def _environment(devices: int) -> dict[str, str]:
    paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return (
        os.environ
        | _library()
        | {
            "JAX_PLATFORMS": PLATFORMS,
            "XLADEV_CPU_DEVICES": str(devices),
            "PYTHONPATH": os.pathsep.join(paths),
        }
    )


def _library() -> dict[str, str]:
    """Names the C library that JAX loads, compiled here, where its package is not installed."""
    if VARIABLE in os.environ:
        return {}
    try:
        import_module("xladev_pjrt")
    except ImportError:
        return {VARIABLE: str(library())}
    return {}


def _by_mpi(path: Path, processes: int, folder: Path) -> list[str]:
    """A row for each worker, with the arguments that JAX's driver gives it.

    What a worker says goes to a file of its own, as JAX's driver has it: mpiexec would mix lines.
    """
    address = f"localhost:{free_port()}"
    command = [mpiexec()]
    for worker in range(processes):
        log = folder / f"{worker}.log"
        command += [*([":"] if worker else []), "-n", "1"]
        command += ["sh", "-c", 'log=$1; shift; exec "$@" > "$log" 2>&1', "sh", str(log)]
        command += [sys.executable, str(path)]
        command += [
            f"--num_processes={processes}",
            f"--multiprocess_test_worker_id={worker}",
            f"--multiprocess_test_controller_address={address}",
        ]
    return command


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="FILE", help="such as all_reduce_test")
    parser.add_argument("--jax-repo", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--devices", type=int, default=1, help="of each process")
    parser.add_argument("--mpi", action="store_true", help="mpiexec starts the workers")
    parser.add_argument("--verbose", action="store_true", help="all that they said")
    given = parser.parse_args()
    failed = 0
    for file in given.files:
        path = (given.jax_repo / "tests" / "multiprocess" / f"{file}.py").resolve()
        found, said = run_file(path, given.processes, given.devices, by_mpi=given.mpi)
        complete = len(found) == given.processes
        failed += not complete or any(each.failed for each in found)
        first = found[0] if found else None
        print(f"{file}: {first}" if complete else f"{file}: {len(found)} processes ended\n{said}")
        if given.verbose:
            print(said)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
