"""Torch's operator database on xladev: every sample of every operator, compared with eager torch.

    python -m tests.tools.torch_ops                     all samples, float32, forward, on cpu
    python -m tests.tools.torch_ops --grad --dtype float64 --samples 3 --only softmax,sort

Operators run in a child process that is started again after a crash, without the cache on disk: no
program comes twice. Samples of an operator share programs; `--record FILE` keeps the
outcomes, and goes on where it stopped.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUTCOMES = {
    "pass": "all samples equal eager torch's, in programs alone",
    "host": "equal; a program leaves something to the host",
    "torch": "equal; torch itself runs something",
    "wrong": "another result",
    "error": "an exception",
    "crash": "the process ended, or took too long",
    "untraceable": "AOTAutograd cannot trace it",
    "none": "no samples of this dtype, or no gradient",
}
LIMIT_S = 1800
"""Seconds after which an operator counts as a crash."""


@dataclass
class Row:
    """The outcome of one entry of the database."""

    name: str
    outcome: str
    samples: int = 0
    detail: str = ""
    seconds: float = 0.0


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--platform", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--grad", action="store_true", help="gradients too")
    parser.add_argument("--samples", type=int, default=0, help="first samples of each; 0: all")
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--part", default="", help="N/M: one part of M")
    parser.add_argument("--record", type=Path, help="file of outcomes, one JSON object a line")
    parser.add_argument("--failed", action="store_true", help="print all that did not pass")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def chosen(names: list[str], options: argparse.Namespace) -> list[str]:
    """The entries that the options ask for."""
    if options.only:
        wanted = set(options.only.split(","))
        return [n for n in names if n in wanted or n.split(":")[0] in wanted]
    if options.part:
        number, count = map(int, options.part.split("/"))
        return names[number::count]
    return names


def run(options: argparse.Namespace) -> list[Row]:
    """All outcomes; a crash takes one entry with it."""
    done = recorded(options.record)
    left = [n for n in chosen(_names(options), options) if n not in done]
    rows = dict(done)
    while left:
        for row in _child(left, options):
            rows[row.name] = row
            if options.record:
                with options.record.open("a") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
        left = [n for n in left if n not in rows]
    return list(rows.values())


def recorded(path: Path | None) -> dict[str, Row]:
    """What a file of outcomes says, by name."""
    if path is None or not path.is_file():
        return {}
    rows = (Row(**json.loads(line)) for line in path.read_text().splitlines())
    return {row.name: row for row in rows}


def _names(options: argparse.Namespace) -> list[str]:
    from tests.tools.torch_samples import entries

    return list(entries(options.dtype))


def _child(names: list[str], options: argparse.Namespace) -> Iterator[Row]:
    """Rows of one process, the last one being that which ended it."""
    command = [sys.executable, "-m", "tests.tools.torch_ops", "--child",
               f"--platform={options.platform}", f"--dtype={options.dtype}",
               f"--samples={options.samples}", *(["--grad"] if options.grad else [])]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.DEVNULL, env={**os.environ, "XLADEV_CACHE": "off"},
    )  # fmt: skip
    assert process.stdin and process.stdout
    for name in names:
        process.stdin.write(f"{name}\n")
    process.stdin.close()
    for name in names:
        line = process.stdout.readline()
        if not line:
            yield Row(name, "crash", detail=f"exit status {process.wait()}")
            return
        yield Row(**json.loads(line))
    process.wait()


def serve(options: argparse.Namespace) -> None:
    """The child: reads names, writes rows."""
    import faulthandler

    from tests.tools.torch_samples import entries, judge

    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    table = entries(options.dtype)
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
    judged = sum(counts[o] for o in ("pass", "host", "torch", "wrong", "error", "crash"))
    lines = [
        f"{counts[name]:5} {name:12} {what}" for name, what in OUTCOMES.items() if counts[name]
    ]
    lines.append(
        f"{counts['pass']} of {judged} pass ({100 * counts['pass'] / max(judged, 1):.1f}%)"
    )
    if failed:
        lines += [f"{r.outcome:12} {r.name}: {r.detail}" for r in rows if r.outcome != "pass"]
    return "\n".join(lines)


def main() -> None:
    """Runs the database, or a child of it."""
    options = parse()
    if options.child:
        serve(options)
    else:
        print(table(run(options), failed=options.failed or bool(options.only)))


if __name__ == "__main__":
    main()
