"""LLVM at work: text to object code, for this machine or another, and code into this process.

The one place that imports LLVM. llvmlite guards LLVM with a lock of its own, so all functions may
be called from several threads.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import weakref
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager

from xladev import instrument
from xladev.codegen.llvm import ModuleBuilder, TargetTraits
from xladev.errors import CompileError, FormatError
from xladev.platforms.cpu.code_pages import LLVM_PAGES
from xladev.platforms.cpu.targets import CpuTarget, x86_missing

ENTRY = "xladev_entry"
"""``i32 xladev_entry(ptr context, ptr arguments, ptr results, ptr scratch)``; 0 is success."""

_library_numbers = itertools.count()


@cache
def _keep_addresses_of_masked_loads() -> None:
    """Leaves jump threading out, for all of LLVM in this process: it has no narrower switch.

    Where a comparison leaves one index, jump threading makes it a constant on that edge. The loop
    vectoriser (LLVM 22) then takes the address of a masked load from lane 0 of the blend, though
    lane 0 may be on neither edge. `pad(x, low) - pad(x, high)` read the wrong elements.
    """
    llvm.set_option("xladev", "-jump-threading-threshold=0")


@cache
def _initialize() -> None:
    _keep_addresses_of_masked_loads()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@cache
def _initialize_others() -> None:
    _keep_addresses_of_masked_loads()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@cache
def host_cpu() -> tuple[str, str]:
    """Name and feature string of this machine's processor, as LLVM spells them."""
    _initialize()
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@cache
def target_name() -> str:
    """What code is generated for: triple and processor."""
    return f"{llvm.get_process_triple()}-{host_cpu()[0]}"


@cache
def target_traits() -> TargetTraits:
    """What text emission must know about this machine."""
    features = host_cpu()[1].split(",")
    triple = llvm.get_process_triple()
    is_arm = triple.startswith("aarch64")
    return TargetTraits(
        triple=triple,
        has_half_conversion="+f16c" in features or is_arm,
        has_byte_products="+avx512vnni" in features,
        has_bfloat_products="+avx512bf16" in features,
        has_scaling="+avx512f" in features,
        has_lookups="+avx512f" in features,
        has_extremes=is_arm,
        missing=frozenset() if is_arm else x86_missing(features),
        vector_nbytes=vector_nbytes(),
    )


@cache
def vector_nbytes() -> int:
    """Bytes of the widest vector register of this machine."""
    features = host_cpu()[1].split(",")
    widths = (("+avx512f", 64), ("+avx", 32))
    return next((nbytes for feature, nbytes in widths if feature in features), 16)


@cache
def host_target() -> CpuTarget:
    """This machine."""
    return CpuTarget(target_name(), *host_cpu(), target_traits(), is_host=True)


@cache
def target_machine(optimization_level: int, target: CpuTarget | None = None) -> llvm.TargetMachine:
    """LLVM's code generator for a target, the host if none is given.

    Kept: making one takes a millisecond, half of it at its first use.
    """
    target = target or host_target()
    if target.is_host:
        _initialize()
    else:
        _initialize_others()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=optimization_level,
        reloc=target.relocation,
        codemodel="default",
        abiname=target.abi,
    )


_SHORT = ("always_inliner", "sroa", "instruction_combine", "simplify_cfg")
"""Passes for code whose loops are in vectors, by llvmlite's names."""


def compile_module(
    name: str,
    module: ModuleBuilder,
    optimized: Sequence[str],
    optimization_level: int,
    light: Sequence[str] = (),
    names: Sequence[str] | None = None,
) -> tuple[bytes, ...]:
    """Object code of a module: one file, and another one of the functions that are light.

    Args:
        name: of the program.
        module: what to compile; its exported arrays go with its `ENTRY`.
        optimized: functions that get all of LLVM's passes; the others get the least there is.
        optimization_level: 1 to 3, or 0: no passes at all.
        light: functions that get neither passes nor good code.
        names: functions to compile; None for all.

    Raises:
        CompileError: LLVM rejects the text; the error keeps it.
    """
    wanted = module.names if names is None else names
    rest = [n for n in wanted if n not in set(light)]
    if not light or not optimization_level:
        return (_compiled(name, module, wanted, optimized, optimization_level),)
    is_light = ENTRY in light or not rest
    plain = parsed(name, module.part(light, has_exports=is_light))
    codes = [object_code(f"{name}.light", target_machine(0), plain)]
    if rest:
        codes.append(
            _compiled(name, module, rest, optimized, optimization_level, has_exports=not is_light)
        )
    return tuple(codes)


def _compiled(
    name: str,
    module: ModuleBuilder,
    functions: Sequence[str],
    optimized: Sequence[str],
    optimization_level: int,
    *,
    has_exports: bool = True,
) -> bytes:
    """Object code of some functions."""
    long = list(optimized) if optimization_level else []
    short = [n for n in functions if n not in set(long)]
    machine = target_machine(optimization_level)
    if not short:
        code = parsed(name, module.part(long, has_exports=has_exports))
        run_passes(machine, code, optimization_level)
        return object_code(name, machine, code)
    code = parsed(name, module.part(short, has_exports=has_exports))
    if optimization_level:
        run_passes(machine, code, optimization_level, is_short=True)
    if long:
        more = parsed(name, module.part(long))
        run_passes(machine, more, optimization_level)
        code.link_in(more)
    return object_code(name, machine, code)


