"""The programs of XLA's own test of its SPMD partitioner, read out of the file that holds them.

The file is `spmd_partitioner_test.cc` of XLA; nothing of it stands here.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from xladev.hlo.ir import HloModule
from xladev.hlo.text import parse_module

_TEST = re.compile(r"^TEST_P\(\w+,\s*(\w+)\)", re.MULTILINE)
_TEXT = re.compile(r'R"\((.*?)\)"', re.DOTALL)
_COUNT = re.compile(r"PartitionComputation\(\s*\w+,\s*(?:/\*num_devices=\*/)?\s*(\d+)")


@dataclass(frozen=True)
class Case:
    """A program whose values are cut.

    Attributes:
        name: of the test, with a number where it has several programs.
        text: HLO.
        count: number of partitions.
    """

    name: str
    text: str
    count: int

    @property
    def module(self) -> HloModule:
        """The program, for as many partitions."""
        module = parse_module(self.text)
        return replace(module, header=replace(module.header, num_partitions=self.count))


def cases(path: Path) -> list[Case]:
    """The programs of a file, in order; those without a number of partitions are left out."""
    source = path.read_text("utf-8")
    starts = [m.start() for m in _TEST.finditer(source)]
    ends = [*starts[1:], len(source)]
    return [c for a, b in zip(starts, ends, strict=True) for c in _of_test(source[a:b])]


def _of_test(body: str) -> Iterator[Case]:
    named = _TEST.match(body)
    counts = [int(n) for n in _COUNT.findall(body)]
    if named is None or not counts:
        return
    for number, text in enumerate(_TEXT.findall(body)):
        suffix = f".{number}" if number else ""
        yield Case(named[1] + suffix, text, counts[min(number, len(counts) - 1)])
