"""Damages every byte of every kind of file that xladev keeps, in every way, and reads it.

    python -m tests.tools.fuzz_kept

Prints how many damaged files of each kind were read, which must be none; 1 if there was any.
"""

import sys
import tempfile
import time
from itertools import permutations
from pathlib import Path

from tests.fuzz.kept import Kept, damages, kept_files, serialized


def main() -> int:
    """Tries all of them."""
    with tempfile.TemporaryDirectory() as folder:
        files = [*kept_files(Path(folder)), serialized()]
        found = sum(map(_try, files))
        swaps = [(a, b) for a, b in permutations(files, 2) if a.read(b.data)]
    for one, other in swaps:
        print(f"FOUND {other.name} was read as {one.name}")
    return 1 if found or swaps else 0


def _try(file: Kept) -> int:
    """How many damages of a file went unseen."""
    start, count, found = time.monotonic(), 0, 0
    for what, data in damages(file.data):
        count += 1
        if file.read(data):
            found += 1
            print(f"FOUND {file.name}: {what}")
    took = time.monotonic() - start
    print(f"{file.name}, {len(file.data)} bytes: {count} damaged files, {found} read, {took:.0f} s")
    return found


if __name__ == "__main__":
    sys.exit(main())
