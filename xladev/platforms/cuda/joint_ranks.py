"""The NCCL communicator of one group of devices in several processes; made anew after a failure.

The unique id goes over the job's connections. A communicator is named by the run that it was made
in; who aborts it tells the others, who abort theirs before they use it again.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from xladev.errors import ProcessError, XladevError
from xladev.instrument import logger
from xladev.platforms.cuda.driver.interface import DriverDevice, DriverError, Share
from xladev.platforms.cuda.driver.rank_group import RankGroup
from xladev.platforms.cuda.driver.ranks import RankLibrary
from xladev.platforms.cuda.faults import driver_errors
from xladev.platforms.cuda.joint_collectives import Begun, JointCollective, Watch
from xladev.platforms.cuda.libraries.collectives import LibraryCollective
from xladev.runtime.distributed.job import Job, Place
from xladev.runtime.distributed.messages import run_tag
from xladev.runtime.distributed.transport import Exchange

_log = logger("runtime")
_EXCHANGE = "the NCCL communicator"
_Said = dict[str, Any]


class JointRanks:
    """See the module. Thread-safe.

    Args:
        job: of the processes.
        places: of the ranks.
        devices: of this process, in the order of its ranks.
        library: NCCL; why there is none, where there is none.
        watch: of this process.
    """

    def __init__(
        self,
        job: Job,
        places: Sequence[Place],
        devices: Sequence[DriverDevice],
        library: RankLibrary | str,
        watch: Watch,
    ) -> None:
        self._job, self._watch = job, watch
        self._devices = tuple(devices)
        self._library = library
        self._size = len(places)
        self._numbers = [r for r, (process, _) in enumerate(places) if process == job.index]
        self._makes_id = places[0][0] == job.index
        self._key = b"nccl" + repr(tuple(places)).encode()
        processes = sorted({process for process, _ in places})
        self._home = processes.index(places[0][0])
        self._channel = job.transport.channel(self._key, processes)
        self._lock = threading.RLock()
        self._ranks: RankGroup | None = None
        self._pending: deque[JointCollective] = deque()
        self._tag = b""
        self._is_refused = not self._channel.can_attend

    def prepare(self, run: bytes) -> bool:
        """Makes the communicator if there is none; False if data go through the host.

        Args:
            run: what names the execution in all processes.

        Raises:
            ProcessError: another process is gone, failed, or does not come.
        """
        with self._lock:
            if self._ranks is not None and self._channel.has_failed(self._tag):
                self._drop()
            if self._ranks is None and not self._is_refused:
                self._make(run)
            return self._ranks is not None

    def _make(self, run: bytes) -> None:
        exchange = Exchange(run, _EXCHANGE)
        found = self._told(exchange, self._said())
        if why := _difference(found, self._channel.processes):
            self._refuse(why)
            return
        self._tag = run_tag(self._key + run, 0)
        made = self._new_group(bytes.fromhex(found[self._home]["id"]))
        try:
            refused = self._refusal(run, "is begun", made if isinstance(made, str) else "")
            if isinstance(made, RankGroup) and not refused:
                with driver_errors(_EXCHANGE):
                    self._channel.attend(exchange, Begun(made), self._tag)
                refused = self._refusal(run, "is made", made.trouble())
        except XladevError as e:
            self._job.transport.fail_run(self._tag, _spelled(e))
            if isinstance(made, RankGroup):
                made.abort()
            raise
        if isinstance(made, RankGroup) and not refused:
            self._ranks = made
            return
        if isinstance(made, RankGroup):
            made.abort()
        self._refuse(refused)

    def _refusal(self, run: bytes, state: str, why: str) -> str:
        """Why one of the processes does without NCCL, as it says now; empty if none does."""
        said = self._told(Exchange(run, f"{_EXCHANGE} {state}"), {"why": why, "version": 0})
        return _difference(said, self._channel.processes)

    def _told(self, exchange: Exchange, said: _Said) -> list[_Said]:
        """What each process says."""
        rows = self._channel.all_gather(exchange, json.dumps(said).encode())
        return [json.loads(bytes(row)) for row in rows]

    def _said(self) -> _Said:
        """What this process tells the others: its version of NCCL, or why there is none."""
        if isinstance(self._library, str):
            return {"why": self._library, "version": 0}
        made = self._library.unique_id().hex() if self._makes_id else ""
        return {"why": "", "version": self._library.version(), "id": made}

    def _new_group(self, unique_id: bytes) -> RankGroup | str:
        """The ranks of this process; why NCCL refuses them, if it does."""
        assert not isinstance(self._library, str)
        try:
            return RankGroup(self._library, self._devices, self._numbers, self._size, unique_id)
        except DriverError as e:
            return str(e)

    def _refuse(self, why: str) -> None:
        _log.warning("collectives between processes go through host memory: %s", why)
        self._is_refused = True

    def enqueue(
        self, exchange: Exchange, collective: LibraryCollective, shares: Sequence[Share]
    ) -> JointCollective:
        """Enqueues a collective on the streams of this process's ranks; it is watched.

        Raises:
            DriverError: the communicator has ended.
            DeviceError: NCCL refused it.
            ProcessError: another process is gone, failed, or does not come.
        """
        with self._lock:
            ranks, tag = self._ranks, self._tag
            if ranks is None:
                raise DriverError("the NCCL communicator has ended")
            before = [share.stream.mark() for share in shares]
            try:
                with driver_errors(exchange.name):
                    ranks.enqueue(collective, shares)
                    if not ranks.is_begun:
                        self._channel.attend(exchange, Begun(ranks), tag)
            except XladevError as e:
                self._failed(ranks, tag, exchange.run, e)
                raise
            after = [share.stream.mark() for share in shares]
            made = JointCollective(ranks, before, after, exchange.name)
            while self._pending and self._pending[0].is_over:
                self._pending.popleft()
            self._pending.append(made)

        def failed(error: XladevError) -> None:
            self._failed(ranks, tag, exchange.run, error)

        self._watch.add(made, self._channel, exchange, tag, failed)
        return made

    def _failed(self, ranks: RankGroup, tag: bytes, run: bytes, error: XladevError) -> None:
        """Makes the streams go on, and tells the others, who may wait."""
        if self._ranks is ranks:
            self._ranks = None  # first: the next run may begin as soon as the streams go on
        self._give_up(error)
        ranks.abort()
        for name in (run, tag):
            self._job.transport.fail_run(name, _spelled(error))

    def _drop(self) -> None:
        made, self._ranks = self._ranks, None
        if made is not None:
            self._give_up(ProcessError("an execution failed in another process"))
            made.abort()

    def _give_up(self, why: XladevError) -> None:
        """Tells what is under way that it has no results; before its ranks are ended."""
        for collective in list(self._pending):
            collective.give_up(why)

    def close(self) -> None:
        """See `Closing.close`; waits for no thread that waits for other processes."""
        made, self._ranks = self._ranks, None
        if made is not None:
            self._give_up(ProcessError("this process has left the job"))
            made.close()


def _spelled(error: XladevError) -> str:
    return f"{error.what} ({error.why})" if error.why else error.what


def _difference(found: Sequence[Mapping[str, Any]], processes: Sequence[int]) -> str:
    """Why processes cannot use NCCL together; empty if they can."""
    for process, said in zip(processes, found, strict=True):
        if said["why"]:
            return f"process {process}: {said['why']}"
        if said["version"] != found[0]["version"]:
            return (
                f"process {process} has NCCL {said['version']}, "
                f"process {processes[0]} has {found[0]['version']}"
            )
    return ""
