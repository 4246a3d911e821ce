"""Finds the code blocks of a Markdown page and makes one Python program of those that run.

`python` blocks run as they are. A `console` block becomes calls of the shell whose output must be
what the block shows, `...` standing for any text; `cd FOLDER` holds for all that follows. The line
before a block may say something else:

    <!-- not run: WHY -->         it is left out
    <!-- file: PATH -->           it is written to a file
    <!-- more of file: PATH -->   it is added to a file
    <!-- in file: PATH -->        it must be what the file holds
    <!-- methods in file: PATH -->  methods of its class replace those of the file's first class
    <!-- imports in file: PATH -->  it is put after the file's imports
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

FENCE = re.compile(r"^```(\S*)\s*$")
NOTE = re.compile(
    r"^<!-- (not run|file|more of file|in file|methods in file|imports in file): (.+) -->$"
)
RUNS = ("python", "console")

FILES = {
    "file": """\
from pathlib import Path
Path({path!r}).write_text({text!r})
""",
    "more of file": """\
with open({path!r}, "a") as file:
    file.write("\\n" + {text!r})
""",
    "in file": """\
from pathlib import Path
assert Path({path!r}).read_text() == {text!r}, {path!r} + " holds something else"
""",
    "methods in file": """\
import ast
from pathlib import Path
new, lines = {text!r}, Path({path!r}).read_text().splitlines(keepends=True)
changed = next(n for n in ast.parse("".join(lines)).body if isinstance(n, ast.ClassDef))
methods = [n for n in ast.parse(new).body[0].body if isinstance(n, ast.FunctionDef)]
names = [n.name for n in methods]
new = "".join(new.splitlines(keepends=True)[methods[0].lineno - 1 :])
for old in reversed(changed.body):
    if getattr(old, "name", None) in names:
        lines[old.lineno - 1 : old.end_lineno] = [""] * (old.end_lineno - old.lineno + 1)
head, rest = "".join(lines[: changed.end_lineno]), "".join(lines[changed.end_lineno :])
Path({path!r}).write_text(head.rstrip() + "\\n\\n" + new + rest)
""",
    "imports in file": """\
import ast
from pathlib import Path
lines = Path({path!r}).read_text().splitlines(keepends=True)
imports = [n for n in ast.parse("".join(lines)).body if isinstance(n, ast.ImportFrom)]
lines.insert(imports[-1].end_lineno, {text!r})
Path({path!r}).write_text("".join(lines))
""",
}

CONSOLE = """\
import doctest, os, subprocess
for command, want in {commands!r}:
    if command.startswith("cd "):
        os.chdir(command[3:])
        continue
    done = subprocess.run(command, shell=True, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    if not doctest.OutputChecker().check_output(want, done.stdout, doctest.ELLIPSIS):
        message = f"$ {{command}}\\nshould print\\n{{want}}\\nand printed\\n{{done.stdout}}"
        raise AssertionError(message)
"""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: its language, the line of its first line of code, the code, and the note
    on the line before it: its kind and what it says, both empty where there is none."""

    language: str
    line: int
    text: str
    note: tuple[str, str] = ("", "")

    @property
    def runs(self) -> bool:
        """True if it becomes part of the program."""
        return self.note[0] in FILES or (self.language in RUNS and self.note[0] != "not run")


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
        note = NOTE.match(lines[start - 1]) if start else None
        text = "\n".join(lines[start + 1 : end]) + "\n"
        yield Block(fence[1], start + 2, text, (note[1], note[2]) if note else ("", ""))
        start = end + 1


def program(page: str) -> str:
    """One program of all blocks that run; line numbers of `python` blocks are those of the page."""
    lines: list[str] = []
    for block in blocks(page):
        if block.runs:
            lines += [""] * (block.line - 1 - len(lines))
            lines += _code(block).rstrip("\n").split("\n")
    return "\n".join(lines) + "\n" if lines else ""


def _code(block: Block) -> str:
    kind, path = block.note
    if kind in FILES:
        code = FILES[kind].format(path=path, text=block.text)
    elif block.language == "console":
        code = CONSOLE.format(commands=commands(block.text))
    else:
        return block.text
    # exec, so that the page's line numbers stay right for the blocks that follow.
    return f"exec({code!r})"


def commands(text: str) -> list[tuple[str, str]]:
    """(command, output it must have) of a console block's text."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif found:
            found[-1] = (found[-1][0], f"{found[-1][1]}{line}\n")
    return found
