"""Programs compiled ahead of time, by xladev and by XLA: size and speed of the code.

    python -m benchmarks.aot --tensorflow VENV [--cpu x86-64-v3] [--work FOLDER] [--json FILE]

VENV is an environment with TensorFlow: its `saved_model_cli aot_compile_cpu` is XLA's compiler, and
its package has the sources of the runtime that XLA's code calls (Eigen's products, convolutions).
Both compile the same HLO for the same processor, for one thread; both binaries run on the same
random arguments, in turn, and their results are compared. Times are of the process, the minimum
of the rounds.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import xladev
import xladev.aot
from xladev.aot.interface import Interface

PROGRAMS = ("softmax_step", "mlp", "cnn_step", "transformer")
XLA_CPUS = {
    "x86-64": "",
    "x86-64-v2": "nehalem",
    "x86-64-v3": "haswell",
    "x86-64-v4": "skylake-avx512",
}
"""LLVM's name of a processor of each level, for XLA; empty is its own default."""
RUNTIME = (
    "tensorflow/compiler/tf2xla/allocator",
    "tensorflow/compiler/tf2xla/xla_compiled_cpu_function",
    "xla/executable_run_options",
    "xla/service/custom_call_status",
    "xla/tsl/concurrency/async_value",
    "xla/tsl/concurrency/async_value_ref",
    "xla/tsl/framework/contraction/eigen_contraction_kernel",
    "xla/backends/cpu/runtime/dot_lib_f32",
    "xla/backends/cpu/runtime/convolution_lib_f32_2d",
)
LEAST_MS = 50
TOLERANCE = 2e-3
Array = npt.NDArray[Any]

TIMING = """
static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}
static void load(const char *path, void *data, size_t nbytes) {
  FILE *file = fopen(path, "rb");
  if (!file || fread(data, 1, nbytes, file) != nbytes) exit(3);
  fclose(file);
}
static void store(const char *path, const void *data, size_t nbytes) {
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(data, 1, nbytes, file) != nbytes) exit(3);
  fclose(file);
}
"""
LOOP = """
  {run};
{stores}
  long runs = 1;
  for (;;) {{
    const double start = now_us();
    for (long i = 0; i < runs; ++i) {run};
    const double spent = now_us() - start;
    if (spent > {least} * 1000.0) {{
      printf("%.4f\\n", spent / (double)runs);
      return 0;
    }}
    runs *= 2;
  }}
}}
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One program on both sides; times in microseconds, sizes in bytes."""

    program: str
    xladev_us: float
    xla_us: float
    xladev_object: int
    xla_object: int
    xladev_text: int
    xla_text: int
    difference: float

    @property
    def ratio(self) -> float:
        """How many times as fast xladev's code is."""
        return self.xla_us / self.xladev_us


