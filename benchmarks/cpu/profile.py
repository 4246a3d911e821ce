"""Where whole programs spend their time: ``python -m benchmarks.cpu.profile NAME.pb...``.

Runs each program with its stored arguments under Linux ``perf`` (sampling by the CPU clock) and
says which kernels the samples lie in, and how many lie in Python and NumPy instead. Object code
that was linked into the process has no symbols; they are read from the executable and written to
the map file that ``perf`` looks for.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import NamedTuple

import xladev
from benchmarks.cpu.measure import file_inputs
from xladev.client import CompiledModule
from xladev.platforms.cpu.linker import ENTRY
from xladev.platforms.cpu.payload import CpuPayload
from xladev.runtime.array import put

_HEADER = Struct("<40xQ10xHHH")  # of the file: section headers' offset, size, count, names
_SECTION = Struct("<II4Q2I2Q")
_SYMBOL = Struct("<IBBHQQ")
_SYMBOL_TABLE, _FUNCTION = 2, 2


class Symbol(NamedTuple):
    """A function of an object file.

    Attributes:
        name: of the function.
        offset: within its section.
        nbytes: of its code.
    """

    name: str
    offset: int
    nbytes: int


def functions(code: bytes) -> Iterator[Symbol]:
    """The functions of a 64-bit little-endian ELF object file."""
    start, size, count, _ = _HEADER.unpack_from(code)
    sections = [_SECTION.unpack_from(code, start + i * size) for i in range(count)]
    for _, kind, _, _, offset, nbytes, link, *_ in sections:
        if kind != _SYMBOL_TABLE:
            continue
        names = sections[link][4]
        for at in range(offset, offset + nbytes, _SYMBOL.size):
            name, info, _, _, value, length = _SYMBOL.unpack_from(code, at)
            if info & 15 == _FUNCTION:
                end = code.index(b"\0", names + name)
                yield Symbol(code[names + name : end].decode(), value, length)


def write_map(compiled: CompiledModule) -> None:
    """Writes where perf looks for the names of this process's native code.

    A program of several parts has none: its time shows as that of unknown code.
    """
    entry = compiled.native_entry
    if entry is None:
        return
    symbols = list(functions(CpuPayload.from_bytes(compiled.program.executables[0].payload).code))
    base = entry.address - next(s.offset for s in symbols if s.name == ENTRY)
    path = Path(tempfile.gettempdir()) / f"perf-{os.getpid()}.map"
    rows = (f"{base + s.offset:x} {s.nbytes:x} {s.name}\n" for s in symbols)
    path.write_text("".join(rows))


def samples(compiled: CompiledModule, arguments: Sequence[object], seconds: float) -> Counter[str]:
    """Samples by kernel; what lies in libraries counts under their names."""
    write_map(compiled)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "perf.data"
        perf = subprocess.Popen(
            ["perf", "record", "-q", "-e", "cpu-clock", "-F", "5000", "-o", str(data)]
            + ["-p", str(os.getpid())],
            stderr=subprocess.DEVNULL,
        )
        time.sleep(0.3)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            compiled(*arguments)
        perf.send_signal(signal.SIGINT)
        perf.wait()
        report = subprocess.run(
            ["perf", "script", "-i", str(data), "-F", "ip,sym,dso"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
    return counted(report.splitlines())


def counted(lines: Sequence[str]) -> Counter[str]:
    """Samples by kernel or library, of the lines of ``perf script -F ip,sym,dso``."""
    found: Counter[str] = Counter()
    for line in lines:
        _, _, rest = line.strip().partition(" ")
        symbol, _, library = rest.rpartition(" (")
        name = Path(library.rstrip(")")).name
        if name.startswith("perf-") or "[JIT]" in library:
            found[symbol] += 1
        elif rest:
            found[_library(name)] += 1
    return found


def _library(name: str) -> str:
    for part, title in (("python", "Python"), ("umath", "NumPy"), ("kernel", "kernel")):
        if part in name:
            return title
    return name.partition(".so")[0]


def profile(path: Path, seconds: float) -> list[str]:
    """Lines of a table: what, share in percent."""
    compiled = xladev.compile(path, "cpu")
    inputs = file_inputs(path.parent, path.stem)
    one = len(compiled.devices) == 1
    arguments = [put(compiled.devices[0], a) for a in inputs] if one else inputs
    for _ in range(3):
        compiled(*arguments)
    found = samples(compiled, arguments, seconds)
    whole = max(found.total(), 1)
    return [f"{100 * n / whole:5.1f}% {name}" for name, n in found.most_common(12)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a profile of each program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("programs", nargs="+", type=Path, help="NAME.pb, beside NAME.npz")
    parser.add_argument("--seconds", type=float, default=1.0)
    options = parser.parse_args(arguments)
    for path in options.programs:
        print(f"\n{path.stem}")
        print("\n".join(f"  {line}" for line in profile(path, options.seconds)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
