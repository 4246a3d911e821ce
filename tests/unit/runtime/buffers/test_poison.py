"""Poison: what a program never wrote is neither zero nor what was there before."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.compiler.subset_backend import Subset, SubsetLoaded, subset_registry
from tests.unit.runtime.null_device import Driver, Executor1
from xladev import client
from xladev.hlo.text import parse_module
from xladev.runtime.buffers.allocator import Allocator
from xladev.runtime.buffers.poison import MOST_NBYTES, is_poisoning, poisoning

PROGRAM = "HloModule m\nENTRY e { x = f32[4] parameter(0)  ROOT n = f32[4] negate(x) }"


@pytest.fixture
def poisoned() -> Iterator[None]:
    with poisoning():
        yield


def test_it_is_on_within_the_block_alone() -> None:
    before = is_poisoning()
    with poisoning():
        assert is_poisoning()
        with poisoning():
            pass
        assert is_poisoning()
    assert is_poisoning() == before


def test_all_bytes_are_filled(poisoned: None) -> None:
    driver = Driver()
    allocator = Allocator(Executor1(driver), "null:0", lambda: None)
    made = allocator.allocate(100, "x", alignment=1, memory_space=0)
    assert set(driver.view(made.memory)) == {0xFF}


def test_of_large_memory_the_beginning_is_filled(poisoned: None) -> None:
    driver = Driver(capacity=2 * MOST_NBYTES)
    allocator = Allocator(Executor1(driver), "null:0", lambda: None)
    made = allocator.allocate(MOST_NBYTES + 8, "x", alignment=1, memory_space=0)
    view = driver.view(made.memory)
    assert view[MOST_NBYTES - 1] == 0xFF
    assert set(view[MOST_NBYTES:]) == {0}


def test_a_backend_that_writes_nothing_gives_no_zeros(
    poisoned: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SubsetLoaded, "launch", lambda *_: None)
    with subset_registry(Subset(lambda i: True)):
        result = client.compile(parse_module(PROGRAM), "subset")(np.ones(4, np.float32))
        assert np.isnan(result.numpy()).all()
