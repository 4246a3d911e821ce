"""Runs StableHLO's cases on a platform and prints what passed, opcode by opcode.

python -m tests.tools.stablehlo_cases --platform cpu [--text] [--filter REGEX] [--quiet]
"""

import argparse
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.conftest import CASES_ZIP, unzipped
from tests.tools.cases import Case
from xladev.errors import XladevError
from xladev.hlo.opset import OPSET


@dataclass
class Tally:
    """What came out so far."""

    passed: Counter[str] = field(default_factory=Counter)
    total: Counter[str] = field(default_factory=Counter)
    problems: dict[str, str] = field(default_factory=dict)
    cases: int = 0

    def add(self, case: Case, opcodes: set[str], problem: str) -> None:
        """Counts one case for each opcode of its module."""
        self.cases += 1
        self.total.update(opcodes)
        if problem:
            self.problems[case.name] = problem
        else:
            self.passed.update(opcodes)


def run_case(case: Case, platform: str, suffix: str) -> tuple[set[str], str]:
    """The opcodes of a case's module, and what is wrong with its results."""
    opcodes: set[str] = set()
    try:
        module = case.module(suffix)
        opcodes = {i.opcode for c in module.computations for i in c.instructions}
        return opcodes, case.problem(platform, suffix)
    except XladevError as e:
        return opcodes, str(e).replace("\n", " ")
    except Exception as e:  # noqa: BLE001 (a bug of xladev is a failed case, not the end of the run)
        return opcodes, f"{type(e).__name__}: {e}"


def show(tally: Tally) -> None:
    """Prints the table and the opcodes that no case has."""
    for opcode in OPSET:
        if tally.total[opcode]:
            print(f"{opcode:28} {tally.passed[opcode]:5} of {tally.total[opcode]}")
    print("no case:", ", ".join(o for o in OPSET if not tally.total[o]))


def main() -> int:
    """Run the cases; 1 if one failed."""
    parser = argparse.ArgumentParser(description="run StableHLO's cases on a platform")
    parser.add_argument("--platform", default="interpreter")
    parser.add_argument("--text", action="store_true", help="read module.hlo, not module.pb")
    parser.add_argument("--filter", default="", help="regular expression of case names")
    parser.add_argument("--quiet", action="store_true", help="no table")
    options = parser.parse_args()
    folders = sorted(p for p in unzipped(CASES_ZIP).iterdir() if re.search(options.filter, p.name))
    tally, start = Tally(), time.monotonic()
    for folder in folders:
        case = Case(folder)
        opcodes, problem = run_case(case, options.platform, "hlo" if options.text else "pb")
        tally.add(case, opcodes, problem)
        if problem:
            print(f"FAILED {case.name}: {problem}", flush=True)
    if not options.quiet:
        show(tally)
    good, seconds = tally.cases - len(tally.problems), time.monotonic() - start
    print(f"{good} of {tally.cases} cases passed in {seconds:.1f} s")
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
