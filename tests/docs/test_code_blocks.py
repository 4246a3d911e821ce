"""The code in the documentation runs, and the runner of it sees what does not."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tools.code_blocks import blocks, commands, program
from tests.tools.environment import make_environment

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_CODE = [page for page in PAGES if program(page.read_text("utf-8"))]
MOST_COMMANDS = 1
"""Commands of a shell in a page that `make test` runs: each starts a process, some of them many."""


def case(page: Path) -> Any:
    """A page as a parameter, marked long if it starts more processes than that."""
    found = blocks(page.read_text("utf-8"))
    consoles = [b for b in found if b.language == "console" and b.note[0] != "not run"]
    is_long = sum(len(commands(b.text)) for b in consoles) > MOST_COMMANDS
    is_long = is_long or "pip install" in program(page.read_text("utf-8"))
    name = str(page.relative_to(ROOT))
    return pytest.param(page, id=name, marks=[pytest.mark.long] if is_long else [])


def run(page: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a page's code in `folder`, with the commands of this environment on the path; one that
    installs something runs in an environment of its own."""
    (folder / "examples").symlink_to(ROOT / "examples")
    script = folder / f"{page.stem}.py"
    script.write_text(program(page.read_text("utf-8")))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    python, variables = sys.executable, {**os.environ, "PATH": path}
    if "pip install" in script.read_text():
        own = make_environment(folder / "venv", ROOT)
        python, variables = str(own.folder / "bin" / "python"), own.variables
    return subprocess.run(
        [python, script.name],
        cwd=folder, env=variables, capture_output=True, text=True, timeout=600,
    )  # fmt: skip


@pytest.mark.parametrize("page", map(case, WITH_CODE))
def test_code_of_page_runs(page: Path, tmp_path: Path) -> None:
    done = run(page, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


PLANTED = """\
# A page

```python
x = 1
```

```sh
false
```

<!-- not run: it would fail -->
```python
raise SystemExit(3)
```

```console
$ echo "x is ..."; echo 2
x is ...
2
```

```python
print(x)
LAST
```
"""


def outcome(page: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "page.md"
    path.write_text(page)
    return run(path, tmp_path)


def test_blocks_share_names_and_exempt_ones_are_left_out(tmp_path: Path) -> None:
    done = outcome(PLANTED.replace("LAST", "pass"), tmp_path)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_failure_names_the_line_of_the_page(tmp_path: Path) -> None:
    done = outcome(PLANTED.replace("LAST", "y"), tmp_path)
    assert done.returncode == 1
    assert f"line {PLANTED.split(chr(10)).index('LAST') + 1}" in done.stderr


def test_other_output_is_a_failure(tmp_path: Path) -> None:
    done = outcome(PLANTED.replace("LAST", "pass").replace("echo 2", "echo 3"), tmp_path)
    assert done.returncode == 1
    assert "should print" in done.stderr


def test_console_block_is_split_into_commands() -> None:
    assert commands("$ a\n1\n2\n$ b\n") == [("a", "1\n2\n"), ("b", "")]


def test_block_carries_its_place() -> None:
    first = next(blocks(PLANTED))
    assert (first.language, first.line, first.text, first.note) == (
        "python",
        4,
        "x = 1\n",
        ("", ""),
    )


FILES = """\
<!-- file: folder.py -->
```python
inside = 1
```

```console
$ mkdir below
$ cd below
```

<!-- in file: ../folder.py -->
```python
inside = 1
```
"""


def test_blocks_may_be_files(tmp_path: Path) -> None:
    assert outcome(FILES, tmp_path).returncode == 0
    assert (tmp_path / "folder.py").read_text() == "inside = 1\n"


def test_a_file_that_holds_something_else_is_a_failure(tmp_path: Path) -> None:
    head, fence, tail = FILES.rpartition("inside = 1")
    done = outcome(head + "inside = 2" + tail, tmp_path)
    assert done.returncode == 1
    assert "folder.py holds something else" in done.stderr


def test_every_fence_is_closed() -> None:
    for page in PAGES:
        list(blocks(page.read_text("utf-8")))
