"""The LAPACK of this process: the one that SciPy offers to other libraries, if it is installed.

`scipy.linalg.cython_lapack` and `cython_blas` export C functions as capsules, whose names are their
signatures (scipy.org, "Low-level LAPACK functions for Cython"). Both are loaded without the package
around them, which takes ten times as long and is not needed.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from xladev.errors import CompileError
from xladev.platforms.cpu.lapack.routines import SIGNATURES, is_blas

_PACKAGE = "scipy"
_MODULES = "cython_lapack", "cython_blas"
_lock = threading.RLock()


@dataclass(frozen=True, slots=True)
class ThreadSetting:
    """The C functions that say how many threads OpenBLAS takes for a call, of all the process.

    Attributes:
        get: address of ``int get()``.
        set: address of ``void set(int)``.
    """

    get: int
    set: int


@dataclass(frozen=True, slots=True)
class Lapack:
    """Functions to call.

    Attributes:
        name: what it is, with versions.
        addresses: by symbol, such as ``dpotrf``.
        threads: how many threads it takes, where that can be said; None for one that has none.
    """

    name: str
    addresses: Mapping[str, int]
    threads: ThreadSetting | None = None


@dataclass(frozen=True, slots=True)
class NoLapack:
    """Why there is none.

    Attributes:
        reason: a sentence's end.
    """

    reason: str


def found_lapack() -> Lapack | NoLapack:
    """The LAPACK of this process; looked for once."""
    with _lock:
        return _found()


@cache
def _found() -> Lapack | NoLapack:
    place = _scipy_folder()
    if place is None:
        return NoLapack("SciPy is not installed")
    try:
        modules = [_extension(place, name) for name in _MODULES]
        library = ctypes.CDLL(str(modules[0].__file__))
    except Exception as e:  # noqa: BLE001 - other people's code: whatever it raises, there is none
        return NoLapack(f"SciPy's LAPACK cannot be loaded: {type(e).__name__}: {e}")
    if _value(library, "openblas_get_parallel", ctypes.c_int) == _OPENMP:
        return NoLapack(
            "SciPy's OpenBLAS has OpenMP's threads, whose number each caller sets apart"
        )
    lapack, blas = (module.__dict__.get("__pyx_capi__", {}) for module in modules)
    addresses = {
        symbol: address
        for symbol in SIGNATURES
        if (address := _address((blas if is_blas(symbol) else lapack).get(symbol), symbol))
    }
    if not addresses:
        return NoLapack("SciPy's functions have other signatures than are known here")
    return Lapack(_name(library), MappingProxyType(addresses), _thread_setting(library))


def require(symbols: tuple[str, ...], where: str) -> Mapping[str, int]:
    """Addresses of routines that code was compiled to call.

    Raises:
        CompileError: this process lacks one.
    """
    found = found_lapack()
    known: Mapping[str, int] = {} if isinstance(found, NoLapack) else found.addresses
    missing = [symbol for symbol in symbols if symbol not in known]
    if not missing:
        return {symbol: known[symbol] for symbol in symbols}
    why = found.reason if isinstance(found, NoLapack) else f"{found.name} does not offer it"
    raise CompileError(
        f"the program calls LAPACK's {', '.join(missing)}, which this process lacks",
        where=where,
        why=why,
        hint="install SciPy, or compile the program again with the option cpu.lapack=off",
    )


@cache
def lapack_identity() -> str:
    """What code depends on, without loading anything: SciPy's version and its libraries' files.

    Wheels name the files of OpenBLAS by what is in them.
    """
    place = _scipy_folder()
    if place is None:
        return "none"
    libraries = sorted(path.name for path in place.parent.glob("scipy.libs/*blas*"))
    return " ".join([_scipy_version(), *libraries])


def _scipy_folder() -> Path | None:
    """The folder of the package; None where it is not installed, or not to be imported."""
    try:
        spec = importlib.util.find_spec(_PACKAGE)
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0]) if places else None


def _scipy_version() -> str:
    try:
        return f"SciPy {metadata.version(_PACKAGE)}"
    except metadata.PackageNotFoundError:
        return "SciPy"


def _extension(folder: Path, name: str) -> ModuleType:
    """One of SciPy's modules, imported or loaded by itself."""
    qualified = f"{_PACKAGE}.linalg.{name}"
    if qualified in sys.modules:
        return sys.modules[qualified]
    files = (folder / "linalg" / f"{name}{suffix}" for suffix in EXTENSION_SUFFIXES)
    path = next((str(file) for file in files if file.is_file()), None)
    if path is None:
        return importlib.import_module(qualified)
    loader = ExtensionFileLoader(qualified, path)
    spec = importlib.util.spec_from_file_location(qualified, path, loader=loader)
    if spec is None:
        raise ImportError(f"no module in {path}")
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


# Capsules

_capsule_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_WORDS: tuple[tuple[str, str], ...] = (
    ("float_complex", "c"), ("double_complex", "z"), ("_s", "s"), ("_d", "d"), ("char", "char"),
    ("int", "int"), ("select1", "function"), ("select2", "function"),
)  # fmt: skip
"""How the name of a parameter's C type ends, and which type it is."""
_REALS: Mapping[str, str] = MappingProxyType({"s": "s", "d": "d", "c": "s", "z": "d"})


def _address(capsule: object, symbol: str) -> int:
    """What a capsule points to; 0 unless its function has the signature that is known here."""
    if capsule is None:
        return 0
    name = _capsule_name(capsule)
    parameters = name.decode().partition("(")[2].rstrip(")").split(", ")
    if [_type_of(text) for text in parameters] != _expected(symbol):
        return 0
    return int(_capsule_pointer(capsule, name) or 0)


def _type_of(parameter: str) -> str:
    """The type of a parameter that is a pointer; empty for what no routine here takes."""
    if not parameter.endswith(" *"):
        return ""
    name = parameter.removesuffix(" *")
    return next((word for ending, word in _WORDS if name.endswith(ending)), "")


def _expected(symbol: str) -> list[str]:
    letter = symbol[0]
    words = {"c": "char", "i": "int", "T": letter, "R": _REALS[letter], "F": "function"}
    return [words[kind] for kind in SIGNATURES[symbol]]


# OpenBLAS

_PREFIXES = "scipy_", ""
_SUFFIXES = "", "64_"
_OPENMP = 2


def _symbol(library: ctypes.CDLL, name: str) -> int:
    """Address of one of OpenBLAS's functions, by whatever name it was built with; 0 for none."""
    names = (prefix + name + suffix for prefix in _PREFIXES for suffix in _SUFFIXES)
    found = (getattr(library, each, None) for each in names)
    function = next((each for each in found if each is not None), None)
    return 0 if function is None else int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def _value(library: ctypes.CDLL, name: str, result: type[ctypes._SimpleCData[Any]]) -> Any:
    """What a function without arguments gives; None where there is none."""
    address = _symbol(library, name)
    return ctypes.CFUNCTYPE(result)(address)() if address else None


def _thread_setting(library: ctypes.CDLL) -> ThreadSetting | None:
    get, set_ = (_symbol(library, f"openblas_{what}_num_threads") for what in ("get", "set"))
    return ThreadSetting(get, set_) if get and set_ else None


def _name(library: ctypes.CDLL) -> str:
    config = _value(library, "openblas_get_config", ctypes.c_char_p)
    words = [] if config is None else config.decode().split()
    return ", ".join([_scipy_version(), *([" ".join(words[:2])] if words else ["its LAPACK"])])