def main() -> None:
    options = _options()
    work = options.work or Path(tempfile.mkdtemp(prefix="aot-"))
    runtime = _xla_runtime(options.tensorflow, options.cpu, work / f"runtime-{options.cpu}")
    rows = [_compare(name, options, work, runtime) for name in options.programs]
    facts = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": platform.processor() or platform.machine(),
        "cpu": options.cpu,
        "rows": [asdict(row) | {"ratio": row.ratio} for row in rows],
    }
    print(_table(rows))
    print(f"XLA's code calls a runtime of {sum(_text_nbytes(Path(r)) for r in runtime):,} bytes.")
    if options.json:
        options.json.write_text(json.dumps(facts, indent=2) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tensorflow", type=Path, required=True, metavar="VENV")
    parser.add_argument("--cpu", choices=tuple(XLA_CPUS), default="x86-64-v3")
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=PROGRAMS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--work", type=Path, help="folder to keep what is built in")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    return parser.parse_args()


def _compare(name: str, options: argparse.Namespace, work: Path, runtime: Sequence[str]) -> Row:
    model, folder = work / name, work / name / options.cpu
    folder.mkdir(parents=True, exist_ok=True)
    if not (model / "interface.json").is_file():
        bytecode = Path(__file__).with_name("aot_tensorflow.py")
        _run([str(options.tensorflow / "bin" / "python"), str(bytecode), str(work), name])
    facts = json.loads((model / "interface.json").read_text())
    bundle = _xladev(folder, facts, options.cpu)
    _write_arguments(folder, bundle.interface)
    _xla(folder, facts, options, runtime)
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(options.rounds):
        for side, found in times.items():
            found.append(float(_run([f"./{side}"], folder)))
    return Row(
        program=name,
        xladev_us=min(times["ours"]),
        xla_us=min(times["theirs"]),
        xladev_object=(folder / "ours.o").stat().st_size,
        xla_object=sum(path.stat().st_size for path in _xla_objects(folder)[:2]),
        xladev_text=_text_nbytes(folder / "ours.o"),
        xla_text=sum(map(_text_nbytes, _xla_objects(folder)[:2])),
        difference=max(_difference(folder, r.name) for r in bundle.interface.results),
    )


def _xladev(folder: Path, facts: Mapping[str, list[str]], cpu: str) -> xladev.aot.Bundle:
    numbered = enumerate(facts["arguments"])
    selection = xladev.aot.Selection(
        feeds=tuple(xladev.aot.Feed(str(n), name) for n, name in numbered),
        fetches=tuple(xladev.aot.Fetch(str(n), r) for n, r in enumerate(facts["results"])),
    )
    target = f"{platform.machine()}-linux:{cpu}"
    bundle = xladev.aot.compile(
        folder.parent / "program.pb", "ours", target=target, selection=selection, in_place=False
    )
    bundle.write(folder)
    interface = bundle.interface
    total = interface.memory_nbytes + sum(a.nbytes + 64 for a in interface.arguments) + 64
    lines = [
        '#include "ours.h"', *_INCLUDES, TIMING, f"static unsigned char arena[{total}];",
        "int main(void) {", "  ours_context c;", "  unsigned char *at = arena;",
        "  at = (unsigned char *)ours_align(at);",
        "  if (ours_init(&c, at, OURS_MEMORY_NBYTES) != OURS_OK) return 1;",
        "  at += OURS_MEMORY_NBYTES;",
    ]  # fmt: skip
    for number, each in enumerate(interface.arguments):
        lines += [
            "  at = (unsigned char *)ours_align(at);",
            f'  load("{each.name}.bin", at, {each.nbytes});',
            f"  c.arguments[{number}] = at;",
            f"  at += {each.nbytes};",
        ]
    stores = "\n".join(
        f'  store("ours_{r.name}.bin", ours_result_{r.name}(&c), {r.nbytes});'
        for r in interface.results
    )
    loop = LOOP.format(run="if (ours_run(&c) != OURS_OK) return 1", stores=stores, least=LEAST_MS)
    (folder / "ours.c").write_text("\n".join(lines) + loop)
    _run(["gcc", "-std=gnu99", "-O2", "ours.c", "-L.", "-lours", "-o", "ours"], folder)
    return bundle


_INCLUDES = ("#include <stdio.h>", "#include <stdlib.h>", "#include <time.h>")


def _xla(
    folder: Path,
    facts: Mapping[str, list[str]],
    options: argparse.Namespace,
    runtime: Sequence[str],
) -> None:
    """XLA's object code, and a program that times it."""
    if not (folder / "theirs.o").is_file():
        command = [str(options.tensorflow / "bin" / "saved_model_cli"), "aot_compile_cpu"]
        command += ["--dir", "../model", "--tag_set", "serve", "--cpp_class", "Theirs"]
        command += ["--output_prefix", str(folder / "theirs")]
        cpu = XLA_CPUS[options.cpu]
        _run([*command, *(["--target_cpu", cpu] if cpu else [])], folder)
    lines = ['#include "theirs.h"', *_INCLUDES, TIMING, "int main() {", "  Theirs p;"]
    for name in facts["arguments"]:
        lines.append(
            f'  load("{name}.bin", p.arg_feed_{name}_data(), (size_t)p.arg_feed_{name}_size());'
        )
    stores = "\n".join(
        f'  store("theirs_{r}.bin", p.result_fetch_{r}_data(), (size_t)p.result_fetch_{r}_size());'
        for r in facts["results"]
    )
    loop = LOOP.format(run="if (!p.Run()) return 1", stores=stores, least=LEAST_MS)
    (folder / "theirs.cc").write_text("\n".join(lines) + loop)
    package = _package(options.tensorflow)
    objects = [str(path) for path in _xla_objects(folder)]
    libraries = [f"-L{package}", "-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2"]
    command = ["g++", "-std=c++17", "-O2", "-w", f"-I{package}/include", "theirs.cc", *objects]
    _run([*command, *runtime, *libraries, f"-Wl,-rpath,{package}", "-o", "theirs"], folder)


def _xla_objects(folder: Path) -> list[Path]:
    """Code, constants, and metadata, which do not count: nothing needs them to run."""
    names = ("theirs.o", "theirs_constants.o", "theirs_metadata.o")
    return [folder / name for name in names]


def _xla_runtime(venv: Path, cpu: str, folder: Path) -> list[str]:
    """What XLA's code calls, compiled for the processor as TensorFlow's own makefile does."""
    package = _package(venv)
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for source in RUNTIME:
        made.append(str(folder / f"{Path(source).name}.o"))
        if not Path(made[-1]).is_file():
            command = ["g++", "-std=c++17", "-O2", "-w", f"-march={cpu}", f"-I{package}/include"]
            path = f"{package}/xla_aot_runtime_src/{source}.cc"
            _run([*command, "-c", path, "-o", made[-1]])
    return made


def _package(venv: Path) -> Path:
    (found,) = venv.glob("lib/python3*/site-packages/tensorflow")
    return found


def _write_arguments(folder: Path, interface: Interface) -> None:
    random = np.random.default_rng(0)
    for each in interface.arguments:
        shape = each.shape
        if shape.element_type.is_integral:
            values: Array = random.integers(0, 10, shape.dims)
        else:
            values = random.standard_normal(shape.dims) * (1 if each.name == "x" else 0.05)
        (folder / f"{each.name}.bin").write_bytes(values.astype(shape.element_type.np).tobytes())


def _difference(folder: Path, name: str) -> float:
    """The largest difference of a result, relative to its largest element."""
    ours, theirs = (
        np.frombuffer((folder / f"{side}_{name}.bin").read_bytes(), np.float32)
        for side in ("ours", "theirs")
    )
    found = float(np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-30))
    if found > TOLERANCE:
        sys.exit(f"{folder.name}: result {name} differs by {found:g}")
    return found


def _text_nbytes(path: Path) -> int:
    """Code and read-only data of an object file."""
    return int(_run(["size", str(path)]).splitlines()[1].split()[0])


def _run(command: Sequence[str], folder: Path | None = None) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def _table(rows: Sequence[Row]) -> str:
    lines = [
        "| program | xladev, us | XLA, us | times as fast | object, xladev | object, XLA |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    lines += [
        f"| {r.program} | {r.xladev_us:.1f} | {r.xla_us:.1f} | {r.ratio:.2f} "
        f"| {r.xladev_text:,} of {r.xladev_object:,} | {r.xla_text:,} of {r.xla_object:,} |"
        for r in rows
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
