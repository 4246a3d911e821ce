"""The option cpu.lapack."""

from __future__ import annotations

import pytest

from xladev.compiler.options import CompileOptions
from xladev.errors import OptionError
from xladev.platforms.cpu.lapack.option import wants_lapack


def test_values() -> None:
    assert wants_lapack(CompileOptions())
    assert wants_lapack(CompileOptions(extras={"cpu.lapack": "auto"}))
    assert not wants_lapack(CompileOptions(extras={"cpu.lapack": "off"}))


def test_another_value_is_refused() -> None:
    with pytest.raises(OptionError, match="cpu.lapack is 'on'") as raised:
        wants_lapack(CompileOptions(extras={"cpu.lapack": "on"}))
    assert raised.value.why == "it must be auto or off"
