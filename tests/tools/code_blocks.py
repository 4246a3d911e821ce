"""Finds the code blocks of a Markdown page and makes one Python program of those that run.

`python` blocks run as they are. A `console` block becomes calls of the shell whose output must be
what the block shows, `...` standing for any text. `<!-- not run: WHY -->` on the line before a
block keeps it from running.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

FENCE = re.compile(r"^```(\S*)\s*$")
EXEMPT = re.compile(r"^<!-- not run: .+ -->$")
RUNS = ("python", "console")

CONSOLE = """\
import doctest, subprocess
for command, want in {commands!r}:
    done = subprocess.run(command, shell=True, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    if not doctest.OutputChecker().check_output(want, done.stdout, doctest.ELLIPSIS):
        message = f"$ {{command}}\\nshould print\\n{{want}}\\nand printed\\n{{done.stdout}}"
        raise AssertionError(message)
"""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its language, the line of its first line of code, and the code."""

    language: str
    line: int
    text: str
    exempt: bool


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a Markdown page, in order."""
    lines = page.split("\n")
    start = 0
    while start < len(lines):
        fence = FENCE.match(lines[start])
        if not fence:
            start += 1
            continue
        end = lines.index("```", start + 1)
        exempt = start > 0 and bool(EXEMPT.match(lines[start - 1]))
        yield Block(fence[1], start + 2, "\n".join(lines[start + 1 : end]) + "\n", exempt)
        start = end + 1


def program(page: str) -> str:
    """One program of all blocks that run; line numbers of `python` blocks are those of the page."""
    lines: list[str] = []
    for block in blocks(page):
        if block.language in RUNS and not block.exempt:
            lines += [""] * (block.line - 1 - len(lines))
            lines += _code(block).rstrip("\n").split("\n")
    return "\n".join(lines) + "\n" if lines else ""


def _code(block: Block) -> str:
    if block.language == "python":
        return block.text
    # exec, so that the page's line numbers stay right for the blocks that follow.
    return f"exec({CONSOLE.format(commands=commands(block.text))!r})"


def commands(text: str) -> list[tuple[str, str]]:
    """(command, output it must have) of a console block's text."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif found:
            found[-1] = (found[-1][0], f"{found[-1][1]}{line}\n")
    return found
