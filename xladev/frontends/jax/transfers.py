"""Arrays on their way between processes: what `jax.device_put` asks for across processes.

Both processes name a transfer by the same key. One thread sends and one receives, each in the order
in which it was asked; messages that nobody waits for yet are kept.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xladev.compiler.isolation import as_error
from xladev.errors import ExecutionError, ProcessError, XladevError
from xladev.hlo.dtype import PrimitiveType
from xladev.runtime.array import DeviceArray, put
from xladev.runtime.device import Device
from xladev.runtime.distributed.job import Job, timeout_from_environment
from xladev.runtime.distributed.messages import run_tag
from xladev.runtime.distributed.transport import Exchange

Settle = Callable[[XladevError | None], None]
"""Tells whoever asked that a transfer has ended, and why it failed."""


@dataclass(frozen=True, slots=True)
class Sent:
    """What both processes say of an array.

    Attributes:
        process: the other one.
        key: of the transfer.
        primitive: type of the elements.
        dims: sizes.
    """

    process: int
    key: bytes
    primitive: PrimitiveType
    dims: tuple[int, ...]

    @property
    def exchange(self) -> Exchange:
        """The same in both processes."""
        agreement = f"{self.primitive} {self.dims}".encode()
        return Exchange(transfer_run(self.key), f"transfer {self.key.decode()}", agreement)


def transfer_run(key: bytes) -> bytes:
    """What names a transfer where it fails."""
    return run_tag(b"transfer" + key, 0)


def axes_by_major(minor_to_major: Sequence[int]) -> tuple[int, ...]:
    """The dimension that each axis of a device's array is, from major to minor."""
    return tuple(reversed(minor_to_major))


@dataclass(eq=False)
class Transfer:
    """One of them; whoever asked is told once how it ended.

    Attributes:
        sent: what goes.
        work: sends or receives it.
        settle: see `Settle`.
        since_s: when it was asked for, by the monotonic clock.
    """

    sent: Sent
    work: Callable[[], None]
    settle: Settle
    since_s: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_settled: bool = False

    def end(self, error: XladevError | None) -> None:
        """Tells it, unless that was told."""
        with self._lock:
            if not self._is_settled:
                self._is_settled = True
                self.settle(error)


class Line:
    """Transfers one after the other, in a daemon thread that is started for the first.

    Args:
        name: of the thread.
        limit_s: how long a process is waited for, in seconds.
    """

    def __init__(self, name: str, limit_s: float) -> None:
        self._name, self._limit_s = name, limit_s
        self._changed = threading.Condition()
        self._waiting: deque[Transfer] = deque()
        self._current: Transfer | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def add(self, transfer: Transfer) -> None:
        """Puts a transfer at the end.

        Raises:
            ProcessError: this process has left the job.
        """
        with self._changed:
            if self._is_closed:
                raise _left()
            self._waiting.append(transfer)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def close(self) -> None:
        """Fails what is left; none is told of after this returns."""
        with self._changed:
            self._is_closed = True
            left = [*filter(None, [self._current]), *self._waiting]
            self._waiting.clear()
            self._changed.notify_all()
        for transfer in left:
            transfer.end(_left())

    def _work(self) -> None:
        while (transfer := self._next()) is not None:
            error = None
            try:
                transfer.work()
            except Exception as e:  # noqa: BLE001 (told to whoever asked)
                error = as_error(e, "a transfer between processes", "Transport")
            if isinstance(error, ProcessError):
                self._fail_late(transfer.sent.process, error)
            transfer.end(error)
            del transfer, error  # the next one may be long in coming, and these hold arrays

    def _next(self) -> Transfer | None:
        with self._changed:
            self._current = None
            while not self._waiting and not self._is_closed:
                self._changed.wait()
            self._current = self._waiting.popleft() if self._waiting else None
            return self._current

    def _fail_late(self, process: int, error: XladevError) -> None:
        """Fails what has waited for the same process as long: each would begin to wait anew."""
        latest = time.monotonic() - self._limit_s
        with self._changed:
            failed = [t for t in self._waiting if t.sent.process == process and t.since_s <= latest]
            self._waiting = deque(t for t in self._waiting if t not in failed)
        for transfer in failed:
            transfer.end(error)


def _left() -> ProcessError:
    return ProcessError("a transfer did not end", why="this process has left the job")


