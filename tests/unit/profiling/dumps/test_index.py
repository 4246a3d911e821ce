"""The index of a folder of dumps: all files are linked, from several processes, names escaped."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import xladev
from xladev.compiler.options import CompileOptions
from xladev.errors import XladevError
from xladev.hlo.text import parse_module
from xladev.profiling.dumps.changes import change_page
from xladev.profiling.dumps.index import index_page
from xladev.profiling.dumps.pages import write_index
from xladev.profiling.dumps.records import HIDDEN, Record, read_records

PROGRAM = """HloModule twice
ENTRY e { x = f32[4] parameter(0)
  a = f32[4] negate(x), metadata={op_name="</td><script>alert(1)</script>"}
  b = f32[4] negate(x)
  zero = f32[] constant(0)
  z = f32[4] broadcast(zero), dimensions={}
  c = f32[4] add(b, z)
  ROOT r = f32[4] multiply(a, c) }
"""


class _Links(HTMLParser):
    """The files that a page links to, and the elements that it has."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.found += [unquote(v) for k, v in attrs if k in ("href", "src") and v is not None]


def _compile(folder: Path, text: str = PROGRAM, platform: str = "cpu") -> None:
    options = CompileOptions(dump_to=str(folder))
    xladev.compile(parse_module(text), platform, options)


def test_everything_is_linked_and_there(tmp_path: Path) -> None:
    folder = tmp_path / "dumps"
    _compile(folder)
    page = (folder / "index.html").read_text()
    links = _Links(page).found
    written = {p.name for p in folder.iterdir()} - {"index.html", HIDDEN}
    assert set(links) == written
    for end in (
        "twice.hlo", "before_algebraic-simplifier.hlo", "after_algebraic-simplifier.hlo",
        "change_algebraic-simplifier.html", "graph_algebraic-simplifier.html", "buffers.txt",
        "decisions.txt", "timings.txt", "program.txt", "twice.ll", "optimized.ll", "twice.s",
    ):  # fmt: skip
        assert any(name.endswith(end) for name in links), end
    assert "1 compilation of 1 process, " in page
    assert "algebraic-simplifier</td>" in page and "buffer assignment" in page
    assert not re.search(r"https?://|@import|url\(", page)
    change = next(folder.glob("*change_algebraic-simplifier.html")).read_text()
    assert "<script" not in change and "&lt;script&gt;" in change


def test_compilations_and_processes_share_a_folder(tmp_path: Path) -> None:
    code = (
        "import sys, xladev\n"
        "options = xladev.CompileOptions(dump_to=sys.argv[1])\n"
        "for _ in range(3): xladev.compile(sys.stdin.buffer.read() or text, 'interpreter', options)"
    ).replace("sys.stdin.buffer.read() or text", "open(sys.argv[2], 'rb').read()")
    program = tmp_path / "p.hlo"
    program.write_text(PROGRAM)
    folder = tmp_path / "dumps"
    words = [sys.executable, "-c", code, str(folder), str(program)]
    running = [subprocess.Popen(words) for _ in range(3)]
    assert [process.wait(120) for process in running] == [0, 0, 0]
    page = (folder / "index.html").read_text()
    assert "9 compilations of 3 processes" in page
    names = [p.name for p in folder.iterdir()]
    assert sum(name.endswith(".program.txt") for name in names) == 9
    assert sum(name.startswith("0001.") for name in names) >= 1
    assert not [n for n in names if n.startswith(".") and n != HIDDEN]  # no draft is left
    assert set(_Links(page).found) == set(names) - {"index.html", HIDDEN}


def test_a_compilation_that_fails_is_in_the_index(tmp_path: Path) -> None:
    with pytest.raises(XladevError):
        _compile(tmp_path, PROGRAM.replace("negate(x)", 'custom-call(x), custom_call_target="n"'))
    assert "timings.txt" in (tmp_path / "index.html").read_text()


@pytest.mark.parametrize("name", ["</title><script>x</script>", "@@BODY@@", "a b%2F..&\"'#?.hlo"])
def test_names_are_escaped(name: str) -> None:
    record = Record(f"0001.{name}", name, "hlo", 1, 1, name, name, 1, 0.0)
    page = _Links(index_page([record], name))
    assert page.tags.count("script") == 1
    assert page.tags.count("table") == 1
    assert page.found == [f"0001.{name}"]


def test_damaged_records_and_missing_files_are_left_out(tmp_path: Path) -> None:
    _compile(tmp_path, platform="interpreter")
    before = len(read_records(tmp_path))
    lines = ["{", "[]", '{"file": "x"}', "\x00", '{"file": "../index.html", "name": 3}']
    (tmp_path / HIDDEN / "9.jsonl").write_text("\n".join(lines))
    next(tmp_path.glob("*.program.txt")).unlink()
    assert len(read_records(tmp_path)) == before - 1
    write_index(tmp_path)
    assert "program.txt" not in (tmp_path / "index.html").read_text()


def test_pages_that_cannot_be_written_do_not_stop_a_compilation(tmp_path: Path) -> None:
    (tmp_path / HIDDEN).write_text("a file where a folder should be")
    _compile(tmp_path, platform="interpreter")
    assert not (tmp_path / "index.html").exists()
    assert list(tmp_path.glob("*.program.txt"))


def test_a_change_is_shown_between_what_is_the_same() -> None:
    before = [f"line {n}" for n in range(100)]
    after = [*before[:50], "new <b>", *before[51:]]
    page = change_page("\n".join(before), "\n".join(after), "t")
    assert "1 line removed, 1 added" in page
    assert '<td class="removed">line 50</td>' in page
    assert '<td class="added">new &lt;b&gt;</td>' in page
    assert page.count("lines the same") == 2
    assert "line 47<" in page and "line 46<" not in page
    assert "no line differs" in change_page("", "", "t")


def test_long_programs_are_compared_in_linear_time() -> None:
    before = [f"line {n}" for n in range(30_000)]
    after = [*before[:9000], *reversed(before[9000:9010]), *before[9010:]]
    page = change_page("\n".join(before), "\n".join(after), "t")
    assert "10 lines removed, 10 added" in page
