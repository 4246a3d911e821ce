"""One CPU device: host memory, and native code run in the calling thread."""

from __future__ import annotations

import ctypes
import threading
import weakref
import zlib
from collections.abc import Sequence

from xladev.compiler.executable import Executable
from xladev.errors import ExecutionError, FormatError
from xladev.instrument.interruption import INTERRUPTED, rethrow
from xladev.platforms.cpu.block_pool import BlockPool, Flush
from xladev.platforms.cpu.code_pages import LLVM_PAGES
from xladev.platforms.cpu.engine import target_name
from xladev.platforms.cpu.exchange import Exchange
from xladev.platforms.cpu.fast_call import make_fast_call
from xladev.platforms.cpu.free_memory import FreeMemory
from xladev.platforms.cpu.joint_launch import JointLaunch
from xladev.platforms.cpu.loaded_code import load_code, load_shared
from xladev.platforms.cpu.native_fast_call import native_fast_call
from xladev.platforms.cpu.payload import CpuPayload
from xladev.platforms.cpu.recorder import RECORDER, TracedProgram
from xladev.runtime.buffers.native_accounting import Account
from xladev.runtime.fast_call import FastCall, FastCallSpec
from xladev.runtime.host_executor import HostExecutor, host_address
from xladev.runtime.loaded_executable import (
    JointEntry,
    LaunchContext,
    LoadedExecutable,
    NativeEntry,
)
from xladev.runtime.memory import DeviceMemory
from xladev.runtime.stream import Stream

_ENTRY_TYPE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)


class CpuExecutor(HostExecutor):
    """A virtual device on this machine's processors."""

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        self._free = FreeMemory()
        self._pool: BlockPool | None = None
        self._lock = threading.Lock()

    def allocate(self, nbytes: int, *, alignment: int, memory_space: int) -> DeviceMemory:
        """Memory freed before, or new; contents are arbitrary.

        Raises:
            MemoryError: there is no more.
        """
        kept = self._free.take(nbytes, alignment)
        if kept is not None:
            return kept
        try:
            return super().allocate(nbytes, alignment=alignment, memory_space=memory_space)
        except MemoryError:
            self._free.clear()
            if self._pool is not None:
                self._pool.clear()
        return super().allocate(nbytes, alignment=alignment, memory_space=memory_space)

    def deallocate(self, memory: DeviceMemory) -> None:
        """Keeps the memory for what is allocated next."""
        self._free.give(memory)

    def close(self) -> None:
        """Lets go of kept memory."""
        self._free.clear()
        if self._pool is not None:
            self._pool.close()

    def load(self, executable: Executable) -> LoadedExecutable:
        """Links the object code into this process."""
        executable.check_target("cpu", target_name())
        return CpuLoadedExecutable(executable, self)

    def block_pool(self, account: Account, flush: Flush) -> BlockPool:
        """The memory of results of native code, which takes the place of what is kept here.

        Args:
            account: of this device's allocator.
            flush: see `BlockPool`.
        """
        self._free.clear()
        with self._lock:
            if self._pool is None:
                self._pool = BlockPool(self, account, flush)
                RECORDER.add_account(account.address, f"cpu:{self.ordinal}")
            return self._pool


class CpuLoadedExecutable(LoadedExecutable):
    """Native code of one program."""

    def __init__(self, executable: Executable, executor: CpuExecutor) -> None:
        self._executor = executor
        try:
            payload = CpuPayload.from_bytes(executable.payload)
        except FormatError as error:
            error.at(f"executable {executable.signature.name!r}")
            raise
        self.name = executable.signature.name
        self._exchange, self._has_loops = payload.exchange, payload.has_loops
        self._exchange_key = (self.name, zlib.crc32(payload.codes[0])) if payload.exchange else ()
        self._own = ctypes.c_size_t()  # its address is that of no other program on no other device
        if self._exchange is None:
            self._code = load_code(payload, executable.blobs, self.name)
            self._mark = self._code.address
        else:
            self._code = load_shared(payload, executable, self.name)
            self._mark = ctypes.addressof(self._own)
        self._entry = _ENTRY_TYPE(self._code.entry)
        LLVM_PAGES.let_go()
        self._note_program(f"cpu:{executor.ordinal}", payload.operations)

    def _note_program(self, device: str, operations: bytes) -> None:
        """Tells the recorder whose marks come from here, for as long as they do."""
        address = self._mark
        RECORDER.add_program(address, TracedProgram(self.name, device, operations))
        finalizer = weakref.finalize(self, RECORDER.remove_program, address)
        finalizer.atexit = False

    @property
    def traces_itself(self) -> bool:
        """Yes, where the recorder works."""
        return RECORDER.works

    def launch(self, stream: Stream, context: LaunchContext) -> None:
        """Runs the program now; the interpreter lock is released meanwhile.

        Raises:
            ExecutionError: the code reports a failure.
            BaseException: a signal's handler raised it, and so ended a loop.
        """
        scratch = None if context.scratch is None else host_address(context.scratch)
        tables = _table(context.arguments), _table(context.results), scratch
        if self._exchange is None:
            status = self._entry(None, *tables)
        else:
            exchange = Exchange(self._exchange, self._exchange_key, context, self._mark)
            status = self._entry(exchange.words, *tables)
            exchange.check(self.name)
        if status == INTERRUPTED:
            rethrow()
        if status:
            raise ExecutionError(f"program {self.name} failed with status {status}")

    @property
    def native_entry(self) -> NativeEntry | None:
        """The entry that `launch` calls; None where it wants to know of other devices."""
        if self._exchange is not None:
            return None
        return NativeEntry(self._code.entry, self)

    def joint_entry(self, participants: Sequence[LoadedExecutable]) -> JointEntry | None:
        """The entry of each device, and a block where they meet, if the program has collectives."""
        parts = [p for p in participants if isinstance(p, CpuLoadedExecutable)]
        if self._exchange is None or len(parts) < len(participants):
            return None
        codes = [(p._code.entry, p._mark) for p in parts]
        return JointLaunch(self.name, self._exchange, codes, has_loops=self._has_loops).entry

    def make_fast_call(self, spec: FastCallSpec) -> FastCall | None:
        """A fast call, unless this Python or this NumPy is one that native code does not know."""
        native = native_fast_call()
        LLVM_PAGES.let_go()  # the process's first fast call has compiled what they run through
        if native is None or self._exchange is not None:
            return None
        pool = self._executor.block_pool(spec.account, native.flush)
        return make_fast_call(native, pool, spec, self._code.entry, self)


def _table(buffers: Sequence[DeviceMemory]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(buffers))(*[b.handle.address + b.offset for b in buffers])
