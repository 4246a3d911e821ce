"""Torch's databases of modules, optimisers and operators on a device of xladev, beside the host.

    python -m tests.tools.torch_device --what modules         all inputs, forward and backward
    python -m tests.tools.torch_device --what optimisers      all options, five steps each
    python -m tests.tools.torch_device --samples 1            operators' first samples, float32
    python -m tests.tools.torch_device --grad --only softmax,sort --record FILE

Cases run in a child process that is started again after a crash; ``--record`` keeps the outcomes,
and goes on where it stopped.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tests.tools.torch_ops import Row, chosen, recorded

ROOT = Path(__file__).parents[2]
OUTCOMES = {
    "pass": "equal to the host's, in programs alone",
    "host": "equal; torch's kernels of the host ran something",
    "wrong": "another result",
    "error": "an exception",
    "crash": "the process ended, or took too long",
    "none": "no samples of this dtype, or no gradient",
}
LIMIT_S = 300
"""Seconds after which a case counts as a crash."""


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--what", default="operators",
                        choices=("operators", "modules", "optimisers"))  # fmt: skip
    parser.add_argument("--platform", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--grad", action="store_true", help="gradients of operators too")
    parser.add_argument("--samples", type=int, default=0, help="first samples of each; 0: all")
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--part", default="", help="N/M: one part of M")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no case after so long")
    parser.add_argument("--record", type=Path, help="file of outcomes, one JSON object a line")
    parser.add_argument("--failed", action="store_true", help="print all that did not pass")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def run(options: argparse.Namespace) -> list[Row]:
    """All outcomes; a crash takes one case with it."""
    from tests.tools.torch_device_cases import cases

    end = time.monotonic() + options.seconds
    rows = recorded(options.record)
    names = chosen(list(cases(options.what, options.dtype)), options)
    left = [n for n in names if n not in rows]
    while left and time.monotonic() < end:
        for row in _child(left, options):
            rows[row.name] = row
            if options.record:
                with options.record.open("a") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
            if time.monotonic() > end:
                break
        left = [n for n in left if n not in rows]
    return list(rows.values())


def _child(names: list[str], options: argparse.Namespace) -> Iterator[Row]:
    """Rows of one process, the last one being that which ended it."""
    command = [sys.executable, "-m", "tests.tools.torch_device", "--child",
               f"--platform={options.platform}", f"--dtype={options.dtype}",
               f"--what={options.what}", f"--samples={options.samples}",
               *(["--grad"] if options.grad else [])]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL, env={**os.environ, "XLADEV_CACHE": "off"},
    )  # fmt: skip
    assert process.stdin and process.stdout
    try:
        for name in names:
            process.stdin.write(f"{name}\n")
            process.stdin.flush()
            line = process.stdout.readline()
            if not line:
                yield Row(name, "crash", detail=f"exit status {process.wait()}")
                return
            yield Row(**json.loads(line))
    finally:
        process.kill()
        process.wait()


def serve(options: argparse.Namespace) -> None:
    """The child: reads names, writes rows."""
    import faulthandler

    import torch

    import xladev.torch
    from tests.tools.torch_device_cases import cases, judge

    torch.set_num_threads(1)
    xladev.torch.register("npu", platform=options.platform, random_of_host=True)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    table = cases(options.what, options.dtype)
    for line in sys.stdin:
        name = line.strip()
        faulthandler.dump_traceback_later(LIMIT_S, exit=True)
        start = time.process_time()
        row = Row(name, *judge(table[name], options))
        row.seconds = round(time.process_time() - start, 2)
        out.write(json.dumps(asdict(row)) + "\n")
        out.flush()


def table(rows: list[Row], *, failed: bool) -> str:
    """The outcomes, counted, with those that did not pass."""
    counts = Counter(row.outcome for row in rows)
    judged = len(rows) - counts["none"]
    lines = [
        f"{counts[name]:5} {name:12} {what}" for name, what in OUTCOMES.items() if counts[name]
    ]
    equal = counts["pass"] + counts["host"]
    lines.append(f"{equal} of {judged} equal the host's ({100 * equal / max(judged, 1):.1f}%)")
    if failed:
        lines += [f"{r.outcome:6} {r.name}: {r.detail}" for r in rows if r.outcome != "pass"]
    return "\n".join(lines)


def main() -> None:
    """Runs a database, or a child of it."""
    options = parse()
    if options.child:
        serve(options)
    else:
        print(table(run(options), failed=options.failed or bool(options.only)))


if __name__ == "__main__":
    main()
