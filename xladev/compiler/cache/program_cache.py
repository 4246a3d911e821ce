"""Compiled programs in the on-disk cache."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TypeVar

from xladev import __version__
from xladev.compiler.cache.code_stamp import code_stamp
from xladev.compiler.cache.store import Store, entry_key
from xladev.compiler.options import CompileOptions
from xladev.compiler.partition.assignment import CompileTarget
from xladev.compiler.placement.kept_rates import kept_rates
from xladev.compiler.placement.placement_log import logs_device_placement
from xladev.compiler.program.program import Program
from xladev.compiler.program.program_file import PROGRAM_VERSION, program_from_bytes, program_pieces
from xladev.errors import DeviceError, XladevError
from xladev.hlo.custom_calls.registry import BUILT_IN, known
from xladev.hlo.ir import HloModule, ModuleHeader
from xladev.hlo.proto import module_stamp
from xladev.instrument import dumping, logger

_log = logger("cache")
T = TypeVar("T")


def compile_through(
    store: Store | None,
    module: HloModule,
    targets: Sequence[CompileTarget],
    options: CompileOptions,
    compile_now: Callable[[], Program],
    load: Callable[[Program], T],
) -> T:
    """The program from the store, loaded; or else compiled, kept there, and loaded.

    One that is kept but cannot be loaded goes, and is compiled again.

    Args:
        store: None means that there is no cache.
        module: what is compiled.
        targets: the platform wanted and those that may help it.
        options: how.
        compile_now: compiles it.
        load: puts it on its devices.

    Raises:
        XladevError: `compile_now` or `load` raised it.
    """
    if store is None or not is_cacheable(module) or _is_watched(options):
        return load(compile_now())
    states = _states(targets, options)
    key = program_key(module, targets, options, states)
    kept = _kept(store, key, load)
    if kept is not None:
        return kept
    program = compile_now()
    if _states(targets, options) == states:
        store.write(key, *program_pieces(program, is_checked=True))
    return load(program)


def _is_watched(options: CompileOptions) -> bool:
    """True if somebody wants to see the compilation at work."""
    shown = options.dump_to is not None or options.verify_passes
    return dumping() or shown or logs_device_placement()


def is_cacheable(module: HloModule) -> bool:
    """False if the module calls what this process gave a meaning, which another may not have."""
    return not any(
        instruction.opcode == "custom-call"
        and known(target := instruction["custom_call_target"]) is not BUILT_IN.get(target)
        for computation in module.computations
        for instruction in computation.instructions
    )


def _states(targets: Sequence[CompileTarget], options: CompileOptions) -> tuple[str, ...]:
    """What code of each platform depends on besides."""
    states = [t.compiler.cache_state(options) for t in targets]
    if options.devices or targets[0].description.links:  # estimated times may decide
        states += [rates.to_json() for t in targets if (rates := kept_rates(t)) is not None]
    return tuple(states)


def program_key(
    module: HloModule,
    targets: Sequence[CompileTarget],
    options: CompileOptions,
    states: Sequence[str] = (),
) -> str:
    """What a program depends on: module, options, and the code of xladev and of backends.

    Args:
        module: what is compiled.
        targets: the platforms that take part.
        options: how.
        states: `Compiler.cache_state` of each of them.
    """
    backends = [
        (
            t.name,
            t.description.target,
            [space.alignment for space in t.description.memory_spaces],
            t.compiler.version(),
            code_stamp(type(t.compiler).__module__),
        )
        for t in targets
    ]
    return entry_key(
        "program",
        f"{__version__} {PROGRAM_VERSION} {code_stamp(__name__)}",
        options.cache_key(),
        json.dumps([backends, _not_in_proto(module.header), *states]),
        module_stamp(module),
    )


def _not_in_proto(header: ModuleHeader) -> list[object]:
    """What a program depends on that a module says in its text and not as a proto."""
    return [
        header.replica_count,
        header.num_partitions,
        header.alias_passthrough_params,
        header.propagate_to_parameters,
        header.propagate_to_output,
    ]


def _kept(store: Store, key: str, load: Callable[[Program], T]) -> T | None:
    """The program of an entry, loaded; None, and the entry goes, if that is not possible."""
    data = store.view(key)
    if data is None:
        return None
    try:
        program = program_from_bytes(data, is_checked=True)
        del data  # as large as the program's constants, which loading copies once more
        return load(program)
    except DeviceError:  # too few devices, or no memory: not the entry's fault
        raise
    except XladevError as error:
        _log.warning("a cached program cannot be loaded, and is compiled again: %s", error)
        store.remove(key)
        return None
