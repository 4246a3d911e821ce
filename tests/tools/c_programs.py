"""Builds the examples of programs compiled ahead of time, and runs them where their code runs."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.tools.compilers import lacks
from xladev.aot.build import Bundle

Array = npt.NDArray[Any]
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wundef", "-Werror")
C99 = ("-std=c99", *WARNINGS)


@dataclass(frozen=True, slots=True)
class Toolchain:
    """How to build for a machine and how to run there.

    Attributes:
        target: of the object code; None for this machine's triple.
        compiler: command that compiles and links.
        runner: what runs the result.
        packages: where Debian has the commands.
    """

    target: str | None
    compiler: tuple[str, ...]
    runner: tuple[str, ...] = ()
    packages: str = ""

    def require(self, *flags: str) -> None:
        """Skips the test where a command or a library of its own is missing, naming it.

        Args:
            flags: that the test adds, such as ``-fsanitize=thread``.
        """
        reasons = [f"{c} is not here" for c in self.runner[:1] if shutil.which(c) is None]
        if self.runner == ("node",):
            reasons += [f"{c} is not here" for c in self.compiler if shutil.which(c) is None]
        else:
            reasons.append(lacks(*self.compiler, *flags))
        for reason in filter(None, reasons):
            pytest.skip(f"{reason} (apt-get install {self.packages})")


def _cross(target: str, gcc: str, emulator: str, libc: str) -> Toolchain:
    runner = (f"qemu-{emulator}-static",)
    compiler = (f"{gcc}-gcc", "-static", *C99)
    return Toolchain(target, compiler, runner, f"gcc-{gcc} {libc} qemu-user-static")


TOOLCHAINS: Mapping[str, Toolchain] = {
    "gcc": Toolchain(None, ("gcc", *C99), packages="gcc"),
    "clang": Toolchain(None, ("clang", *C99), packages="clang libclang-rt-dev"),
    "g++": Toolchain(None, ("g++", "-x", "c++", "-std=c++11", *WARNINGS), packages="g++"),
    "aarch64": _cross("aarch64-linux-gnu", "aarch64-linux-gnu", "aarch64",
                      "libc6-dev-arm64-cross"),
    "armv7": _cross("armv7-linux-gnueabihf", "arm-linux-gnueabihf", "arm",
                    "libc6-dev-armhf-cross"),
    "riscv64": _cross("riscv64-linux-gnu", "riscv64-linux-gnu", "riscv64",
                      "libc6-dev-riscv64-cross"),
    "wasm32": Toolchain("wasm32", ("wasm-ld",), ("node",), "lld nodejs"),
}  # fmt: skip


def build(bundle: Bundle, folder: Path, toolchain: Toolchain, *flags: str) -> tuple[str, ...]:
    """Writes a bundle and builds its example; the command that runs it."""
    name = bundle.interface.name
    bundle.write(folder)
    if toolchain.runner == ("node",):
        exports = [f"--export={symbol}" for symbol in (bundle.interface.entry, "__heap_base")]
        command = ["wasm-ld", "--no-entry", *exports, f"{name}.o", "-o", f"{name}.wasm"]
        checked(command, folder)
        return (*toolchain.runner, str(folder / f"{name}_example.mjs"))
    language = ("-x", "none") if "-x" in toolchain.compiler else ()
    shared = ("xladev_threads.c", "-pthread") if bundle.interface.threads > 1 else ()
    source = [*toolchain.compiler, "-O1", *flags, f"{name}_example.c", *shared, *language]
    checked([*source, "-L.", f"-l{name}", "-o", f"{name}_example"], folder)
    return (*toolchain.runner, str(folder / f"{name}_example"))


def checked(command: Sequence[str], folder: Path, timeout_s: float = 120) -> str:
    """What a command printed, once it has succeeded without a warning."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


def run_example(
    bundle: Bundle, command: Sequence[str], folder: Path, arguments: Sequence[Array]
) -> list[Array]:
    """The results of an example for these arguments."""
    interface = bundle.interface
    given = [f"{folder}/argument{n}.bin" for n, _ in enumerate(arguments)]
    wanted = [f"{folder}/result{n}.bin" for n, _ in enumerate(interface.results)]
    for path, array in zip(given, arguments, strict=True):
        Path(path).write_bytes(np.ascontiguousarray(array).tobytes())
    checked([*command, *given, *wanted], folder, timeout_s=300)
    return [
        np.frombuffer(Path(path).read_bytes(), value.shape.element_type.np).reshape(
            value.shape.dims
        )
        for path, value in zip(wanted, interface.results, strict=True)
    ]
