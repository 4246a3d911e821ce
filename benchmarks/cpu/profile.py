"""Where whole programs spend their time: ``python -m benchmarks.cpu.profile NAME.pb...``.

Runs each program with its stored arguments under Linux ``perf`` (sampling by the CPU clock) and
says which kernels the samples lie in, and how many lie in Python and NumPy instead. Object code
that was linked into the process has no symbols; they are read from the executable and written to
the map file that ``perf`` looks for.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import NamedTuple

import xladev
from benchmarks.cpu.child import Clock
from benchmarks.cpu.machine import machine
from benchmarks.cpu.measure import file_inputs
from benchmarks.cpu.report import table
from xladev.client import CompiledModule
from xladev.platforms.cpu.linker import ENTRY
from xladev.platforms.cpu.native_door import compile_door, native_door
from xladev.platforms.cpu.payload import CpuPayload
from xladev.runtime.array import put

_HEADER = Struct("<40xQ10xHHH")  # of the file: section headers' offset, size, count, names
_SECTION = Struct("<II4Q2I2Q")
_SYMBOL = Struct("<IBBHQQ")
START_S = (0.5, 1.0, 2.0, 4.0)
"""Seconds that perf is given to start; on a busy machine it is late, and there are no samples."""
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
    code = CpuPayload.from_bytes(compiled.program.executables[0].payload).code
    rows = _map_rows(code, ENTRY, entry.address)
    if (door := native_door()) is not None:
        rows += _map_rows(compile_door(), "door", door.method.function, prefix="door.")
    (Path(tempfile.gettempdir()) / f"perf-{os.getpid()}.map").write_text("".join(rows))


def _map_rows(code: bytes, known: str, address: int, prefix: str = "") -> list[str]:
    """Lines for the functions of an object file, of which one lies at a known address."""
    symbols = list(functions(code))
    base = address - next(s.offset for s in symbols if s.name == known)
    return [f"{base + s.offset:x} {s.nbytes:x} {prefix}{s.name}\n" for s in symbols]


def samples(compiled: CompiledModule, arguments: Sequence[object], seconds: float) -> Counter[str]:
    """Samples by kernel; what lies in libraries counts under their names."""
    write_map(compiled)
    found: Counter[str] = Counter()
    for wait in START_S:
        found = _sampled(compiled, arguments, seconds, wait)
        if found:
            break
    return found


def _sampled(
    compiled: CompiledModule, arguments: Sequence[object], seconds: float, wait: float
) -> Counter[str]:
    """Samples of one run of perf, which has so many seconds to start."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "perf.data"
        perf = subprocess.Popen(
            ["perf", "record", "-q", "-e", "cpu-clock", "-F", "5000", "-o", str(data)]
            + ["-p", str(os.getpid())],
            stderr=subprocess.DEVNULL,
        )
        time.sleep(wait)
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


CLASSES = (
    ("Python", r"Python|libffi|_ctypes|^door\."),
    ("libc and kernel", r"libc|kernel|vdso|ld-linux|NumPy"),
    ("convolution", r"conv(?!ert)"),
    ("dot", r"dot|matmul|einsum|fft"),
    ("sort", r"sort|top_k|argmax"),
    ("scatter", r"scatter"),
    ("gather", r"gather"),
    ("reduce", r"reduce"),
    ("other loops", r""),
)
"""Title and regular expression of each column; the first that matches counts."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Where a program spends its time.

    Attributes:
        name: of the program.
        us: microseconds of CPU time per call.
        shares: percent of all samples, by kernel or library, largest first.
    """

    name: str
    us: float
    shares: tuple[tuple[str, float], ...]

    def by_class(self) -> dict[str, float]:
        """Percent by title of `CLASSES`."""
        sums = dict.fromkeys((title for title, _ in CLASSES), 0.0)
        for name, share in self.shares:
            sums[next(title for title, pattern in CLASSES if re.search(pattern, name))] += share
        return sums


def profile(path: Path, seconds: float) -> Profile:
    """Compiles a program, runs it for some seconds and counts."""
    compiled = xladev.compile(path, "cpu")
    inputs = file_inputs(path.parent, path.stem)
    one = len(compiled.devices) == 1
    arguments = [put(compiled.devices[0], a) for a in inputs] if one else inputs
    for _ in range(3):
        compiled(*arguments)
    clock, calls = Clock(), 20
    for _ in range(calls):
        compiled(*arguments)
    us = clock.read()[1] / calls * 1e6
    found = samples(compiled, arguments, seconds)
    whole = max(found.total(), 1)
    shares = tuple((name, 100 * n / whole) for name, n in found.most_common())
    return Profile(path.stem, us, shares)


PAGE = """\
# Where programs spend their time on the CPU

<!-- Written by `python -m benchmarks.cpu.profile --write PAGE NAME.pb...`. -->

Percent of CPU time by what runs: Python and the [door](platform-cpu.md) between call and kernels,
the C library and the operating system (copies, fresh memory), and kernels by what their names say.
The time is that of one call, arguments on the device, results not read.

Measured on {machine}, load average {load:.1f}.

{table}
"""


def page(profiles: Sequence[Profile]) -> str:
    """All profiles as a table."""
    titles = [title for title, _ in CLASSES]
    rows: list[list[str]] = []
    for p in profiles:
        shares = [f"{share:.0f}" if share >= 0.5 else "" for share in p.by_class().values()]
        kernel = next((n for n, _ in p.shares if re.match(r"k\d+\.", n)), "")
        rows.append([p.name, f"{p.us:.0f} us", *shares, f"`{kernel}`" if kernel else ""])
    head = ["", "one call", *titles, "largest kernel"]
    text = table(head, rows)
    return PAGE.format(machine=machine(), load=os.getloadavg()[0], table=text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a profile of each program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("programs", nargs="+", type=Path, help="NAME.pb, beside NAME.npz")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--write", type=Path, help="the page to write")
    options = parser.parse_args(arguments)
    profiles: list[Profile] = []
    for path in options.programs:
        profiles.append(profile(path, options.seconds))
        print(f"\n{path.stem}: {profiles[-1].us:.0f} us")
        for name, share in profiles[-1].shares[:12]:
            print(f"  {share:5.1f}% {name}", flush=True)
    if options.write:
        options.write.write_text(page(profiles))
    return 0


if __name__ == "__main__":
    sys.exit(main())
