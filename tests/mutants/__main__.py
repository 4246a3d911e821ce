"""Mutants of the backends, by hand: the conformance suite has to catch them.

    python -m tests.mutants map                 which case runs which line; 10 minutes, kept
    python -m tests.mutants mechanical          run the 300; goes on where it stopped
    python -m tests.mutants handmade            run the others; 8 minutes
    python -m tests.mutants mechanical --only ID [--deep]
    python -m tests.mutants mechanical --again survived

Writes tests/mutants/*.json; `python docs/gen/all.py` then writes docs/reference/mutants.md.
"""

import argparse
import json
import shutil
import sys
import time
from dataclasses import asdict, replace
from fnmatch import fnmatch

from tests.mutants.campaign import ROUNDS, Verdict, mutant_worker, run_site, traced
from tests.mutants.lines import CACHE, GOOD, PLATFORMS, known_results, load_map, map_path, save_map
from tests.mutants.results import HANDMADE, Entry, current, read_mechanical, write_mechanical
from tests.tools.must_pass import collected

DEEP = (8, 40, 250, 10_000)


def main() -> int:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description="mutants of the backends")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("map").add_argument("--platform", choices=PLATFORMS)
    one = commands.add_parser("mechanical")
    one.add_argument("--only", help="id of a mutant, or a pattern such as 'codegen/scalar/*'")
    one.add_argument("--deep", action="store_true", help="meet every case that runs the line")
    one.add_argument("--again", help="run those of this status once more")
    commands.add_parser("handmade").add_argument("--only", default="*")
    options = parser.parse_args()
    return COMMANDS[options.command](options)


def make_maps(options: argparse.Namespace) -> int:
    """Trace the suite, or cases that are new if the source is as it was."""
    suite = collected()
    for platform in [options.platform] if options.platform else PLATFORMS:
        results = [r for r in known_results(platform) if r["id"] in suite]
        names = sorted(suite.keys() - {r["id"] for r in results})
        with mutant_worker() as worker:
            for batch in traced(worker, platform, names):
                results += batch
                print(f"{platform}: {len(results)} of {len(suite)} cases", flush=True)
        save_map(platform, results)
        shutil.rmtree(CACHE / f"trace-{platform}", ignore_errors=True)
        bad = [r["id"] for r in results if r["status"] not in GOOD]
        print(f"{platform}: {len(bad)} cases are not good without any mutant: {bad[:9]}")
    return 0


def run_mechanical(options: argparse.Namespace) -> int:
    """Run the mutants that have no verdict yet, or those that are named."""
    missing = [p for p in PLATFORMS if not map_path(p).is_file()]
    if missing:
        print(f"no map of {missing}: python -m tests.mutants map")
        return 2
    maps = {p: load_map(p) for p in PLATFORMS}
    entries = {e.site.id: e for e in current(read_mechanical())}
    write_mechanical(list(entries.values()))
    with mutant_worker() as worker:
        for name, entry in sorted(entries.items()):
            if not _is_wanted(entry, options):
                continue
            known = maps[entry.site.platform]
            verdict = run_site(worker, entry.site, known, DEEP if options.deep else ROUNDS)
            entries[name] = Entry(entry.site, verdict)
            _say(name, f"{entry.site.before} -> {entry.site.after}", verdict)
            write_mechanical(list(entries.values()))
    counts: dict[str, int] = {}
    for entry in entries.values():
        status = "not run" if entry.verdict is None else entry.verdict.status
        counts[status] = counts.get(status, 0) + 1
    print(json.dumps(counts))
    return 0


def _is_wanted(entry: Entry, options: argparse.Namespace) -> bool:
    if options.only:
        return fnmatch(entry.site.id, options.only)
    if entry.verdict is None:
        return True
    return options.again in (entry.verdict.status, "all")


def _say(name: str, what: str, verdict: Verdict) -> None:
    by = f" by {verdict.case} after {verdict.met}" if verdict.case else f", {verdict.met} met"
    print(f"{verdict.status:9} {verdict.seconds:5.1f}s {name} [{what}]{by}", flush=True)


def run_handmade(options: argparse.Namespace) -> int:
    """Run the mutants written by hand; 1 if one was not caught, or the report did not name it."""
    from tests.mutants.handmade import MUTANTS, PLANTED, names_it, run

    rows = {row["name"]: row for row in json.loads(HANDMADE.read_text("utf-8"))}
    missed = count = 0
    with mutant_worker() as worker:
        for mutant in MUTANTS:
            if not fnmatch(mutant.name, options.only):
                continue
            start = time.monotonic()
            verdict = replace(run(worker, mutant), seconds=time.monotonic() - start)
            good = verdict.status == "caught" and names_it(mutant, verdict)
            missed += not good
            _say(mutant.name, verdict.detail[:150] if good else "MISSED", verdict)
            facts = {n: v for n, v in asdict(verdict).items() if n != "seconds"}
            head = {"name": mutant.name, "backend": mutant.backend, "planted": mutant in PLANTED}
            rows[mutant.name] = {**head, **facts}
            count += 1
    lines = ",\n".join(json.dumps(rows[m.name]) for m in MUTANTS if m.name in rows)
    HANDMADE.write_text(f"[\n{lines}\n]\n", "utf-8")
    print(f"{count - missed} of {count} caught, and named by the report")
    return 1 if missed else 0


COMMANDS = {"map": make_maps, "mechanical": run_mechanical, "handmade": run_handmade}

if __name__ == "__main__":
    sys.exit(main())
