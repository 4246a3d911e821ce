"""Tuning: the fastest of several ways to compute a kernel, timed once, and kept in the cache.

Off unless the option ``cpu.autotune`` says otherwise. What was found is in one table for each
state of the processor, of xladev and of LLVM, and a compilation reads it once, at its beginning.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from enum import Enum

import llvmlite

from xladev import __version__, instrument
from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.cache.code_stamp import code_stamp
from xladev.compiler.cache.store import entry_key, store_of_environment
from xladev.compiler.executable import Executable
from xladev.compiler.options import CompileOptions
from xladev.errors import FormatError, OptionError
from xladev.platforms.cpu.codegen.choices import Choice, choices
from xladev.platforms.cpu.codegen.tactics import DEFAULT, Tactic, tactic_of
from xladev.platforms.cpu.engine import host_cpu, target_name, target_traits
from xladev.platforms.cpu.pool import threads_wanted
from xladev.platforms.cpu.trials import (
    Trial,
    addresses,
    random_operands,
    samples_of,
    thread_clock,
    wall_clock,
    winner,
)

OFF = "off"
AUTOTUNE_DOC = "off, cached (kernels as they were tuned before) or on (times those that were not)"
MARGIN = 0.05
"""By how much less time another way than the first must take."""
WALL_MARGIN = 0.1
"""The same where several threads work, whose time others disturb more."""
TABLE_VERSION = 1
_log = instrument.logger("tuning")

Choose = Callable[[KernelSpec], Tactic]
"""How a kernel is computed."""
Compile = Callable[[KernelSpec, Tactic, CompileOptions], Executable]
"""Compiles the program of one kernel, computed in one way."""


class Mode(Enum):
    """What is done about choices."""

    OFF = OFF
    CACHED = "cached"
    ON = "on"


def tuning_mode(options: CompileOptions) -> Mode:
    """What the options say.

    Raises:
        OptionError: something unknown.
    """
    text = options.extra("cpu", "autotune", OFF)
    try:
        return Mode(text)
    except ValueError as error:
        known = ", ".join(mode.value for mode in Mode)
        raise OptionError(
            f"option cpu.autotune is {text!r}", why=f"it is one of {known}"
        ) from error


class _Tables:
    """What was found in this process, by key of a table. Thread-safe."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, str]] = {}
        self._lock = threading.Lock()
        self.timing = threading.Lock()

    def read(self, key: str) -> dict[str, str]:
        """Names of tactics by class: what is kept, and what this process could not keep."""
        store = store_of_environment()
        kept = None if store is None else store.read(key)
        with self._lock:
            return self._found.get(key, {}) | (_parsed(kept) if kept is not None else {})

    def add(self, key: str, choice: Choice, name: str) -> str:
        """Adds what was found, unless others did meanwhile; what the table then says."""
        whole, store = self.read(key), store_of_environment()
        if _offered(choice, whole) is not None:
            return whole[choice.key]
        with self._lock:
            self._found.setdefault(key, {})[choice.key] = name
        if store is not None:
            data = json.dumps(whole | {choice.key: name}, sort_keys=True)
            store.write(key, data.encode())
        return name

    def forget(self) -> None:
        """Forgets what only this process knows."""
        with self._lock:
            self._found.clear()


TABLES = _Tables()
"""Those of this process."""


def _parsed(data: bytes) -> dict[str, str]:
    """A table; nothing of one that is none, and none of its lines that are no text."""
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        _log.warning("a table of tactics cannot be read, and counts as empty")
        return {}
    return {str(key): value for key, value in found.items() if isinstance(value, str)}


def table_key(options: CompileOptions) -> str:
    """Key of the table for this processor, this xladev, this LLVM and a level of optimization."""
    return entry_key(
        "tactics",
        f"{TABLE_VERSION} {__version__} {code_stamp(__name__)} {llvmlite.__version__}",
        target_name(),
        ":".join(host_cpu()),
        str(options.optimization_level),
    )


def table_digest(options: CompileOptions) -> str:
    """Differs wherever the table does."""
    table = TABLES.read(table_key(options))
    return hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()


class Chooser:
    """Chooses for one compilation, from the table as it is when that begins.

    Args:
        mode: whether what is missing is timed.
        options: of the compilation.
        compile_trial: compiles what is timed.
    """

    def __init__(self, mode: Mode, options: CompileOptions, compile_trial: Compile) -> None:
        self._mode, self._options, self._compile = mode, options, compile_trial
        self._key = table_key(options)
        self._table = TABLES.read(self._key)
        self._threads = options.threads or threads_wanted()

    def choose(self, spec: KernelSpec) -> Tactic:
        """How a kernel is computed."""
        tactic = DEFAULT
        for choice in choices(spec, target_traits(), self._threads):
            found = self._chosen(spec, choice, tactic)
            if found != choice.tactics[0]:
                why = f"{choice.key}: {found}"
                instrument.decision("autotune", spec.computation.root.name, why)
                _log.info("%s is computed by %s", spec.computation.root.name, why)
            tactic = tactic.and_then(found)
        return tactic

    def _chosen(self, spec: KernelSpec, choice: Choice, so_far: Tactic) -> Tactic:
        """What the table says, or what is timed; else what comes first."""
        found = _offered(choice, self._table)
        if found is None and self._mode is Mode.ON:
            self._time(spec, choice, so_far)
            found = _offered(choice, self._table)
        return choice.tactics[0] if found is None else found

    def _time(self, spec: KernelSpec, choice: Choice, so_far: Tactic) -> None:
        """Puts the fastest into the tables. One kernel at a time is timed in a process."""
        with TABLES.timing:
            whole = TABLES.read(self._key)
            name = whole.get(choice.key, "")
            if _offered(choice, whole) is None:
                name = TABLES.add(self._key, choice, self._winner(spec, choice, so_far))
        self._table[choice.key] = name

    def _winner(self, spec: KernelSpec, choice: Choice, so_far: Tactic) -> str:
        """The fastest one's name: twice so, the second time beside the first one alone."""
        alone = choice.family != "parts"
        options = self._options.with_option("threads=1") if alone else self._options
        clock, margin = (thread_clock, MARGIN) if alone else (wall_clock, WALL_MARGIN)
        data = random_operands(spec)
        trials = {
            str(tactic): Trial(
                self._compile(spec, so_far.and_then(tactic), options), addresses(data), spec
            )
            for tactic in choice.tactics
        }
        samples = samples_of(trials, clock)
        name, first = winner(samples, margin), str(choice.tactics[0])
        if name != first:
            again = samples_of({key: trials[key] for key in (first, name)}, clock)
            name = winner(again, margin)
        _log_samples(choice, samples, name)
        return name


def _offered(choice: Choice, table: Mapping[str, str]) -> Tactic | None:
    """What a table says of a choice; None for nothing, or for what is no way to compute it."""
    try:
        found = tactic_of(table[choice.key])
    except (KeyError, FormatError):
        return None
    return found if found in choice.tactics else None


def _log_samples(choice: Choice, samples: Mapping[str, list[float]], name: str) -> None:
    shown = ", ".join(
        f"{key or 'as it is'} {sorted(values)[len(values) // 2] / 1e3:.1f}"
        for key, values in samples.items()
    )
    _log.info("%s: %s (us: %s)", choice.key, name or "as it is", shown)
