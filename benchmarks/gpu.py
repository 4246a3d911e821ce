"""Kernel times on a GPU, then other frameworks beside xladev: `python -m benchmarks.gpu`.

It takes less than ten minutes: one or two for kernels, seven at most for `benchmarks.gpu_peers`.

Every row is one generated kernel on arrays larger than the caches, timed by the device's own events
and set against the speed at which the device copies memory, measured in the same run. With
`--driver emulated` it runs small arrays without a GPU: a test of this file, not a measurement.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.gpu_child import PEERS
from benchmarks.gpu_peers import report
from xladev.codegen.kernel_spec import KernelSpec
from xladev.compiler.kernel_code import KernelCode
from xladev.compiler.options import CompileOptions
from xladev.hlo.text import parse_module
from xladev.platforms.cuda.compiler import CudaCompiler, CudaEmulationCompiler
from xladev.platforms.cuda.driver.cupy_driver import CupyDriver
from xladev.platforms.cuda.driver.emulated import EmulatedDriver
from xladev.platforms.cuda.driver.interface import DriverDevice, DriverStream

ADD = "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT r = f32[] add(x, y) }"

KERNELS = {
    "negate_f32": "ENTRY e { x = f32[R,C] parameter(0)\n ROOT r = f32[R,C] negate(x) }",
    "negate_bf16": "ENTRY e { x = bf16[R,C] parameter(0)\n ROOT r = bf16[R,C] negate(x) }",
    "scale_bias_f32": """ENTRY e { x = f32[R,C] parameter(0)
  s = f32[C] parameter(1)
  b = f32[C] parameter(2)
  sb = f32[R,C] broadcast(s), dimensions={1}
  bb = f32[R,C] broadcast(b), dimensions={1}
  m = f32[R,C] multiply(x, sb)
  ROOT r = f32[R,C] add(m, bb) }""",
    "tanh_sigmoid_f32": """ENTRY e { x = f32[R,C] parameter(0)
  s = f32[C] parameter(1)
  sb = f32[R,C] broadcast(s), dimensions={1}
  m = f32[R,C] multiply(x, sb)
  t = f32[R,C] tanh(m)
  l = f32[R,C] logistic(x)
  ROOT r = f32[R,C] multiply(t, l) }""",
    "exp_bf16": "ENTRY e { x = bf16[R,C] parameter(0)\n ROOT r = bf16[R,C] exponential(x) }",
    "convert_f32_bf16": "ENTRY e { x = f32[R,C] parameter(0)\n ROOT r = bf16[R,C] convert(x) }",
    "transpose_f32": """ENTRY e { x = f32[R,C] parameter(0)
  ROOT r = f32[C,R] transpose(x), dimensions={1,0} }""",
    "sum_rows_f32": ADD + """
ENTRY e { x = f32[R,C] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[R] reduce(x, z), dimensions={1}, to_apply=add }""",
    "sum_columns_f32": ADD + """
ENTRY e { x = f32[R,C] parameter(0)
  z = f32[] constant(0)
  ROOT r = f32[C] reduce(x, z), dimensions={0}, to_apply=add }""",
}  # fmt: skip
"""HLO by name; R and C are the sizes."""


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement.

    Attributes:
        name: of the kernel.
        nbytes: read and written once.
        median_ms, best_ms: of one launch.
        share: of the copy bandwidth.
    """

    name: str
    nbytes: int
    median_ms: float
    best_ms: float
    share: float


def _timed(
    stream: DriverStream, enqueue: Callable[[], None], groups: int, launches: int
) -> list[float]:
    """Milliseconds of one launch, in each group of launches."""
    found = []
    for _ in range(groups + 1):
        before = stream.record()
        for _ in range(launches):
            enqueue()
        after = stream.record()
        after.synchronize()
        failure = after.failure()
        if failure is not None:
            raise failure
        found.append(after.elapsed_ms(before) / launches)
    return found[1:]


