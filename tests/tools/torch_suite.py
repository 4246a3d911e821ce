"""Runs torch's own device tests on a device of xladev, beside torch's CPU.

    python -m tests.tools.torch_suite --torch-repo ../pytorch test_view_ops test_indexing
    python -m tests.tools.torch_suite --torch-repo ../pytorch --sample 3/20 --platform interpreter
    python -m tests.tools.torch_suite --torch-repo ../pytorch --again  # what failed
    python -m tests.tools.torch_suite --torch-repo ../pytorch --table

The checkout is not part of this repository and is not built; its version may differ from that of
the torch installed, as far as torch's `testing._internal` runs it. The sample is every N-th test of
a file. It runs on torch's CPU first; what passes there runs on the device, which is registered for
PrivateUse1. Each record says what ran on the host. Crashes, time limits, results: as `jax_suite`.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from tests.tools.jax_suite import ROOT, Suite, collect, print_report, results, run_tests
from tests.tools.torch_suite_worker import DEVICE, PLATFORM, SINK

HOST = "host"
"""In place of a platform: torch's CPU, without xladev."""
FILES = (
    "test_view_ops", "test_indexing", "test_tensor_creation_ops", "test_shape_ops",
    "test_type_promotion", "test_sort_and_select", "test_reductions", "test_unary_ufuncs",
    "test_binary_ufuncs", "test_torch", "test_ops", "test_modules", "test_nn", "test_autograd",
)  # fmt: skip
_SUFFIX = re.compile(rf"(CPU|PRIVATEUSE1|{DEVICE.upper()})(?=::)")
_PART = re.compile(rf"_(cpu|{DEVICE})(?=_|$)")


@dataclass(frozen=True, slots=True)
class TorchSuite(Suite):
    """See `Suite`."""

    plugin: ClassVar[str] = "tests.tools.torch_suite_worker"

    def path(self, file: str) -> str:
        """Where a test file is in the checkout."""
        return f"test/{file}.py"

    def environment(self, log: Path) -> dict[str, str]:
        """Variables of a worker."""
        is_host = self.platform == HOST
        paths = [str(ROOT), str(self.repo / "test")]
        return os.environ | {
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTORCH_TESTING_DEVICE_ONLY_FOR": "cpu" if is_host else "privateuse1",
            "PYTEST_ADDOPTS": f"--noconftest -Wignore -c {os.devnull} --rootdir={self.repo}",
            PLATFORM: "" if is_host else self.platform,
            SINK: str(log),
        }


def device_tests(suite: TorchSuite, file: str) -> list[str]:
    """Tests of a file that torch makes for a device; the others run alike everywhere."""
    return [test for test in collect(suite, file) if _SUFFIX.search(test)]


def plain_name(test: str) -> str:
    """A test's name, without the device's."""
    return _PART.sub("", _SUFFIX.sub("", test))


def run(suite: TorchSuite, file: str) -> None:
    """A sample of a file on torch's CPU, and what passes there on the device."""
    host = replace(suite, platform=HOST)
    run_tests(host, file, device_tests(host, file))
    ours = {plain_name(t): t for t in device_tests(replace(suite, first=0, step=1), file)}
    passing = (plain_name(t) for t, r in results(host.log(file)).items() if r["state"] == "passed")
    run_tests(suite, file, [ours[name] for name in passing if name in ours])


def run_again(suite: TorchSuite, file: str) -> None:
    """What failed on the device, once more."""
    failed = list(failures(suite, [file]))
    log = suite.log(file)
    kept = [r for test, r in results(log).items() if test not in failed]
    log.write_text("".join(json.dumps(record) + "\n" for record in kept))
    run_tests(suite, file, failed)


def counted(suite: TorchSuite, file: str) -> dict[str, dict[str, Any]]:
    """Tests that pass on torch's CPU and were not skipped on the device."""
    ours = results(suite.log(file))
    return {t: r for t, r in ours.items() if r["state"] not in ("begin", "skipped")}


def failures(suite: TorchSuite, files: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Those that count and do not pass."""
    found = {t: r for file in files for t, r in counted(suite, file).items()}
    return {t: r for t, r in found.items() if r["state"] != "passed"}


def table(suite: TorchSuite, files: Sequence[str]) -> Iterator[str]:
    """Lines of Markdown: tests that pass on torch's CPU, and what they do on the device."""
    yield f"| file | pass on the host | skipped | ran on `{suite.platform}` | pass | share | on the host in part |"  # noqa: E501
    yield "|---|--:|--:|--:|--:|--:|--:|"
    rows = {file: _row(suite, file) for file in files}
    rows["all"] = tuple(map(sum, zip(*rows.values(), strict=True)))
    for file, (expected, skipped, ran, passed, fell) in rows.items():
        share = f"{100 * passed / ran:.1f} %" if ran else "-"
        yield f"| `{file}` | {expected} | {skipped} | {ran} | {passed} | {share} | {fell} |"


def _row(suite: TorchSuite, file: str) -> tuple[int, ...]:
    on_host = results(replace(suite, platform=HOST).log(file)).values()
    expected = sum(record["state"] == "passed" for record in on_host)
    skipped = sum(r["state"] == "skipped" for r in results(suite.log(file)).values())
    records = counted(suite, file).values()
    passed = [r for r in records if r["state"] == "passed"]
    return expected, skipped, len(records), len(passed), sum(bool(r["on_host"]) for r in passed)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", default=FILES, metavar="FILE")
    parser.add_argument("--torch-repo", type=Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--platform", default="interpreter")
    parser.add_argument("--out", type=Path, default=ROOT / "build/torch-suite")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for one test")
    parser.add_argument("--sample", default="0/1", help="I/N: every N-th test of a file, from I")
    parser.add_argument("--again", action="store_true", help="run what failed on the device")
    parser.add_argument("--table", action="store_true", help="print what is there, run nothing")
    given = parser.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    first, step = map(int, given.sample.split("/"))
    repo = given.torch_repo.resolve()
    suite = TorchSuite(repo, out, given.platform, given.limit, first, step, given.python)
    for file in () if given.table else given.files:
        (run_again if given.again else run)(suite, file)
    tests = (r for file in given.files for r in counted(suite, file).values())
    print_report(table(suite, given.files), failures(suite, given.files), tests)


if __name__ == "__main__":
    main()
