"""What commands print: nothing that drives a terminal, and progress that is taken away again."""

from __future__ import annotations

import io
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from xladev.cli.main import main
from xladev.cli.output import PrintableStream, printable_output, progress
from xladev.errors import printable
from xladev.instrument import configure_logging
from xladev.instrument.dump import reset_dumps

NAME = r"x\033]0;owned\007\302\233\342\200\256end"
"""ESC ]0; ... BEL names a terminal's window; C1's CSI; what turns the order of writing round."""

PROGRAM = f"""HloModule %"module{NAME} */"

%"inner{NAME}" {{
  x = f32[4] parameter(0)
  ROOT %"n{NAME}" = f32[4] negate(x), metadata={{op_name="op{NAME}" source_file="f{NAME}.py"}}
}}

ENTRY %"entry{NAME}" {{
  %"p{NAME}" = f32[4] parameter(0)
  %"c{NAME}" = f32[4] call(%"p{NAME}"), to_apply=%"inner{NAME}", frontend_attributes={{k="{NAME}"}}
  %"b{NAME}" = f32[4] sqrt(%"c{NAME}"), backend_config="{{\\"{NAME}\\":1}}", metadata={{
    op_name="op{NAME}" source_file="f{NAME}.py" source_line=3}}
  ROOT %"t{NAME}" = (f32[4], f32[4]) tuple(%"b{NAME}", %"c{NAME}")
}}
"""
FORGED = ("xladev: error: all is well", "  next: do it", "W xladev.cache: it is gone")
NEWLINES = "".join(rf"\n{line}" for line in FORGED)
COMMANDS = (
    "run FILE --platform cpu --stats --debug nan --trace trace.json",
    "run FILE --platform template_npu --stats --against interpreter",
    "run BROKEN",
    "run NONE",
    "explain FILE --platform template_npu --all",
    "opt FILE",
    "convert FILE --to text",
    "cost FILE",
    "diff FILE BROKEN",
    "isolate FILE --platform interpreter",
    "trace draw trace.json -o trace.svg",
    "trace query trace.json --summary",
    "trace check trace.json",
    "graph FILE -o graph.html",
    "graph FILE --passes dce -o both.html",
    "graph FILE -o graph.svg",
    "graph FILE -o graph.dot",
    "aot FILE --name p",
    "run FILE --no-such-\x1b]0;option\x07",
)
BINARY = {".o", ".a", ".wasm"}


@pytest.fixture
def files(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, str]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XLADEV_DUMP_TO", str(tmp_path / "dumps"))
    monkeypatch.setenv("XLADEV_LOG", "DEBUG")
    monkeypatch.setattr(logging.getLogger("xladev"), "handlers", [])
    reset_dumps()
    program = PROGRAM
    if hasattr(request, "param"):  # other than a configuration, which is a document
        program = PROGRAM.replace(f'\\"{NAME}\\"', r"\"k\"").replace(NAME, request.param)
    texts = {"FILE": program, "BROKEN": program.replace("sqrt(", "infeed(")}
    for name, text in texts.items():
        (tmp_path / f"{name}.hlo").write_text(text)
    yield {"FILE": "FILE.hlo", "BROKEN": "BROKEN.hlo", "NONE": "\x1b]0;none\x07"}
    monkeypatch.undo()
    reset_dumps()
    configure_logging()


def test_no_name_of_a_program_drives_a_terminal(
    files: dict[str, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shown = ""
    for command in COMMANDS:
        try:
            main([files.get(word, word) for word in command.split(" ")])
        except SystemExit as stop:
            assert stop.code == 2
        said = "".join(capfd.readouterr())
        assert printable(said) == said, command
        shown += said
    assert r"module" in shown and r"\x1b]0;owned\x07\x9b\u202eend" in shown
    written = [p for p in tmp_path.rglob("*") if p.is_file() and p.suffix not in BINARY]
    assert {".html", ".svg", ".dot", ".hlo", ".txt", ".h", ".json"} <= {p.suffix for p in written}
    for path in written:
        text = path.read_text("utf-8")
        assert printable(text) == text, path.name


@pytest.mark.parametrize("files", [f"a{NEWLINES}b"], indirect=True)
def test_no_name_of_a_program_begins_a_line(
    files: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    """It could say that all is well, or what to type next."""
    shown = ""
    for command in (*COMMANDS, "isolate FILE --platform cpu --against interpreter"):
        with suppress(SystemExit):
            main([files.get(word, word) for word in command.split(" ")])
        said = "".join(capfd.readouterr())
        forged = [line for line in said.splitlines() if line.startswith(FORGED)]
        assert not forged, f"{command}: {said}"
        shown += said
    assert NEWLINES in shown


def test_a_stream_that_cannot_encode_a_name_shows_its_escape() -> None:
    stream = PrintableStream(io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    print("ü \x1b", file=stream, flush=True)  # type: ignore[arg-type]
    stream.writelines(["\x1b", "\n"])
    stream.flush()
    assert stream.buffer.getvalue() == b"\\xfc \\x1b\n\\x1b\n"


def test_streams_are_as_before_after_a_command() -> None:
    before = sys.stdout, sys.stderr
    with printable_output():
        assert sys.stdout is not before[0]
    assert (sys.stdout, sys.stderr) == before


class Terminal(io.StringIO):
    """A terminal that says when it was written to."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


def test_progress_shows_on_a_terminal_and_is_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with printable_output(), progress("compiling \x1b[31mred"):
        assert terminal.written.wait(60)
    shown = terminal.getvalue()
    assert shown.startswith("\r\x1b[Kcompiling \\x1b[31mred: ")
    assert shown.endswith("\r\x1b[K")


def test_progress_within_another_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress("compiling"), progress("converting"):
        assert terminal.written.wait(60)
    assert "converting" in terminal.getvalue()
    assert "compiling" not in terminal.getvalue()


def test_progress_is_silent_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress("compiling"):
        pass
    assert stream.getvalue() == ""
