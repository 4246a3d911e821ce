"""Files and folders that the documentation names exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "ROADMAP.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"`([a-z_.][a-z0-9_./-]*(?:\.py|\.md|\.toml|/))`")
LINKED = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
PLATFORMS = tuple(p for p in (ROOT / "xladev" / "platforms").iterdir() if p.is_dir())
PLACES = (ROOT / "xladev", ROOT / "docs", ROOT / "tests", *PLATFORMS, ROOT)
ELSEWHERE = {".../proto/"}
"""Names of files of other projects."""
MADE = "xladev_npu/"
"""The package that a reader makes."""


def missing(text: str) -> list[str]:
    """The paths in code spans of a page that are nowhere in the repository."""
    prose = FENCED.sub("", text)
    named = {n for n in NAMED.findall(prose) if not n.startswith(("../", MADE))} - ELSEWHERE
    return sorted(n for n in named if not any(_is_there(place, n) for place in PLACES))


def _is_there(place: Path, name: str) -> bool:
    """True for a path, or for a lone file name wherever it is."""
    if (place / name).exists():
        return True
    return "/" not in name and place != ROOT and any(place.rglob(name))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_exist(page: Path) -> None:
    assert missing(page.read_text("utf-8")) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    prose = FENCED.sub("", page.read_text("utf-8"))
    dead = [link for link in LINKED.findall(prose) if not (page.parent / link).exists()]
    assert dead == []


def test_a_missing_path_is_noticed() -> None:
    text = "`passes/cse.py`, `passes/none.py`, `cse.py`\n```text\n`passes/other.py`\n```\n"
    assert missing(text) == ["passes/none.py"]
