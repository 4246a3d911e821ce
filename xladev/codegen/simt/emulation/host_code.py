"""Kernels as host code: object code from text, and objects loaded into this process."""

from __future__ import annotations

import ctypes
import itertools
import json
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager

from xladev import instrument
from xladev.codegen.llvm import TargetTraits
from xladev.codegen.llvm.target import FunctionTable
from xladev.codegen.simt.emulation.bounds import MISALIGNED
from xladev.codegen.simt.emulation.host_blocks import DIVERGENCE
from xladev.codegen.simt.emulation.host_threads import ENTRY, FAULT_FIELDS, host_primitives
from xladev.codegen.simt.emulation.races import RACE
from xladev.codegen.simt.primitives import ALIGNMENT
from xladev.codegen.simt.target import SimtTarget
from xladev.errors import CompileError, FormatError

IMAGE_VERSION = 3
_numbers = itertools.count()

GridFunction = Callable[[int, int, int], None]
"""The entry of `codegen.simt.emulation.host_threads`, on addresses."""


@cache
def host_traits(functions: FunctionTable) -> TargetTraits:
    """What text emission must know about this machine.

    Args:
        functions: of the target that is emulated.
    """
    _initialize()
    triple = llvm.get_process_triple()
    features = llvm.get_host_cpu_features()
    has_half = bool(features.get("f16c")) or triple.startswith("aarch64")
    return TargetTraits(
        triple=triple,
        has_half_conversion=has_half,
        array_alignment=ALIGNMENT,
        functions=functions,
    )


def emulated(target: SimtTarget) -> SimtTarget:
    """The same kernels as a target's, for the threads of the emulator on this machine."""
    return replace(
        target,
        name=f"host threads for {target.name}",
        traits=host_traits(target.traits.functions),
        primitives=host_primitives(target),
    )


@cache
def host_name() -> str:
    """This machine's processor and its features, as LLVM spells them."""
    _initialize()
    return f"{llvm.get_host_cpu_name()}:{llvm.get_host_cpu_features().flatten()}"


@cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def _target_machine(level: int) -> llvm.TargetMachine:
    _initialize()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=level,
        reloc="pic",
        codemodel="default",
    )


def host_image(name: str, text: str, nbytes: tuple[int, ...], level: int = 1) -> bytes:
    """What the emulated driver loads: a line of JSON, then object code.

    Args:
        name: of the kernel.
        text: from `host_text`.
        nbytes: length of each array that the entry is given.
        level: of LLVM's optimisation, 1 to 3.

    Raises:
        CompileError: LLVM rejects the text.
    """
    machine = _target_machine(level)
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as e:
        instrument.dump(f"{name}.rejected", "ll", lambda: text)
        raise CompileError(f"LLVM rejected the host code of {name}", why=str(e)) from e
    tuning = llvm.create_pipeline_tuning_options(level)
    # LLVM 22 takes positions modulo 8 for neighbours in vectors of 16 threads, and reads past them.
    tuning.loop_vectorization = False
    builder = llvm.create_pass_builder(machine, tuning)
    passes = builder.getModulePassManager()
    passes.run(module, builder)
    NewPassManager._dispose(passes)  # llvmlite 0.50 hides the method that frees it
    passes.detach()
    head = json.dumps({"version": IMAGE_VERSION, "name": name, "nbytes": nbytes})
    return head.encode() + b"\n" + bytes(machine.emit_object(module))


@dataclass(frozen=True, slots=True)
class Fault:
    """The first access of a launch outside its array.

    Attributes:
        count: such accesses in all.
        array: number of the array, operands first; -1 shared memory; see also `DIVERGENCE`.
        offset: where it began, in bytes from the array's start.
        nbytes: its length.
        block, thread: who did it.
    """

    count: int
    array: int
    offset: int
    nbytes: int
    block: int
    thread: int

    def __str__(self) -> str:
        if self.array == RACE:
            return (
                f"a race on byte {self.offset} of shared memory between two barriers, "
                f"of threads {self.thread} and {self.nbytes} of block {self.block}"
            )
        if self.array == MISALIGNED:
            return (
                f"an access at offset {self.offset} by thread {self.thread} of block {self.block}, "
                f"which should be aligned to {self.nbytes} bytes"
            )
        if self.array in DIVERGENCE:
            return f"{DIVERGENCE[self.array]}, in block {self.block}: {self.nbytes} did"
        return (
            f"{self.count} accesses out of bounds; the first by thread {self.thread} of block "
            f"{self.block}: {self.nbytes} bytes at offset {self.offset} of array {self.array}"
        )


class HostKernel:
    """An image in this process; unloaded with the last reference.

    Attributes:
        name: of the kernel.
        nbytes: length of each array that it is given.
    """

    def __init__(self, image: bytes) -> None:
        head, _, code = image.partition(b"\n")
        try:
            fields = json.loads(head)
            found = fields["version"]
        except (ValueError, KeyError, TypeError) as e:
            raise FormatError("an image that the emulated driver cannot read", why=str(e)) from e
        if found != IMAGE_VERSION:
            raise FormatError(f"an image of version {found}", why=f"this is {IMAGE_VERSION}")
        self.name: str = fields["name"]
        self.nbytes: tuple[int, ...] = tuple(fields["nbytes"])
        engine = llvm.create_lljit_compiler(_target_machine(2), use_jit_link=True)
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        tracker = builder.export_symbol(ENTRY).link(engine, f"{self.name}.{next(_numbers)}")
        kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        self._function: GridFunction = kind(int(tracker[ENTRY]))
        self._parts: tuple[object, ...] = (tracker, engine)
        weakref.finalize(self, _unload, tracker, engine).atexit = False

    def run(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        addresses: list[int],
        order: tuple[int, int],
        subgroup_order: tuple[int, int] = (1, 0),
    ) -> Fault | None:
        """Runs all threads; the first access out of bounds, if there was one.

        Args:
            grid, block: as in a launch; only x may be more than 1.
            addresses: of the arrays.
            order: (step, first): iteration t runs block (t * step + first) modulo their count.
            subgroup_order: likewise, of the sub-groups of each block; shifted by one after each
                barrier.
        """
        arrays = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
        launch = _Launch(*grid, *block, *order, *subgroup_order)
        record = (ctypes.c_int64 * len(FAULT_FIELDS))()
        self._function(ctypes.addressof(arrays), ctypes.addressof(launch), ctypes.addressof(record))
        return Fault(*record) if record[0] else None


class _Launch(ctypes.Structure):
    _fields_ = (
        *((f"grid_{axis}", ctypes.c_int32) for axis in "xyz"),
        *((f"block_{axis}", ctypes.c_int32) for axis in "xyz"),
        ("step", ctypes.c_int64),
        ("first", ctypes.c_int64),
        ("subgroup_step", ctypes.c_int64),
        ("subgroup_first", ctypes.c_int64),
    )


def _unload(tracker: llvm.ResourceTracker, engine: llvm.LLJIT) -> None:
    """Unloads a library while its engine is alive."""
    tracker.close()
    del engine