def compile_text(
    name: str, text: str, optimization_level: int, target: CpuTarget | None = None
) -> bytes:
    """Object code of a module given as LLVM assembly, for a target or this machine.

    Raises:
        CompileError: LLVM rejects the text; the error keeps it.
    """
    machine = target_machine(optimization_level, target)
    code = parsed(name, text)
    code.data_layout = str(machine.target_data)
    if optimization_level:
        run_passes(machine, code, optimization_level)
    return object_code(name, machine, code)


def parsed(name: str, text: str) -> llvm.ModuleRef:
    """LLVM's form of its assembly.

    Raises:
        CompileError: LLVM rejects the text; the error keeps it.
    """
    try:
        with instrument.trace_scope("LLVM parse", "codegen"), LLVM_PAGES.work():
            module = llvm.parse_assembly(text)
            module.verify()
    except RuntimeError as e:
        instrument.dump(f"{name}.rejected", "ll", lambda: text)
        raise CompileError(
            f"LLVM rejected the code of {name}",
            why=str(e),
            hint="set XLADEV_DUMP_TO and look at the .ll file; please report it",
        ) from e
    return module


def run_passes(
    machine: llvm.TargetMachine, module: llvm.ModuleRef, level: int, *, is_short: bool = False
) -> None:
    """Optimises a module in place: LLVM's pipeline of a level, or a few passes only."""
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    # Unrolling doubles compile time, and run time is as often worse as it is better.
    tuning.loop_unrolling = level > 2
    builder = llvm.create_pass_builder(machine, tuning)
    if is_short:
        passes = llvm.create_new_module_pass_manager()
        for each in _SHORT:
            getattr(passes, f"add_{each}_pass")()
    else:
        passes = builder.getModulePassManager()
    with instrument.trace_scope("LLVM passes", "codegen"), LLVM_PAGES.work():
        passes.run(module, builder)
    _free(passes)


def object_code(name: str, machine: llvm.TargetMachine, module: llvm.ModuleRef) -> bytes:
    """An object file of a module."""
    instrument.dump(f"{name}.optimized", "ll", lambda: str(module))
    instrument.dump(name, "s", lambda: machine.emit_assembly(module))
    with instrument.trace_scope("LLVM code", "codegen"), LLVM_PAGES.work():
        code: bytes = machine.emit_object(module)
    return code


def _free(passes: llvm.ModulePassManager) -> None:
    """Frees a pass manager: llvmlite 0.50 hides the method that does, and 50 KB would stay."""
    NewPassManager._dispose(passes)
    passes.detach()


class _Engines:
    """Hands out the engine that links the next object.

    An unloaded library leaves 9 KB in its engine, and an engine takes 150 KB and a millisecond. So
    many libraries share one, which goes when all of them have gone.

    JITLink lays the sections of an object side by side. The older linker maps each on its own, and
    where no room is left nearby, offsets overflow and the process is aborted.
    """

    def __init__(self, share: int) -> None:
        self._share = share
        self._lock = threading.Lock()
        self._engine: llvm.LLJIT | None = None
        self._left = 0

    def next(self) -> llvm.LLJIT:
        """The engine for one more library."""
        with self._lock:
            if self._engine is None or not self._left:
                _initialize()
                self._engine = llvm.create_lljit_compiler(target_machine(2), use_jit_link=True)
                self._left = self._share
            self._left -= 1
            return self._engine


_engines = _Engines(share=64)


class LoadedObject:
    """Object code in this process; unloaded when the last reference is gone.

    Args:
        name: what to call it.
        code: an object file.
        symbols: what it exports.
        imports: addresses of what it refers to, besides functions of this process.
        more: object files that it refers to, and that may refer to it and export, too.

    Raises:
        FormatError: these are no object files for this machine, or lack what they should export.
    """

    def __init__(
        self,
        name: str,
        code: bytes,
        symbols: tuple[str, ...],
        imports: Mapping[str, int] = MappingProxyType({}),
        more: Sequence[bytes] = (),
    ) -> None:
        library = f"{name}.{next(_library_numbers)}"
        builder = llvm.JITLibraryBuilder().add_current_process()
        for each in (code, *more):
            builder = builder.add_object_img(each)
        for symbol in symbols:
            builder = builder.export_symbol(symbol)
        for symbol, address in imports.items():
            builder = builder.import_symbol(symbol, address)
        engine = _engines.next()
        try:
            with instrument.trace_scope("link", "codegen"), LLVM_PAGES.work():
                tracker = builder.link(engine, library)
        except RuntimeError as e:
            raise FormatError(f"the code of {name} cannot be loaded", why=str(e)) from e
        self._addresses = {symbol: int(tracker[symbol]) for symbol in symbols}
        # The library must go before its engine, in whatever order a cycle is collected.
        finalizer = weakref.finalize(self, _unload, tracker, engine)
        finalizer.atexit = False
        self.parts: tuple[object, ...] = (tracker, engine)

    def address(self, symbol: str) -> int:
        """Address of an exported symbol."""
        return self._addresses[symbol]

    def write_pointers(self, symbol: str, pointers: list[int]) -> None:
        """Fills an array of pointers that the code declares."""
        table = (ctypes.c_void_p * len(pointers))(*pointers)
        ctypes.memmove(self.address(symbol), table, ctypes.sizeof(table))


def _unload(tracker: llvm.ResourceTracker, engine: llvm.LLJIT) -> None:
    """Unloads a library while its engine is alive."""
    tracker.close()
    del engine
