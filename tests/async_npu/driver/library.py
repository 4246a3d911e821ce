"""The driver's functions, from C: compiled by the system's compiler when they are first wanted.

Calls release the interpreter lock.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from ctypes import POINTER, c_double, c_int, c_int64, c_uint8, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from xladev.errors import DeviceError

FOLDER = Path(__file__).parent
BUILT = FOLDER.parents[2] / "build" / "async_npu"
VARIABLE = "XLADEV_ASYNC_NPU"

OK, NO_MEMORY, BAD_ADDRESS, IN_USE, UNORDERED, FREED, HOST_FREED, UNALIGNED = range(8)
WHY = {
    NO_MEMORY: "there is no room",
    BAD_ADDRESS: "the address is none of the device's, or was freed",
    IN_USE: "memory was freed that pending work uses, as far as the host knows",
    UNORDERED: "work that touches the same memory is pending, and nothing orders the two",
    FREED: "memory was freed before the work that uses it ran",
    HOST_FREED: "host memory was freed before the copy that uses it was known to be done",
    UNALIGNED: "a kernel is given an address that is no multiple of 128",
}
"""What a status means. Those from IN_USE on are mistakes of whoever uses the driver."""

KERNEL = ctypes.CFUNCTYPE(c_int, c_uint64, POINTER(c_void_p))


@dataclass(frozen=True, slots=True)
class Settings:
    """How the device behaves.

    Attributes:
        seed: of all delays.
        delay_us: longest usual delay before, in and after a command; one in eight may be ten times
            as long.
        checks: mistakes in the use of the driver are errors; without, their results are random.
    """

    seed: int = 0
    delay_us: int = 60
    checks: bool = True

    @classmethod
    def from_environment(cls) -> Settings:
        """What ``XLADEV_ASYNC_NPU=SEED[,DELAY_US[,CHECKS]]`` says."""
        given = [int(n) for n in os.environ.get(VARIABLE, "").split(",") if n]
        seed, delay_us, checks = (*given, *(0, cls().delay_us, 1)[len(given) :])
        return cls(seed, delay_us, bool(checks))


SETTINGS = Settings.from_environment()


def c_compiler() -> str | None:
    """Path of a C compiler; None if there is none."""
    return next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)


@cache
def load() -> Any:
    """The library, compiled anew if its source has changed.

    Raises:
        DeviceError: there is no C compiler, or it refused the source.
    """
    sources = sorted(FOLDER.glob("*.[ch]"))
    digest = hashlib.sha256(b"".join(s.read_bytes() for s in sources)).hexdigest()[:16]
    path = BUILT / f"{digest}.so"
    if not path.is_file():
        _compile([s for s in sources if s.suffix == ".c"], path)
    return _with_prototypes(ctypes.CDLL(str(path)))


def _compile(sources: list[Path], path: Path) -> None:
    compiler = c_compiler()
    if compiler is None:
        raise DeviceError("the driver of async_npu cannot be built", why="there is no C compiler")
    BUILT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILT) as folder:
        made = Path(folder) / path.name
        flags = ("-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread")
        command = [compiler, *flags, *map(str, sources), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DeviceError("the driver of async_npu cannot be built", why=done.stderr)
        made.rename(path)


_PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "an_configure": (None, (c_uint64, c_uint64, c_int, KERNEL)),
    "an_open": (c_void_p, (c_int, c_uint64)),
    "an_close": (None, (c_void_p,)),
    "an_alloc": (c_int, (c_void_p, c_uint64, c_uint64, POINTER(c_uint64))),
    "an_free": (c_int, (c_void_p, c_uint64)),
    "an_memory_info": (None, (c_void_p, POINTER(c_uint64))),
    "an_write": (c_int, (c_uint64, c_void_p, c_uint64)),
    "an_read": (c_int, (c_uint64, c_void_p, c_uint64)),
    "an_queue": (c_int, (c_void_p, c_int)),
    "an_queue_owner": (c_int, (c_int,)),
    "an_queue_drop": (None, (c_int, c_int)),
    "an_copy": (c_int, (c_int, c_uint64, c_void_p, c_uint64, c_void_p, c_uint64)),
    "an_launch": (
        c_int,
        (c_int, c_uint64, c_int, POINTER(c_uint64), POINTER(c_uint64), POINTER(c_uint8)),
    ),
    "an_record": (c_void_p, (c_int,)),
    "an_mark": (c_void_p, (c_int,)),
    "an_wait": (None, (c_int, c_void_p)),
    "an_event_wait": (c_int, (c_void_p, c_double)),
    "an_event_failure": (c_int64, (c_void_p,)),
    "an_event_time_ns": (c_uint64, (c_void_p,)),
    "an_event_drop": (None, (c_void_p,)),
    "an_host_freed": (c_int, (c_void_p, c_uint64)),
}  # fmt: skip


def _with_prototypes(library: Any) -> Any:
    for name, (result, arguments) in _PROTOTYPES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
