"""What a child of fork may compile: jax 0.10 hands compilations to threads that a child lacks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from xladev.errors import AbsentDeviceError, CompileError


@dataclass(slots=True)
class _Process:
    """What is known of this process."""

    is_child: bool = False
    compiles_elsewhere: bool = False


class _Thread(threading.local):
    """What is known of the current thread."""

    is_compiling = False


_process = _Process()
_thread = _Thread()


@contextmanager
def compiling() -> Iterator[None]:
    """Surrounds a compilation by JAX.

    Raises:
        CompileError: this is a child of fork, and JAX compiled in another thread in its parent.
    """
    if _process.is_child and _process.compiles_elsewhere:
        raise CompileError(
            "a child of fork cannot compile",
            why="this version of JAX compiles in threads, which only the parent has",
            hint="compile before os.fork, or start children with multiprocessing's spawn",
        )
    _thread.is_compiling = True
    try:
        yield
    finally:
        _thread.is_compiling = False


def note_compilation() -> None:
    """Notes whether JAX compiles in the thread that asked it to; called where it arrives."""
    if not _thread.is_compiling:
        _process.compiles_elsewhere = True


def check_device(host_addressable: bool) -> None:
    """Refuses to use a device that only the parent has.

    Raises:
        AbsentDeviceError: this is a child of fork, and the device has memory of its own.
    """
    if _process.is_child and not host_addressable:
        raise AbsentDeviceError(
            "a child of fork cannot use its parent's device",
            why="the driver's threads and queues stayed with the parent",
            hint="start children with multiprocessing's spawn",
        )


def watch_forks(in_child: Callable[[], None]) -> None:
    """Lets children of fork know that they are, and calls a function in them."""

    def begin() -> None:
        _process.is_child = True
        in_child()

    os.register_at_fork(after_in_child=begin)
