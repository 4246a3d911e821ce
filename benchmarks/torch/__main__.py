"""PyTorch models under xladev beside eager torch and inductor, in turn in one process per model.

    python -m benchmarks.torch                                  inference, one thread
    python -m benchmarks.torch --what training --models gpt2,unet --threads 2
    python -m benchmarks.torch --compilers eager,xladev,inductor,max-autotune,freezing
    python -m benchmarks.torch --what losses --record losses.jsonl    goes on where it stopped
    python -m benchmarks.torch --what memory --models "wide mlp,gpt2 small"

Prints milliseconds per call (medians of rounds; processor time with one thread, wall time with
more), how many times as long the others take with a 95% interval, the processor time of first calls
(no caches), the largest difference of 20 losses from eager's (of an inference, of its mean square),
breaks of the graph, and what torch runs itself. `losses` runs 20 steps of AdamW and measures no
time: how far losses are from eager's, and eager's with two threads and in f64 from them. `memory`
trains in a process for each compiler: its peak and what it takes after a step, in megabytes over
those with torch imported, and what compiling leaves. With `--record`,
models whose rows the file holds are not run again. Needs torch, and transformers, torchvision and
timm for their models.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cpu.statistics import Ratio, ratio

ROOT = Path(__file__).parents[2]
LIMIT_S = 900


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--what", choices=("inference", "training", "losses", "memory"), default="inference"
    )
    parser.add_argument("--models", default="", help="names or families, separated by commas")
    parser.add_argument(
        "--compilers", default="", help="the first is the norm; eager,xladev,inductor"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--slice", type=float, default=0.1, help="seconds of each in a round")
    parser.add_argument("--record", type=Path, help="a file of rows as JSON, one a line")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    usual = "eager,aot_eager,xladev" if given.what == "memory" else "eager,xladev,inductor"
    given.compilers = (given.compilers or usual).split(",")
    return given


def chosen(names: str) -> list[str]:
    """The models that were asked for."""
    from benchmarks.torch.models import FAMILIES, MODELS

    wanted = names.split(",") if names else list(FAMILIES)
    found = [model for name in wanted for model in FAMILIES.get(name, {name: None})]
    unknown = [name for name in found if name not in MODELS]
    if unknown:
        sys.exit(f"no models of these names: {unknown}; there are {list(MODELS)}")
    return found


def run(model: str, *more: str) -> dict[str, Any]:
    """One model in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.torch", *sys.argv[1:], *more, "--child", model]
    try:
        made = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        return json.loads(made.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"model": model, "error": f"took more than {LIMIT_S} s"}
    except (IndexError, ValueError):
        return {"model": model, "error": f"exit status {made.returncode}: {made.stderr[-300:]}"}


