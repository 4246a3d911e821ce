"""Runs JAX's own tests on an xladev platform, and compares with JAX's own CPU.

    python -m tests.tools.jax_suite --jax-repo ../jax lax_test linalg_test
    python -m tests.tools.jax_suite --jax-repo ../jax --shard 3/10
    python -m tests.tools.jax_suite --jax-repo ../jax --platform cpu --failed-on xladev_cpu
    python -m tests.tools.jax_suite --jax-repo ../jax --table

The checkout is not part of this repository; its version should be that of the jax installed. Each
test has a time limit and may crash without harm: a worker runs one after another and is started
again behind one that hangs or dies. Results are kept in ``--out``, one file per test file and
platform, so that a run goes on where it stopped, and shards add up. A test that JAX's own CPU did
not run counts as one that it passes. Tests are told that they run on a CPU: many others than those
that need one would not run on a platform that they do not know.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

ROOT = Path(__file__).parents[2]
FILES = (
    "lax_test", "lax_numpy_test", "lax_numpy_reducers_test", "lax_numpy_operators_test",
    "lax_numpy_indexing_test", "nn_test", "random_lax_test", "lax_control_flow_test",
    "lax_autodiff_test", "linalg_test", "fft_test", "api_test", "array_test", "dtypes_test",
)  # fmt: skip
OWN = "cpu"
_POLL_S = 0.5
_START_S = 400.0
_NOT_COLLECTED = re.compile(r"^(?:ERROR .*|E  .*Error: .*)\n", re.M)
_REASON = re.compile(r"^(?:E +)?([\w.]*(?:Error|Exception|Failure)\b.*|Mismatch.*)$", re.M)


@dataclass(frozen=True, slots=True)
class Suite:
    """What is run, where, and with which limits.

    Attributes:
        repo: JAX's checkout.
        out: folder of results.
        platform: what JAX_PLATFORMS says first.
        limit_s: seconds that one test may take.
        first: number of the first test that is run.
        step: every so many tests one is run.
        python: an interpreter with jax, pytest and xladev.
    """

    repo: Path
    out: Path
    platform: str
    limit_s: float
    first: int
    step: int
    python: str
    plugin: ClassVar[str] = "tests.tools.jax_suite_worker"

    def path(self, file: str) -> str:
        """Where a test file is in the checkout."""
        return f"tests/{file}.py"

    def log(self, file: str) -> Path:
        """Where results of a test file are kept."""
        return self.out / f"{file}.{self.platform}.jsonl"

    def environment(self, log: Path) -> dict[str, str]:
        """Variables of a worker."""
        platforms = self.platform if self.platform == OWN else f"{self.platform},{OWN}"
        paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        return os.environ | {
            "JAX_PLATFORMS": platforms,
            "PYTHONPATH": os.pathsep.join(paths),
            "XLADEV_JAX_SUITE_LOG": str(log),
        }


def results(log: Path) -> dict[str, dict[str, Any]]:
    """The last state of each test of a log; one that only began has state ``begin``."""
    lines = log.read_text().splitlines() if log.exists() else []
    return {record["test"]: record for record in map(json.loads, lines)}


def collect(suite: Suite, file: str) -> list[str]:
    """The tests of a file that belong to the shard; names may differ between platforms."""
    kept = suite.log(file).with_suffix(".tests")
    if not kept.exists():
        pytest = [suite.python, "-m", "pytest", "-q", "-p", suite.plugin]
        command = [*pytest, "--collect-only", suite.path(file)]
        environment = suite.environment(suite.out / "unused")
        done = subprocess.run(
            command, cwd=suite.repo, env=environment, capture_output=True, text=True
        )
        found = [line for line in done.stdout.splitlines() if "::" in line]
        if not found:
            raise SystemExit(f"no tests in {file}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        print(*_NOT_COLLECTED.findall(done.stdout), sep="", end="", file=sys.stderr)
        kept.write_text("\n".join(found))
    return kept.read_text().splitlines()[suite.first :: suite.step]


def run_tests(suite: Suite, file: str, tests: Sequence[str]) -> None:
    """Runs those that have no result yet."""
    log = suite.log(file)
    while left := [t for t in tests if t not in results(log)]:
        _run_worker(suite, log, left)
        _close_open_test(log, "crashed")


def _run_worker(suite: Suite, log: Path, tests: Sequence[str]) -> None:
    """Runs tests until the end, a crash, or one that takes too long."""
    listing = log.with_suffix(".todo")
    listing.write_text("\n".join(tests))
    command = [
        suite.python, "-X", "faulthandler", "-m", "pytest", "-q", "-x", "--maxfail=1000000",
        "-p", suite.plugin, "-p", "no:cacheprovider", f"@{listing.resolve()}",
    ]  # fmt: skip
    before = len(results(log))
    with log.with_suffix(".output").open("w") as output:
        worker = subprocess.Popen(
            command, cwd=suite.repo, env=suite.environment(log.resolve()),
            stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        _watch(suite, log, worker)
    if len(results(log)) == before:
        raise SystemExit(f"no test began; see {log.with_suffix('.output')}")


def _watch(suite: Suite, log: Path, worker: "subprocess.Popen[bytes]") -> None:
    started = time.time()
    while worker.poll() is None:
        time.sleep(_POLL_S)
        last = _last_record(log)
        begun = last["at"] if last and last["state"] == "begin" else None
        since = time.time() - (begun or time.time())
        if since > suite.limit_s or (last is None and time.time() - started > _START_S):
            worker.kill()
            worker.wait()
            _close_open_test(log, "timed out")


def _last_record(log: Path) -> dict[str, Any] | None:
    if not log.exists():
        return None
    lines = log.read_text().splitlines()
    try:
        return json.loads(lines[-1]) if lines else None
    except ValueError:
        return None  # being written


def _close_open_test(log: Path, state: str) -> None:
    """Gives the test that was running when the worker ended a result."""
    last = _last_record(log)
    if last is not None and last["state"] == "begin":
        with log.open("a") as file:
            record = {"test": last["test"], "state": state, "seconds": 0.0, "why": state}
            file.write(json.dumps(record) + "\n")


# What came out


def table(suite: Suite, files: Sequence[str]) -> Iterator[str]:
    """A line for each file: of the tests that JAX's own CPU passes, how many pass here."""
    yield f"{'file':28} {'JAX CPU':>8} {suite.platform:>14} {'share':>7}"
    all_good = all_expected = 0
    for file in files:
        expected, good = counts(suite, file)
        all_good, all_expected = all_good + good, all_expected + expected
        yield f"{file:28} {expected:8} {good:14} {_share(good, expected):>7}"
    yield f"{'all':28} {all_expected:8} {all_good:14} {_share(all_good, all_expected):>7}"


