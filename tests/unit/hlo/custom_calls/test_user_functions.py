"""Errors of functions that users write: whose they are, where, and with which traceback."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest

from xladev.errors import ArgumentError, UserFunctionError
from xladev.hlo.custom_calls.user_functions import user_function


def raised_by(function: Callable[[], object], **named: str) -> UserFunctionError:
    with pytest.raises(UserFunctionError) as caught, user_function("the function", **named):
        function()
    return caught.value


def in_package(package: str, function: Callable[[], object]) -> Callable[[], None]:
    """A function of a package that calls another one."""
    source = "def between():\n    function()\n"
    names = {"__name__": f"{package}.inner", "function": function}
    exec(compile(source, f"{package}/inner.py", "exec"), names)
    between: Callable[[], None] = names["between"]  # type: ignore[assignment]
    return between


def fails() -> None:
    raise ValueError("first line\nsecond line")


def test_it_says_who_raised_what_and_where() -> None:
    error = raised_by(fails, called_at="program.py:7")
    assert error.what == "the function raised ValueError: first line"
    line = fails.__code__.co_firstlineno
    assert f"{__file__}:" in str(error.where)
    assert str(error.where).endswith("; called at program.py:7")
    assert f'line {line + 1}, in fails\n        raise ValueError("first line' in str(error.why)
    assert "second line" in str(error.why)
    assert "correct that function" in str(error.hint)
    assert isinstance(error.__cause__, ValueError)


@pytest.mark.parametrize("package", ["jax", "jaxlib", "xladev"])
def test_frames_between_program_and_function_are_left_out(package: str) -> None:
    shown = str(raised_by(in_package(package, fails)))
    assert "in fails" in shown
    assert "in between" not in shown
    assert "in between" in str(raised_by(in_package("jaxtyping", fails)))


def test_causes_are_told_too() -> None:
    def wraps() -> None:
        try:
            in_package("jax", fails)()
        except ValueError as error:
            raise KeyError("outer") from error

    shown = str(raised_by(wraps))
    assert "ValueError: first line" in shown
    assert "KeyError: 'outer'" in shown
    assert "in between" not in shown


def test_an_exit_is_a_failure_and_ctrl_c_is_not() -> None:
    assert "raised SystemExit: 3" in raised_by(lambda: sys.exit(3)).what
    with pytest.raises(KeyboardInterrupt), user_function("the function"):
        raise KeyboardInterrupt


def test_what_passes_stays_as_it_is() -> None:
    with pytest.raises(ArgumentError), user_function("f", passes=(ArgumentError,)):
        raise ArgumentError("said on purpose")
    with pytest.raises(UserFunctionError, match="inner"), user_function("f"):
        raise UserFunctionError("inner")