def _copy_ms(device: DriverDevice, nbytes: int, groups: int, launches: int) -> float:
    """Milliseconds to copy ``nbytes`` within the device."""
    source, target = device.allocate(nbytes), device.allocate(nbytes)
    stream = device.create_stream()
    times = _timed(
        stream, lambda: stream.copy(target.address, source.address, nbytes), groups, launches
    )
    device.free(source)
    device.free(target)
    return statistics.median(times)


def _kernel_times(
    device: DriverDevice, code: KernelCode, sizes: Sequence[int], groups: int, launches: int
) -> list[float]:
    """Milliseconds of one launch on arrays of these sizes, whatever they hold."""
    nbytes = [*sizes, *([code.workspace_nbytes] if code.workspace_nbytes else [])]
    arrays = [device.allocate(max(n, 1)) for n in nbytes]
    parts = [(device.load(c.code, c.entry), c.dimensions) for c in code.launches]
    stream = device.create_stream()
    addresses = [a.address for a in arrays]

    def enqueue() -> None:
        for function, dimensions in parts:
            stream.launch(function, dimensions, addresses)

    times = _timed(stream, enqueue, groups, launches)
    for array in arrays:
        device.free(array)
    return times


def measure(
    device: DriverDevice, compiler: CudaCompiler, wanted: str, size: tuple[int, int], groups: int
) -> Iterator[Row]:
    """Rows of all kernels whose name contains ``wanted``."""
    options = CompileOptions(target=device.properties.target)
    launches = 20 if size[0] * size[1] > 1 << 20 else 1
    reference = size[0] * size[1] * 4
    bytes_per_ms = 2 * reference / _copy_ms(device, reference, groups, launches)
    for name, text in KERNELS.items():
        if wanted not in name:
            continue
        sized = re.sub(r"\bR\b", str(size[0]), re.sub(r"\bC\b", str(size[1]), text))
        spec = KernelSpec(name, parse_module(sized).entry)
        sizes = [s.nbytes for s in (*spec.operands, *spec.results)]
        times = _kernel_times(device, compiler.lower(spec, options), sizes, groups, launches)
        median = statistics.median(times)
        yield Row(name, sum(sizes), median, min(times), sum(sizes) / median / bytes_per_ms)


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--driver", choices=("cupy", "emulated"), default="cupy")
    parser.add_argument("--only", default="", help="part of a kernel's name")
    parser.add_argument("--size", type=int, nargs=2, default=None, metavar=("R", "C"))
    parser.add_argument("--groups", type=int, default=9)
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument(
        "--peers-budget", type=float, default=420, help="seconds for other frameworks; 0 for none"
    )
    arguments = parser.parse_args()
    emulated = arguments.driver == "emulated"
    driver = EmulatedDriver() if emulated else CupyDriver()
    if not emulated and not driver.device_count():
        raise SystemExit(f"no GPU: {driver.version()}")
    device = driver.open(0)
    print(f"{device.properties.name}, {driver.version()}")
    compiler = CudaEmulationCompiler() if emulated else CudaCompiler()
    size = tuple(arguments.size or ((64, 256) if emulated else (32768, 8192)))
    print(f"{'KERNEL':20} {'BYTES':>12} {'MEDIAN ms':>10} {'BEST ms':>10} {'OF COPY':>8}")
    rows = []
    for row in measure(device, compiler, arguments.only, size, arguments.groups):
        rows.append(asdict(row))
        print(
            f"{row.name:20} {row.nbytes:12} {row.median_ms:10.4f} {row.best_ms:10.4f} "
            f"{row.share:8.1%}",
            flush=True,
        )
    if not emulated and arguments.peers_budget:
        peers = {"budget": arguments.peers_budget, "peers": list(PEERS), "only": []}
        report(argparse.Namespace(**peers, small=False, cpu=False, json=None))
    if arguments.json:
        found = {"device": asdict(device.properties), "driver": driver.version(), "rows": rows}
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
