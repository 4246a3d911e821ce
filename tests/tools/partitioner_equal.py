"""XLA's test programs of its partitioner, divided, run with poisoned padding and held to the whole.

    python -m tests.tools.partitioner_equal spmd_partitioner_test.cc
    python -m tests.tools.partitioner_equal spmd_partitioner_test.cc --only NAME

Programs with large arrays are made smaller first: a size is divided wherever the text has it, as
long as the program stays valid and parts keep their padding or have none. Each program runs in a
child process. The exit status is 1 if one differs.
"""

import argparse
import math
import multiprocessing
import re
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from tests.tools.partitioner_cases import Case, cases
from tests.unit.passes.spmd.sharded_programs import check
from xladev.errors import ArgumentError, EvaluationError, UnsupportedError, XladevError
from xladev.hlo.shape import flattened_shapes
from xladev.hlo.verifier import verify
from xladev.testing.random_inputs import random_arguments

LIMIT_S = 120
"""Seconds of processor time of one program."""
MOST = 1 << 20
"""Elements, and terms of a product, that a program made smaller should have at most."""
_LEAST = 2
_KEPT = re.compile(r"sharding=\{(?:[^{}]|\{[^{}]*\})*\}|\w*dim\w*=(?:\{[^{}]*\}|\d+)")
_TILE = re.compile(r"devices=\[([\d,]+)\]")
_NUMBER = re.compile(r"(?<![\w.%\-])\d+(?![\w.])|(?<=size=)\d+|(?<=\dx)\d+(?=[x ])")


def smaller(case: Case) -> Case:
    """The program with less work; the same if it is small, or cannot be made smaller."""
    now, work = case, _work(case)
    for several, by in ((0, 2), (1, 2), (2, 2), (3, 2), (1, 5), (2, 5), (1, 3), (2, 3), (1, 11)):
        progress = True
        while progress and work > MOST:
            progress = False
            sizes = _sizes(now)
            for some in combinations(sizes, several) if several else [tuple(sizes)]:
                tried = _divided(now, some, by)
                less = _work(tried) if tried else work
                if tried and less < work:
                    now, work, progress = tried, less, True
                    break
    return now


def _sizes(case: Case) -> list[int]:
    """Sizes of dimensions, the largest first."""
    found = {int(n) for group in re.findall(r"\w\[([\d,]+)\]", case.text) for n in group.split(",")}
    return sorted((n for n in found if n >= 2 * _LEAST), reverse=True)


def _divided(case: Case, sizes: Sequence[int], by: int) -> Case | None:
    """The program with a share of some sizes; None where parts would get padding, or lose it."""
    parts = {int(n) for tile in _TILE.findall(case.text) for n in tile.split(",")} - {1}
    if any((n % p == 0) != (-(-n // by) % p == 0) for n in sizes for p in parts):
        return None
    made = {str(n): str(-(-n // by)) for n in sizes}
    pieces, at = [], 0
    for kept in _KEPT.finditer(case.text):
        pieces += [_changed(case.text[at : kept.start()], made), kept[0]]
        at = kept.end()
    tried = replace(case, text="".join([*pieces, _changed(case.text[at:], made)]))
    try:
        verify(tried.module)
    except XladevError:
        return None
    return tried


def _changed(text: str, made: dict[str, str]) -> str:
    return _NUMBER.sub(lambda m: made.get(m[0], m[0]), text)


def _work(case: Case) -> int:
    """Elements of the largest array, or terms of the largest product."""
    return max(_terms(case), default=0)


def _terms(case: Case) -> Iterator[int]:
    for c in case.module.computations:
        for i in c.instructions:
            size = max((s.size for s in flattened_shapes(i.shape) if s.is_array), default=0)
            yield size
            if i.opcode == "sort":  # the evaluator calls the comparison for each pair
                yield size * 1024
            if i.opcode == "dot":
                summed = [i.operands[0].shape.dims[d] for d in i["lhs_contracting_dims"]]
                yield size * math.prod(summed) // 64
            if i.opcode == "convolution":
                kernel = i.operands[1].shape
                features = kernel.dims[i["dim_labels"].kernel_output_feature]
                yield size * kernel.size // features // 64


def outcome(case: Case) -> str:
    """``equal``, or what went wrong."""
    began = time.monotonic()
    try:
        small = smaller(case)
        module = small.module
        check(module, random_arguments(module, 1), case.count)
    except UnsupportedError as error:
        return f"refused: {str(error).splitlines()[2].strip()}"
    except (ArgumentError, EvaluationError) as error:  # calls nobody knows, manual regions
        return f"not evaluated: {str(error).splitlines()[0]}"
    except Exception as error:  # noqa: BLE001 - every failure is counted
        at = traceback.extract_tb(error.__traceback__)[-1]
        return f"different: {type(error).__name__} at {at.name}: {str(error)[:300]}"
    is_smaller = "" if small.text == case.text else " (made smaller)"
    return f"equal{is_smaller}: {time.monotonic() - began:.1f} s"


def _limited(case: Case) -> str:
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, LIMIT_S)
    return outcome(case)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("file", type=Path, help="spmd_partitioner_test.cc")
    parser.add_argument("--only", default="", help="names with this in them")
    given = parser.parse_args()
    kinds: Counter[str] = Counter()
    context = multiprocessing.get_context("fork")
    for case in cases(given.file):
        if given.only not in case.name:
            continue
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=lambda c, s: s.send(_limited(c)), args=(case, sender))
        child.start()
        sender.close()
        try:
            told = receiver.recv()
        except EOFError:
            told = f"slow: more than {LIMIT_S} s, or too large"
        child.join()
        kinds[told.partition(":")[0]] += 1
        print(f"{case.name} ({case.count}): {told}", flush=True)
    print(", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())))
    return int(bool(kinds["different"]))


if __name__ == "__main__":
    sys.exit(main())
