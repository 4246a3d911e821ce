"""Runs Keras's and TensorFlow's own tests with xladev's device as default, beside TensorFlow's CPU.

    python -m tests.tools.tensorflow_suite --python TF --sample 3/40
    python -m tests.tools.tensorflow_suite --python TF ops/nn_test --platform template_npu
    python -m tests.tools.tensorflow_suite --python TF --tensorflow-repo ../tensorflow array_ops
    python -m tests.tools.tensorflow_suite --python TF --tensorflow-repo ../tensorflow --xla
    python -m tests.tools.tensorflow_suite --table

TF is a Python that has tensorflow, pytest and what xladev needs. Keras's tests are in its wheel;
TensorFlow's are in its repository; the checkout should be at the release's tag, and is not built.
`--xla` runs its tests of XLA devices, `compiler/tests`, for which the host is the device XLA_CPU.
The sample is every N-th test of a file or folder. It runs on TensorFlow's CPU first, without the
plugin; what passes there runs on the device, to which goes what no test places elsewhere. Only
tests count in which the device executed a program. Crashes, time limits, results: as `jax_suite`.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from tests.tools import tensorflow_child
from tests.tools.jax_suite import ROOT, Suite, collect, print_report, results, run_tests
from tests.tools.tensorflow_suite_worker import HOST_XLA_DEVICE, SINK, XLA_DEVICE

HOST = "host"
"""In place of a platform: TensorFlow's CPU, without the plugin."""
AREAS = ("layers", "ops", "trainers")
KERNEL_TESTS = "tensorflow/python/kernel_tests"
XLA_TESTS = "compiler/tests"
CONFTEST = """
import keras
import pytest

def skip_if_backend(name, reason):
    return pytest.mark.skipif(keras.backend.backend() == name, reason=reason)
"""
"""What Keras's tests import from their repository's `conftest`, which the wheel has not."""


@dataclass(frozen=True, slots=True)
class TensorFlowSuite(Suite):
    """See `Suite`; a "file" is a path below ``repo``, of a file without `.py` or of a folder."""

    plugin: ClassVar[str] = "tests.tools.tensorflow_suite_worker"

    @property
    def is_xla(self) -> bool:
        """True for TensorFlow's tests of XLA devices."""
        return (self.repo / XLA_TESTS).is_dir()

    def path(self, file: str) -> str:
        """What pytest is told to run."""
        return file if (self.repo / file).is_dir() else f"{file}.py"

    def log(self, file: str) -> Path:
        """Where results of a test file are kept."""
        return self.out / f"{file.replace('/', '.')}.{self.platform}.jsonl"

    def environment(self, log: Path) -> dict[str, str]:
        """Variables of a worker."""
        on_device = self.platform != HOST
        return {
            **tensorflow_child.environment(self.platform if on_device else None),
            "PYTHONPATH": str(ROOT),
            "PYTHONSAFEPATH": "1",
            "XLADEV_TF_DEFAULT": "1",
            "TF_CPP_MIN_LOG_LEVEL": "0",
            "KERAS_BACKEND": "tensorflow",
            "PYTEST_ADDOPTS": "--import-mode=importlib -Wignore",
            SINK: str(log),
        } | ({XLA_DEVICE: "XLADEV" if on_device else HOST_XLA_DEVICE} if self.is_xla else {})


def keras_source(python: str) -> Path:
    """The folder of Keras's sources, tests among them, of a Python."""
    ask = "import importlib.util as u; print(u.find_spec('keras').origin)"
    found = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout
    return Path(found.strip()).parent / "src"