def counts(suite: Suite, file: str) -> tuple[int, int]:
    """Of a file's tests that ran here, how many pass on JAX's CPU, and how many of these here."""
    expected = _expected(suite, file)
    ours = results(suite.log(file))
    passed = sum(ours[test]["state"] == "passed" for test in expected)
    return len(expected), passed


def _expected(suite: Suite, file: str) -> list[str]:
    """Tests that ran here and that JAX's own CPU passes, as far as it ran them."""
    own = results(suite.out / f"{file}.{OWN}.jsonl")
    refused = {t for t, record in own.items() if record["state"] != "passed"}
    ours = results(suite.log(file))
    return [t for t, r in ours.items() if r["state"] != "skipped" and t not in refused]


def failures(suite: Suite, file: str) -> dict[str, dict[str, Any]]:
    """Those of JAX's CPU that do not pass here."""
    ours = results(suite.log(file))
    return {t: ours[t] for t in _expected(suite, file) if ours[t]["state"] != "passed"}


def reason(record: dict[str, Any]) -> str:
    """One line that says why a test failed, without numbers, so that alike ones are counted."""
    found = _REASON.findall(record["why"]) or record["why"].strip().splitlines()[-1:]
    return re.sub(r"\d+", "N", found[0])[:160] if found else record["state"]


def on_host(tests: Iterable[dict[str, Any]]) -> Counter[str]:
    """In how many tests each operator ran on the host."""
    return Counter(op for record in tests for op in record.get("on_host", ()))


def print_report(
    lines: Iterable[str], failed: dict[str, dict[str, Any]], tests: Iterable[dict[str, Any]]
) -> None:
    """Prints a table, the causes of failures by frequency, and the host's operators."""
    print("\n".join(lines))
    print(f"\n{len(failed)} fail:")
    for text, count in Counter(map(reason, failed.values())).most_common():
        print(f"{count:5}  {text}")
    print("\n".join(f"       {test}" for test in failed))
    print("\noperators on the host, and in how many tests:")
    for op, count in on_host(tests).most_common():
        print(f"{count:5}  {op}")


def _share(good: int, expected: int) -> str:
    return f"{100 * good / expected:.2f}%" if expected else "-"


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="*", default=FILES, metavar="FILE")
    parser.add_argument("--jax-repo", type=Path, required=True)
    parser.add_argument("--platform", default="xladev_cpu")
    parser.add_argument("--out", type=Path, default=ROOT / "build/jax-suite")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one test")
    parser.add_argument("--shard", default="0/1", help="I/N: every N-th test of a file, from I")
    parser.add_argument("--failed-on", metavar="PLATFORM", help="run those that failed there")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--table", action="store_true", help="print what is there, run nothing")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    first, step = map(int, given.shard.split("/"))
    out = given.out.resolve()
    suite = Suite(given.jax_repo, out, given.platform, given.limit, first, step, given.python)
    other = replace(suite, platform=given.failed_on) if given.failed_on else None
    for file in () if given.table else given.files:
        tests = list(failures(other, file)) if other else collect(suite, file)
        run_tests(suite, file, tests)
    print("\n".join(table(suite, given.files)))
    why = Counter(reason(r) for f in given.files for r in failures(suite, f).values())
    print("\n".join(f"{count:5}  {text}" for text, count in why.most_common(60)))


if __name__ == "__main__":
    main()
