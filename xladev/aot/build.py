"""Compiles a program ahead of time: object code, a C interface, and what build systems read."""

from __future__ import annotations

import platform as machine
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path

from xladev.aot.archive import Member, archive
from xladev.aot.example import example, web_example
from xladev.aot.files import write_together
from xladev.aot.header import header
from xladev.aot.interface import Interface, interface_of
from xladev.aot.names import check_program_name
from xladev.aot.packaging import cmake_config, pkg_config
from xladev.aot.prune import prune
from xladev.aot.selection import Selection
from xladev.aot.whole import whole_executable
from xladev.client import load
from xladev.compiler.contract import Compiler
from xladev.compiler.options import CompileOptions
from xladev.errors import OptionError, UnsupportedError
from xladev.hlo.ir import HloModule
from xladev.runtime.plugins.registered_platform import RegisteredPlatform
from xladev.runtime.registry import current_registry

ALIGNMENT = 16
"""What kernels take for granted of a buffer's address, in bytes."""

EVERYTHING = Selection()


@dataclass(frozen=True, slots=True)
class Bundle:
    """A program compiled ahead of time.

    Attributes:
        interface: what C sees of it.
        code: the object file.
        files: contents by file name: header, object file, static library, pkg-config file, CMake
            package, example; for several threads, xladev_threads.c and its header.
    """

    interface: Interface
    code: bytes = field(repr=False)
    files: Mapping[str, bytes] = field(repr=False)

    def write(self, folder: str | Path) -> tuple[Path, ...]:
        """Writes all files into a folder, which is made if it is not there, or none of them.

        Raises:
            FileError: one of them cannot be written.
        """
        return write_together(Path(folder), self.files)


def compile(
    module: HloModule | str | Path | bytes,
    name: str,
    *,
    target: str | None = None,
    selection: Selection = EVERYTHING,
    in_place: bool = True,
    platform: str = "cpu",
    options: CompileOptions | None = None,
) -> Bundle:
    """Compiles a program for use from C, without Python.

    Args:
        module: a module, or anything that `xladev.load` takes.
        name: what names of functions, macros and files begin with.
        target: ``TRIPLE`` or ``TRIPLE:LEVEL``, such as ``aarch64-linux-gnu``; None means this
            machine's triple. Without a level, the code runs on the triple's every processor.
        selection: what is fed, bound to constants, and fetched; the rest is pruned.
        in_place: compute results in the place of arguments where the module says so.
        platform: whose compiler makes the code.
        options: how to compile; None means `CompileOptions.from_environment`.

    Raises:
        UnsupportedError: the program is not one piece of native code (it names which instructions
            and why), passes something that is no array of fixed sizes, or the platform exports no
            object files.
        OptionError: an unknown target.
        UsageError: names that C does not allow.
        ArgumentError: a feed, fetch or constant that does not fit the program.
        XladevError: the module cannot be read or compiled.
    """
    check_program_name(name)
    whole = module if isinstance(module, HloModule) else load(module)
    chosen = current_registry().platform(platform)
    _refuse_without_export(chosen)
    given = CompileOptions.from_environment() if options is None else options
    wanted = replace(given, target=target or given.target or machine_target(), strict=True)
    described = chosen.compile_target(wanted.target)
    pruned = prune(whole, selection)
    if not in_place:
        pruned = replace(pruned, module=_apart(pruned.module))
    named = replace(pruned, module=replace(pruned.module, name=name))
    executable = whole_executable(named.module, described, wanted)
    exported = chosen.compiler.export(executable, "object")
    interface = interface_of(whole.name, executable.signature, named, exported.entry, ALIGNMENT)
    interface = replace(interface, threads=wanted.threads or 1)
    return Bundle(interface, exported.data, dict(_files(interface, exported.data)))


def _refuse_without_export(platform: RegisteredPlatform) -> None:
    if type(platform.compiler).export is Compiler.export:
        raise UnsupportedError(
            f"platform {platform.name} exports no object files",
            why="its compiler has no `export`",
            hint="leave --platform out, or name cpu",
        )


def _apart(module: HloModule) -> HloModule:
    """The module with a buffer of its own for each result."""
    header = replace(module.header, aliases=(), buffer_donors=())
    return replace(module, header=header)


def machine_target() -> str:
    """The triple of this machine, without its processor's features.

    Raises:
        OptionError: the machine does not run Linux.
    """
    if machine.system() == "Linux":
        return f"{machine.machine()}-linux"
    raise OptionError(
        "no target was named",
        why=f"only the triples of Linux machines are known by themselves, not {machine.system()}'s",
        hint="--target x86_64-linux-gnu, or another",
    )


def _files(interface: Interface, code: bytes) -> Iterator[tuple[str, bytes]]:
    name = interface.name
    yield f"{name}.h", header(interface).encode()
    yield f"{name}.o", code
    yield f"lib{name}.a", archive([Member(f"{name}.o", code, (interface.entry,))])
    yield f"{name}.pc", pkg_config(interface).encode()
    yield f"{name}Config.cmake", cmake_config(interface).encode()
    yield f"{name}_example.c", example(interface).encode()
    if interface.target.startswith("wasm"):
        yield f"{name}_example.mjs", web_example(interface).encode()
    if interface.threads > 1:
        for file in ("xladev_threads.h", "xladev_threads.c"):
            yield file, files("xladev.aot").joinpath(file).read_bytes()
