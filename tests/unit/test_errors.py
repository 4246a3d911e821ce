"""What errors say, and what never reaches a terminal with it."""

import pytest

from xladev.errors import CompileError, counted, one_line, printable, printable_name, set_in

TITLE = "\x1b]0;owned\x07"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (TITLE, r"\x1b]0;owned\x07"),
        ("a\rb\x00\x7f", r"a\rb\x00\x7f"),
        ("\x9b2J\x85", r"\x9b2J\x85"),
        ("\u202eevil\u2066\u2069\u200f\u061c", r"\u202eevil\u2066\u2069\u200f\u061c"),
        ("a\u2028b\ud800", r"a\u2028b\ud800"),
        ("two\tlines\nof ü 漢 \U0001f600 text", "two\tlines\nof ü 漢 \U0001f600 text"),
    ],
)
def test_what_drives_a_terminal_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown


def test_an_error_says_names_without_what_drives_a_terminal() -> None:
    error = CompileError(f"no code for {TITLE}", where=TITLE, why="it has none", hint="leave it")
    assert str(error) == "\n".join(
        (
            r"[COMPILE] no code for \x1b]0;owned\x07",
            r"  where: \x1b]0;owned\x07",
            "  why: it has none",
            "  next: leave it",
        )
    )
    assert error.what == f"no code for {TITLE}"


def test_a_name_in_an_error_begins_no_line() -> None:
    name = "a\nxladev: all is well\n  next: do it"
    error = CompileError(f"no code for {name}", where=f"module {name}", why="line 1\n    x = y")
    set_in_name = "a\n    xladev: all is well\n      next: do it"
    assert str(error) == "\n".join(
        (
            f"[COMPILE] no code for {set_in_name}",
            f"  where: module {set_in_name}",
            "  why: line 1\n    x = y",
            *([f"  next: {error.hint}"] if error.hint else []),
        )
    )
    assert printable_name(name) == r"a\nxladev: all is well\n  next: do it"
    assert printable_name("a\tb\x1b") == r"a\tb\x1b"
    assert set_in("a\n\n  b\n", 2) == "a\n\n  b\n"


def test_one_line_keeps_what_where_and_why() -> None:
    error = CompileError("no code", where="line 1\n    x = y", why="it has none", hint="leave it")
    assert one_line(str(error)) == "[COMPILE] no code; where: line 1; why: it has none"
    trace = "Traceback (most recent call last):\n  File x\nKeyError: 'a'\n"
    assert one_line(trace) == "KeyError: 'a'"
    assert [one_line(text) for text in ("plain", "", "\n a\nb")] == ["plain", "", " a"]


@pytest.mark.parametrize(
    ("count", "what", "shown"),
    [
        (0, "kernel", "0 kernels"),
        (1, "kernel", "1 kernel"),
        (2, "kernel", "2 kernels"),
        (1, "process", "1 process"),
        (12_345, "process", "12,345 processes"),
    ],
)
def test_a_number_and_its_noun_agree(count: int, what: str, shown: str) -> None:
    assert counted(count, what) == shown