class Receipt:
    """An array that is awaited, and what it is once it has come.

    Args:
        device: that it is for.
        sent: what comes.
        minor_to_major: how it is to lie there.
    """

    def __init__(self, device: Device, sent: Sent, minor_to_major: Sequence[int]) -> None:
        self.device, self._sent = device, sent
        self._axes = axes_by_major(minor_to_major)
        self._data: Any = None

    def fill(self, data: Any) -> None:
        """Takes the elements, row-major."""
        self._data = data

    def array(self) -> DeviceArray:
        """The array, on its device.

        Raises:
            XladevError: the device has no place for it.
        """
        dtype: np.dtype[Any] = self._sent.primitive.np
        host = np.frombuffer(self._data, dtype).reshape(self._sent.dims)
        self._data = None
        made = put(self.device, np.asarray(host.transpose(self._axes), order="C"))
        return made.block_until_ready()


class Transfers:
    """The transfers of one job. Thread-safe.

    A process does not leave the job before what it promised has gone.

    Args:
        job: of the processes.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._limit_s = timeout_from_environment()
        self._sending = Line("xladev-send", self._limit_s)
        self._receiving = Line("xladev-receive", self._limit_s)
        self._changed = threading.Condition()
        self._promised: set[bytes] = set()
        job.before_leaving(self.finish)

    def promise(self, key: bytes) -> None:
        """Notes that `send` or `fail` will be called for a transfer, once its array is computed."""
        with self._changed:
            self._promised.add(key)

    def _kept(self, key: bytes) -> None:
        with self._changed:
            self._promised.discard(key)
            self._changed.notify_all()

    def finish(self) -> None:
        """Waits until all that was promised has gone, or failed, within the time limit."""
        with self._changed:
            self._changed.wait_for(lambda: not self._promised, self._limit_s)

    def send(
        self, array: DeviceArray, minor_to_major: Sequence[int], process: int, key: bytes,
        settle: Settle,
    ) -> None:  # fmt: skip
        """Sends an array, which is there, some time.

        Args:
            array: its axes are the dimensions from major to minor.
            minor_to_major: which dimension each is.
            process: where to.
            key: of the transfer.
            settle: see `Settle`.
        """
        axes = axes_by_major(minor_to_major)
        dims = tuple(size for _, size in sorted(zip(axes, array.shape, strict=True)))
        sent = Sent(process, key, array.hlo_shape.element_type, dims)

        def work() -> None:
            host = np.asarray(array.numpy().transpose(np.argsort(axes)), order="C")
            self._exchange(sent, {1 - self._side(process): host.reshape(-1).view(np.uint8).data})

        def told(error: XladevError | None) -> None:
            if error is not None and not isinstance(error, ProcessError):
                self.fail(key, f"{error.what} ({error.why})" if error.why else error.what)
            self._kept(key)
            settle(error)

        self._sending.add(Transfer(sent, work, told))

    def fail(self, key: bytes, reason: str) -> None:
        """Tells the process that waits for an array that it will not come."""
        self._job.transport.fail_run(transfer_run(key), reason)
        self._kept(key)

    def receive(
        self, device: Device, sent: Sent, minor_to_major: Sequence[int], settle: Settle
    ) -> Receipt:
        """Begins to wait for an array.

        Args:
            device: of this process.
            sent: what comes.
            minor_to_major: how it is to lie on the device.
            settle: see `Settle`.
        """
        receipt = Receipt(device, sent, minor_to_major)

        def work() -> None:
            data = self._exchange(sent)
            if len(data) != np.prod(sent.dims, dtype=int) * sent.primitive.np.itemsize:
                raise ExecutionError("an array came with another size than it should")
            receipt.fill(data)

        self._receiving.add(Transfer(sent, work, settle))
        return receipt

    def _side(self, process: int) -> int:
        """The rank of this process in the channel with another."""
        return int(self._job.index > process)

    def _exchange(self, sent: Sent, given: dict[int, Any] | None = None) -> Any:
        pair = sorted((self._job.index, sent.process))
        channel = self._job.transport.channel(b"transfers", pair)
        if given is not None:
            channel.exchange(sent.exchange, given, ())
            return b""
        (found,) = channel.exchange(sent.exchange, {}, (1 - self._side(sent.process),)).values()
        return found

    def close(self) -> None:
        """See `Closing.close`."""
        self._receiving.close()
        self._sending.close()