def copy_of_keras(source: Path, files: Iterable[Path], out: Path) -> Path:
    """Test files of Keras's in a folder of their own: pytest would import the package twice.

    They import each other as `keras.src...`, which finds the installed ones.
    """
    target = out / "keras"
    for path in files:
        to = target / path.relative_to(source)
        if not to.exists():
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)
    (target / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    (target / "conftest.py").write_text(CONFTEST)
    return target


def whole_keras(python: str, out: Path) -> Path:
    """A folder with all of Keras's test files."""
    source = keras_source(python)
    return copy_of_keras(source, source.rglob("*_test.py"), out)


def run(suite: TensorFlowSuite, file: str, most: int | None = None, turn: int = 0) -> None:
    """A sample of a file on TensorFlow's CPU, and what passes there on the device.

    Args:
        suite: says which sample.
        file: one of its files.
        most: so many tests of the sample at most, evenly spread.
        turn: of the ways to spread them, this one.
    """
    host = replace(suite, platform=HOST)
    tests = collect(host, file)
    every = -(-len(tests) // most) if most else 1
    tests = tests[turn % every :: every]
    run_tests(host, file, tests)
    on_host = results(host.log(file))
    run_tests(suite, file, [t for t in tests if on_host[t]["state"] == "passed"])


# What came out


def counted(suite: TensorFlowSuite, file: str) -> dict[str, dict[str, Any]]:
    """Tests that pass on TensorFlow's CPU and in which the device executed something, or might
    have: those that crashed or hung.

    Without those that TensorFlow's compiler has no kernel for. Keras has it compile whatever trains
    on a device that is no CPU, so these fail on every such device.
    """
    expected = results(replace(suite, platform=HOST).log(file))
    ours = results(suite.log(file))
    passing = {t for t, record in expected.items() if record["state"] == "passed"}
    return {
        t: record
        for t, record in ours.items()
        if t in passing
        and record["state"] not in ("begin", "skipped")
        and record.get("executed", 1)
        and not _NO_KERNEL.search(record.get("why") or "")
    }


_NO_KERNEL = re.compile(r"No registered '\w+' OpKernel for XLA_\w+ devices")
"""Of an operator that TensorFlow cannot compile, such as StatelessRandomGammaV3."""


def table(suite: TensorFlowSuite, files: Sequence[str]) -> Iterator[str]:
    """Lines of Markdown: for each name how many tests ran, executed something, and passed."""
    yield f"| tests | pass on the host | executed on `{suite.platform}` | pass | share |"
    yield "|---|--:|--:|--:|--:|"
    rows = {file: _row(suite, [file]) for file in files}
    rows["all"] = tuple(map(sum, zip(*rows.values(), strict=True)))
    for file, (ran, executed, passed) in rows.items():
        share = f"{100 * passed / executed:.1f} %" if executed else "-"
        yield f"| {file} | {ran} | {executed} | {passed} | {share} |"


def _row(suite: TensorFlowSuite, files: Sequence[str]) -> tuple[int, ...]:
    ran = sum(len(results(suite.log(file))) for file in files)
    records = [r for file in files for r in counted(suite, file).values()]
    return ran, len(records), sum(r["state"] == "passed" for r in records)


def failures(suite: TensorFlowSuite, files: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Those that count and do not pass."""
    found = {t: r for file in files for t, r in counted(suite, file).items()}
    return {t: r for t, r in found.items() if r["state"] != "passed"}


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="files or folders; default: all")
    parser.add_argument("--python", default=os.environ.get(tensorflow_child.VARIABLE, sys.executable))  # fmt: skip # noqa: E501
    parser.add_argument("--tensorflow-repo", type=Path, help="run TensorFlow's tests, not Keras's")
    parser.add_argument("--xla", action="store_true", help="its tests of XLA devices")
    parser.add_argument("--platform", default="cpu")
    parser.add_argument("--out", type=Path, default=ROOT / "build/tensorflow-suite")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one test")
    parser.add_argument("--sample", default="0/40", help="I/N: every N-th test of a file, from I")
    parser.add_argument("--table", action="store_true", help="print what is there, run nothing")
    given = parser.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    repo = given.tensorflow_repo
    below = "tensorflow" if given.xla else KERNEL_TESTS
    root = repo.resolve() / below if repo else whole_keras(given.python, out)
    first, step = map(int, given.sample.split("/"))
    suite = TensorFlowSuite(root, out, given.platform, given.limit, first, step, given.python)
    folders = [XLA_TESTS] if given.xla else sorted(x.name for x in root.iterdir() if x.is_dir())
    files = given.names or (folders if repo else AREAS)
    for file in () if given.table else files:
        run(suite, file)
    tests = (r for file in files for r in counted(suite, file).values())
    print_report(table(suite, files), failures(suite, files), tests)


if __name__ == "__main__":
    main()
