"""A fixture for folders whose programs run in poisoned memory: what they never write is wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from xladev.runtime.buffers.poison import VARIABLE, poisoning


@pytest.fixture(autouse=True)
def poisoned(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Memory is filled when it is allocated, here and in child processes."""
    monkeypatch.setenv(VARIABLE, "1")
    with poisoning():
        yield
