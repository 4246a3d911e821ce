"""Collectives with devices of other processes: by NCCL from device memory, where it has them.

The threads of this process's ranks meet; the last one enqueues for all of them. What NCCL does not
have goes through host memory and the job's connections, as on any platform.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xladev.errors import ExecutionError, XladevError
from xladev.hlo.shape import Shape
from xladev.platforms.cuda.communicator import by_library
from xladev.platforms.cuda.driver.interface import DriverError, Share
from xladev.platforms.cuda.driver.ranks import RankLibrary, SpanningDriver
from xladev.platforms.cuda.executor import CudaExecutor
from xladev.platforms.cuda.faults import driver_errors
from xladev.platforms.cuda.joint_collectives import JointCollective, Watch
from xladev.platforms.cuda.joint_ranks import JointRanks
from xladev.platforms.cuda.libraries.collectives import LibraryCollective
from xladev.platforms.cuda.stream import CudaStream, device_address
from xladev.runtime.collectives.collective_table import CollectiveCall, checked_result_shape
from xladev.runtime.collectives.one_call import OneCallCommunicator
from xladev.runtime.communicator import Communicator, Participant, RaggedSlices
from xladev.runtime.distributed.process_communicator import ProcessCommunicator
from xladev.runtime.distributed.transport import Exchange
from xladev.runtime.executor import Executor
from xladev.runtime.memory import DeviceMemory

_Brought = tuple[LibraryCollective, Share]


class CudaProcessCommunicator(OneCallCommunicator):
    """See `Communicator`.

    Args:
        through_host: does what NCCL does not.
        ranks: of the same devices.
    """

    def __init__(self, through_host: ProcessCommunicator, ranks: JointRanks) -> None:
        self._host, self._ranks = through_host, ranks

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self._host.size

    def abort(self, run_id: int, error: XladevError) -> None:
        """Makes calls of run ``run_id`` fail; the watch ends what is on streams."""
        self._host.abort(run_id, error)

    def run(
        self, who: Participant, operand: DeviceMemory, result: DeviceMemory, call: CollectiveCall
    ) -> None:
        """See `OneCallCommunicator.run`."""
        checked_result_shape(call, self.size, who.name)
        found = by_library(call, self.size)
        run = self._host.spread.run(who.run_id)
        with driver_errors(who.name):
            if found is None or not self._ranks.prepare(run):
                self._host.run(who, operand, result, call)
            else:
                self._together(who, Exchange(run, who.name), operand, result, found)

    def _together(
        self,
        who: Participant,
        exchange: Exchange,
        operand: DeviceMemory,
        result: DeviceMemory,
        collective: LibraryCollective,
    ) -> None:
        if not isinstance(who.stream, CudaStream):
            raise ExecutionError("the stream belongs to another platform", where=who.name)
        share = Share(who.stream.stream, device_address(operand), device_address(result))

        def enqueue(brought: list[_Brought]) -> Sequence[JointCollective]:
            if any(other != collective for other, _ in brought):
                raise ExecutionError(
                    f"the ranks of collective {who.name!r} disagree",
                    why="; ".join(sorted({str(other) for other, _ in brought})),
                )
            with driver_errors(who.name):
                made = self._ranks.enqueue(exchange, collective, [s for _, s in brought])
            return [made] * len(brought)

        found: Any = self._host.meet_here(who, (collective, share), enqueue)
        who.stream.depend(found)

    def ragged_all_to_all(
        self,
        who: Participant,
        operand: DeviceMemory,
        result: DeviceMemory,
        shape: Shape,
        result_shape: Shape,
        slices: RaggedSlices,
    ) -> None:
        """See `Communicator.ragged_all_to_all`."""
        self._host.ragged_all_to_all(who, operand, result, shape, result_shape, slices)


def process_communicator(
    driver: SpanningDriver, devices: Sequence[Executor], through_host: ProcessCommunicator
) -> Communicator:
    """Collectives of devices of this process and of others.

    Args:
        driver: of the devices.
        devices: of this process.
        through_host: see `Platform.create_process_communicator`.
    """
    library: RankLibrary | str
    try:
        library = driver.nccl()
    except DriverError as e:
        library = str(e)
    job, places = through_host.spread.job, through_host.places
    opened = [d.device for d in devices if isinstance(d, CudaExecutor)]
    watch = job.kept("cuda: watch", Watch)
    ranks = job.kept(
        ("cuda: ranks", id(driver), places), lambda: JointRanks(job, places, opened, library, watch)
    )
    return CudaProcessCommunicator(through_host, ranks)
