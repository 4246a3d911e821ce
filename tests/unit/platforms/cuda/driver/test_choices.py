"""A choice is measured once, with and without an on-disk cache."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from xladev.compiler.cache import store
from xladev.platforms.cuda.driver import choices
from xladev.platforms.cuda.driver.choices import Choices

KEY = "0" * 64


def chosen(of: Choices, measure: Callable[[], int]) -> int:
    return of.choose(KEY, lambda data: int(data), measure, lambda way: str(way).encode())


def never() -> int:
    raise AssertionError("measured again")


def test_a_choice_stays_without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "store_of_environment", lambda: None)
    kept = Choices()
    assert chosen(kept, lambda: 5) == 5
    assert chosen(kept, never) == 5
    assert chosen(Choices(), lambda: 7) == 7  # another process


def test_a_choice_outlives_the_process_with_a_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(store.VARIABLE, str(tmp_path))
    assert choices.store_of_environment() is not None
    assert chosen(Choices(), lambda: 5) == 5
    assert chosen(Choices(), never) == 5


def test_a_way_that_is_gone_is_measured_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "store_of_environment", lambda: None)
    kept = Choices()
    assert chosen(kept, lambda: 5) == 5
    assert kept.choose(KEY, lambda data: None, lambda: 6, lambda way: str(way).encode()) == 6
    assert chosen(kept, never) == 6


def test_a_failed_measurement_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "store_of_environment", lambda: None)
    kept = Choices()
    with pytest.raises(AssertionError, match="measured again"):
        chosen(kept, never)
    assert chosen(kept, lambda: 4) == 4
