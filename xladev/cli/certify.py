"""`xladev certify`: issues a certificate, or verifies one."""

from __future__ import annotations

import argparse
from pathlib import Path

from xladev.cli.output import check_least
from xladev.errors import UsageError, printable
from xladev.testing.certificate.certificate import Certificate
from xladev.testing.certificate.issue import CERTIFICATE, IssueOutcome, issue
from xladev.testing.certificate.levels import LEVELS
from xladev.testing.certificate.statement import STATEMENT
from xladev.testing.certificate.verify import compare_installed, run_sample, verify_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.add_argument("name", nargs="?", help="platform, kind or device; not with --verify")
    names = ", ".join(f"{level.number} {level.name}" for level in LEVELS)
    parser.add_argument("--level", type=int, metavar="N", help=f"{names}; default: what it shows")
    parser.add_argument(
        "--out", type=Path, default=Path("certificate"), help="folder; default certificate"
    )
    parser.add_argument("--waivers", type=Path, help="what the backend declares about itself, TOML")
    parser.add_argument("--tighten", type=float, default=1.0, help="factor on tolerances, up to 1")
    parser.add_argument("--seed", type=int, default=0, help="of inputs; of the choice of a sample")
    parser.add_argument("--verify", type=Path, metavar="FILE", help="check this CERTIFICATE.json")
    parser.add_argument("--sample", type=int, metavar="N", help="with --verify: run N cases again")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes of the suite")
    parser.add_argument("--quiet", action="store_true", help="no output of the suite")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.verify is not None:
        return _verify(arguments)
    if arguments.name is None:
        raise UsageError("no platform was named", hint="xladev certify NAME")
    if arguments.sample is not None:
        raise UsageError("--sample goes with --verify", hint="xladev certify --verify FILE")
    check_least("--seed", arguments.seed, 0)
    if not 0 < arguments.tighten <= 1:
        raise UsageError(
            f"--tighten is {arguments.tighten}",
            why="it is above 0 and at most 1",
            hint="looser tolerances are waivers: --waivers FILE",
        )
    outcome = issue(
        arguments.name,
        arguments.level,
        arguments.out,
        seed=arguments.seed,
        tighten=arguments.tighten,
        waivers=arguments.waivers,
        quiet=arguments.quiet,
        jobs=arguments.jobs,
    )
    if outcome.certificate is None:
        _print_objections(outcome, arguments)
        return 1
    _print_certificate(outcome.certificate, arguments.out)
    _print_next(outcome)
    return 0


def _print_certificate(certificate: Certificate, folder: Path) -> None:
    print(certificate.statement)
    print(f"{folder / CERTIFICATE}, {folder / STATEMENT} written")


def _print_next(outcome: IssueOutcome) -> None:
    for step in outcome.next_steps:
        print(printable(f"next: {step}"))


def _print_objections(outcome: IssueOutcome, arguments: argparse.Namespace) -> None:
    print(f"no certificate of level {outcome.level.number}, {outcome.level.name}:")
    for objection in outcome.objections:
        print(f"  {objection}")
    print(f"the cases are in {arguments.out / 'conformance.json'}")
    if outcome.reached is not None:
        again = f"xladev certify {arguments.name} --level {outcome.reached.number}"
        print(f"level {outcome.reached.number}, {outcome.reached.name}, is reached: {again}")
    _print_next(outcome)


def _verify(arguments: argparse.Namespace) -> int:
    if arguments.name is not None or arguments.level is not None:
        raise UsageError("--verify takes platform and level from the certificate")
    certificate = verify_file(arguments.verify)
    print(certificate.statement)
    print("digest, suite, level and counts agree")
    print(printable(compare_installed(certificate)))
    if arguments.sample is None:
        print("nothing was run; --sample N runs N of its cases again")
        return 0
    sampled = run_sample(certificate, arguments.sample, arguments.seed)
    broken = [s for s in sampled if not s.holds]
    for s in broken:
        print(f"{s.case}: certified {s.certified}, now {s.found}")
    print(f"{len(sampled) - len(broken)} of {len(sampled)} cases hold (seed {arguments.seed})")
    return 1 if broken else 0