def recorded(given: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Rows of the record that hold what is asked for, by model."""
    if not given.record or not given.record.exists():
        return {}
    rows = [json.loads(text) for text in given.record.read_text().splitlines()]
    return {
        row["model"]: row
        for row in rows
        if (row["what"], row["threads"]) == (given.what, given.threads)
        and (given.what == "losses" or set(given.compilers) <= set(row.get("compilers", ())))
    }


def header(given: argparse.Namespace) -> str:
    """The head of the table."""
    if given.what == "losses":
        return (
            "| model | off by | eager, two threads | eager, f64 | xladev, f64 | breaks | torch |\n"
            "|---|--:|--:|--:|--:|--:|---|"
        )
    return (
        f"{given.what}, {given.threads} thread(s), ms: times as long as xladev\n"
        f"| model | {' | '.join(given.compilers)} | first calls, s | off by | breaks | torch |\n"
        f"|---|{'--:|' * len(given.compilers)}--:|--:|--:|---|"
    )


def loss_line(row: Mapping[str, Any]) -> str:
    """A row of the table of losses."""
    if "error" in row:
        return f"| {row['model']} | {row['error']} |"
    cells = [apart(row[a], row[b]) for a, b in (
        ("xladev", "eager"), ("eager, two threads", "eager"), ("eager", "eager, f64"),
        ("xladev", "eager, f64"),
    )]  # fmt: skip
    shown = " | ".join(f"{value:.0e}" for value in cells)
    return f"| {row['model']} | {shown} | {row['breaks']} | {'; '.join(row['torch']) or 'none'} |"


MEMORY_HEADER = (
    "megabytes over those of the process with all imported\n"
    "| model | compiler | imported | weights | peak | of the process | without what is left "
    "| after a step | left | first step |\n"
    "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|"
)


def memory_lines(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows of one model, each beside the first."""
    lines = []
    for row in rows:
        if "error" in row:
            lines.append(f"| {row['model']} | {row['error']} |")
            continue
        norm = rows[0]
        whole, alone = (
            (row["peak"] + row[part] * sign) / (norm["peak"] + norm[part] * sign)
            for part, sign in (("imported", 1), ("left", -1))
        )
        lines.append(
            f"| {row['model']} | {row['compiler']} | {row['imported']:.0f} | {row['weights']:.0f} "
            f"| {row['peak']:.0f} | {whole:.2f} | {alone:.2f} | {row['steady']:.0f} "
            f"| {row['left']:.0f} | {row['first']:.0f} |"
        )
    return "\n".join(lines)


def show_memory(given: argparse.Namespace) -> None:
    """Prints the table of memory."""
    print(MEMORY_HEADER)
    for model in chosen(given.models):
        rows = [run(model, "--compilers", compiler) for compiler in given.compilers]
        print(memory_lines(rows), flush=True)


def apart(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The largest difference of losses, relative to those of more than 0.001."""
    pairs = zip(ours, theirs, strict=True)
    return max(abs(a - b) / max(abs(b), 1e-3) for a, b in pairs)


def line(row: Mapping[str, Any], compilers: Sequence[str]) -> str:
    """A row of the table."""
    if "error" in row:
        return f"| {row['model']} | {row['error']} |"
    found = row["compilers"]
    cells = [_cell(found[c], found.get("xladev"), c) for c in compilers]
    firsts = " / ".join(f"{found[c].get('first_s', float('nan')):.1f}" for c in compilers)
    ours = found.get("xladev", {})
    left = "; ".join(ours.get("torch", [])) or "none"
    return (
        f"| {row['model']} | {' | '.join(cells)} | {firsts} | {_difference(found, compilers)} "
        f"| {ours.get('breaks', '')} | {left} |"
    )


def _cell(found: Mapping[str, Any], ours: Mapping[str, Any] | None, name: str) -> str:
    if "error" in found:
        return found["error"].replace("\n", " ").replace("|", " ")
    ms = f"{statistics.median(found['times']) * 1e3:.3f}"
    if name == "xladev" or not ours or "times" not in ours:
        return ms
    return f"{ms}: {ratio(ours['times'], found['times'])}"


def _difference(found: Mapping[str, Any], compilers: Sequence[str]) -> str:
    """How far losses, or the mean square of an inference, are from the norm's."""
    ours, norm = (found.get(name, {}) for name in ("xladev", compilers[0]))
    if "losses" in ours and "losses" in norm:
        return f"{apart(ours['losses'], norm['losses']):.1e}"
    if "result" in ours and "result" in norm:
        return f"{abs(ours['result'] - norm['result']) / max(abs(norm['result']), 1):.1e}"
    return ""


def means(rows: Sequence[Mapping[str, Any]], compilers: Sequence[str]) -> str:
    """Geometric means of ratios, of medians and of first calls."""
    lines = []
    for name in compilers:
        if name == "xladev":
            continue
        pairs = [_pair(row, name) for row in rows]
        whole = [p for p in pairs if p is not None]
        if not whole:
            continue
        ratios = [r for r, _ in whole]
        values = statistics.geometric_mean(r.value for r in ratios)
        first = statistics.geometric_mean(f for _, f in whole)
        worst = min(ratios, key=lambda r: r.value)
        lines.append(
            f"{name} / xladev over {len(whole)} models: {values:.2f}; the least {worst}; "
            f"{sum(r.is_behind for r in ratios)} behind; first calls {first:.2f}"
        )
    return "\n".join(lines)


def _pair(row: Mapping[str, Any], name: str) -> tuple[Ratio, float] | None:
    found = row.get("compilers", {})
    ours, theirs = found.get("xladev", {}), found.get(name, {})
    if "times" not in ours or "times" not in theirs:
        return None
    return ratio(ours["times"], theirs["times"]), theirs["first_s"] / ours["first_s"]


def main() -> None:
    """See the module."""
    given = parse()
    if given.child:
        from benchmarks.torch.child import losses, measure, prepare_environment
        from benchmarks.torch.memory import measure_memory

        prepare_environment(given.threads)
        measured = {"losses": losses, "memory": measure_memory}.get(given.what, measure)
        print(json.dumps(measured(given.child, given)))
        return
    if given.what == "memory":
        show_memory(given)
        return
    print(header(given))
    known = recorded(given)
    rows = []
    for model in chosen(given.models):
        row = known.get(model) or {"what": given.what, "threads": given.threads, **run(model)}
        rows.append(row)
        print(loss_line(row) if given.what == "losses" else line(row, given.compilers), flush=True)
        if given.record and model not in known:
            with given.record.open("a") as file:
                file.write(json.dumps(row) + "\n")
    if given.what != "losses":
        print(means(rows, given.compilers))


if __name__ == "__main__":
    main()
