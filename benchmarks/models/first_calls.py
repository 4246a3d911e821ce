"""First calls of whole models and their memory: ``python -m benchmarks.models.first_calls``.

    python -m benchmarks.models.first_calls --jax-python J --torch-python T --rows BERT

Each first call has a process of its own: xladev's with an empty cache on disk, then with what that
one left there, then XLA:CPU's. What was measured is kept as that of `benchmarks.models` is, beside
whose results it lies; its page shows both.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.cpu.peer import ROOT, environment
from benchmarks.cpu.report import shown_time, table
from benchmarks.cpu.rows import Row, chosen
from benchmarks.cpu.statistics import capped_geometric_mean
from benchmarks.models.first_call import STEPS
from benchmarks.models.model_rows import Converter, model_rows

FOLDER = "first-calls"
"""Of results, in the folder of work."""
COLD, WARM, XLA = "xladev", "xladev, from its cache", "XLA:CPU"


@dataclass(frozen=True, slots=True)
class FirstCall:
    """What one process took.

    Attributes:
        steps: wall seconds, CPU seconds, and bytes of the process's peak until then, by step.
        digest: of the results.
    """

    steps: Mapping[str, Sequence[float]]
    digest: str

    def cpu_s(self, *names: str) -> float:
        """CPU seconds of some steps."""
        return sum(self.steps[name][1] for name in names)

    @property
    def first_s(self) -> float:
        """CPU seconds from a module that was read to the first result."""
        return self.cpu_s("compile", "call")

    @property
    def peak(self) -> float:
        """Bytes."""
        return max(step[2] for step in self.steps.values())


def measured(python: str, library: str, row: Row, folder: Path, cache: str) -> FirstCall:
    """A first call in a new process with one thread.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    is_constant = row.parameters["constant"]
    command = [
        python, "-m", "benchmarks.models.first_call", library,
        str(folder / ("constants.pb" if is_constant else "model.pb")),
        str(folder / ("inputs.npz" if is_constant else "arguments.npz")),
    ]  # fmt: skip
    ran = subprocess.run(
        command,
        env={**environment(1), "XLADEV_CACHE": cache},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    return FirstCall(**json.loads(ran.stdout.splitlines()[-1]))


def measure(row: Row, folder: Path, jax_python: str) -> dict[str, FirstCall]:
    """All first calls of a row, by name; XLA's is left out where it fails."""
    with tempfile.TemporaryDirectory() as cache:
        found = {
            name: measured(sys.executable, "xladev", row, folder, cache) for name in (COLD, WARM)
        }
    if jax_python:
        try:
            found[XLA] = measured(jax_python, "xla", row, folder, "off")
        except subprocess.CalledProcessError as error:
            print(f"{row.name}: XLA:CPU failed: {error}", file=sys.stderr)
    return found


def section(work: Path, rows: Sequence[Row]) -> str:
    """What is known of rows, as a section of the page; empty where nothing is."""
    known = [(row, found) for row in rows if (found := load(work, row))]
    if not known:
        return ""
    lines = [_line(row.name, found) for row, found in known]
    means = [_mean(known, is_constant=which) for which in (False, True)]
    return "\n\n".join(
        ["## First calls", TEXT.format(means="".join(filter(None, means))), table(HEAD, lines)]
    )


TEXT = """\
Processor seconds of all threads of a process of its own with one thread, from a module that was
read to the first result; loading is the reading of the serialized module before that. The peak is
the process's, arguments as the file holds them among it.{means}"""
HEAD = ["", COLD, "loading", XLA, "loading", f"{XLA} over {COLD}", "from the cache",
        "peak, MB", "from the cache, MB", f"{XLA}, MB"]  # fmt: skip


def _line(name: str, found: Mapping[str, FirstCall]) -> list[str]:
    own, warm, xla = found[COLD], found[WARM], found.get(XLA)
    times = [own.first_s, own.cpu_s("load")]
    return [
        name,
        *map(shown_time, times),
        *(map(shown_time, (xla.first_s, xla.cpu_s("load"))) if xla else ("", "")),
        f"{xla.first_s / own.first_s:.2f}" if xla else "",
        shown_time(warm.first_s),
        *(f"{each.peak / 1e6:.0f}" if each else "" for each in (own, warm, xla)),
    ]


def _mean(known: Sequence[tuple[Row, Mapping[str, FirstCall]]], *, is_constant: bool) -> str:
    ratios = [
        found[XLA].first_s / found[COLD].first_s
        for row, found in known
        if row.parameters["constant"] is is_constant and XLA in found
    ]
    if not ratios:
        return ""
    which = "constants" if is_constant else "arguments"
    mean = capped_geometric_mean(ratios)
    return f" With weights as {which}, {XLA}'s over ours has the geometric mean {mean:.2f}."


def load(work: Path, row: Row) -> dict[str, FirstCall]:
    """What is known of a row; nothing where it was not measured."""
    path = _path(work, row)
    if not path.exists():
        return {}
    return {name: FirstCall(**facts) for name, facts in json.loads(path.read_text()).items()}


def save(work: Path, row: Row, found: Mapping[str, FirstCall]) -> None:
    """Keeps what was measured of a row."""
    path = _path(work, row)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({name: asdict(call) for name, call in found.items()}, indent=1))


def _path(work: Path, row: Row) -> Path:
    return work / FOLDER / f"{row.stem}.json"


def shown_steps(found: Mapping[str, FirstCall]) -> str:
    """Each step of each first call: CPU seconds, and the peak of memory until its end."""
    lines = [
        [name, *(f"{call.steps[s][1]:.2f} s, {call.steps[s][2] / 1e6:.0f} MB" for s in STEPS),
         call.digest]
        for name, call in found.items()
    ]  # fmt: skip
    return table(["", *STEPS, "digest of results"], lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures what is not known yet, and prints it."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.models.first_calls",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--jax-python", default="", help="a Python that has jax; without it, XLA is left out")
    add("--torch-python", default=sys.executable, help="torch, transformers, onnxscript")
    add("--rows", default="", help="a regular expression; default: all")
    add("--work", type=Path, default=Path("build/benchmarks-models"))
    add("--fresh", action="store_true", help="measure again what is known")
    add("--steps", action="store_true", help="print each step of each first call, too")
    options = parser.parse_args(arguments)
    converter = Converter(options.torch_python, options.work / "models")
    rows = chosen(model_rows(converter.networks(), (1,)), ("models",), options.rows)
    for row in rows:
        found = {} if options.fresh else load(options.work, row)
        if not found:
            found = measure(row, converter.files(row), options.jax_python)
            save(options.work, row, found)
        if options.steps:
            print(f"{row.name}\n\n{shown_steps(found)}\n", flush=True)
    print(section(options.work, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
