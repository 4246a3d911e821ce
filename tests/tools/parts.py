"""Runs a part of the tests marked `rotating`, so that ten commits together run all of them.

`--part=auto` (the default) takes part N mod 10, N being the number of commits up to HEAD: a hash of
the commit would visit only two thirds of the parts in ten commits, a count visits every one.
A test belongs to the part that a checksum of its id gives, so adding a test moves no other.
"""

import argparse
import subprocess
import zlib
from pathlib import Path

import pytest

PARTS = 10
ROOT = Path(__file__).parents[2]
CHOICES = ("auto", "all", "none", *map(str, range(PARTS)))


def add_options(parser: pytest.Parser) -> None:
    """Add --part and --only-rotating."""
    parser.addoption(
        "--part",
        default="auto",
        type=part_option,
        metavar="PART",
        help=f"which of {PARTS} parts of the rotating tests to run: auto (by commit), all, none, "
        "or numbers with commas",
    )
    parser.addoption(
        "--only-rotating", action="store_true", help="run no test but those of the chosen part"
    )


def part_option(text: str) -> str:
    """What --part may be.

    Raises:
        ArgumentTypeError: it is something else.
    """
    if text not in CHOICES and not set(text.split(",")) <= set(CHOICES[3:]):
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(CHOICES)}, nor several")
    return text


def describe(config: pytest.Config) -> str:
    """The header's line about the part that runs."""
    return f"part: {chosen(config.option.part)} of the rotating tests (--part={config.option.part})"


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop the items that the options do not ask for, in place."""
    part = chosen(config.option.part)
    keep, drop = [], []
    for item in items:
        wanted = _wanted(item, part, config.option.only_rotating)
        (keep if wanted else drop).append(item)
    items[:] = keep
    if drop:
        config.hook.pytest_deselected(items=drop)


def _wanted(item: pytest.Item, part: str, only_rotating: bool) -> bool:
    if item.get_closest_marker("rotating") is None:
        return not only_rotating
    return part == "all" or str(part_of(item.nodeid)) in part.split(",")


def part_of(nodeid: str) -> int:
    """The part that a test's id belongs to."""
    return zlib.crc32(nodeid.encode()) % PARTS


def chosen(option: str) -> str:
    """`option`, with "auto" resolved: the commit's part, or "0" where there is no history."""
    return str(commits() % PARTS) if option == "auto" else option


def commits() -> int:
    """How many commits there are up to HEAD; 0 where there is no history."""
    command = ["git", "rev-list", "--count", "HEAD"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return 0
    return int(done.stdout)
