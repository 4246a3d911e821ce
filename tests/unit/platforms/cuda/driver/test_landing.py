"""Page-locked memory of copies: kept until they are done, whoever keeps an event."""

import weakref

import numpy as np

from xladev.platforms.cuda.driver.landing import Landing


class Memory(np.ndarray):
    """An array that weak references may name."""


class Allocated:
    """Gives memory and sees whether it is still held."""

    def __init__(self):
        self.all = []

    def __call__(self, nbytes):
        memory = np.zeros(nbytes, np.uint8).view(Memory)
        self.all.append(weakref.ref(memory))
        return memory

    def held(self):
        return [memory() is not None for memory in self.all]


def landing():
    allocated, waits = Allocated(), []
    return Landing(allocated, lambda: waits.append(allocated.held())), allocated, waits


def test_memory_is_kept_until_a_later_event_is_reached():
    made, allocated, _ = landing()
    made.outgoing(np.arange(3, dtype=np.uint8))
    made.event(lambda: False)
    made.outgoing(np.arange(3, dtype=np.uint8))
    second = made.event(lambda: False)
    assert allocated.held() == [True, True]
    made.land(second - 1)
    assert allocated.held() == [False, True]
    made.land(second)
    assert allocated.held() == [False, False]


def test_an_event_that_nobody_asks_about_gives_memory_back():
    made, allocated, _ = landing()
    found = np.zeros(2, np.uint8)
    made.incoming(found)[:] = 7
    ready = []
    made.event(lambda: bool(ready))
    made.event(lambda: False)
    assert allocated.held() == [True]
    assert not found.any()
    ready.append(1)
    made.event(lambda: False)
    assert allocated.held() == [False]
    assert (found == 7).all()


def test_what_is_dropped_with_copies_under_way_is_waited_for():
    made, allocated, waits = landing()
    made.outgoing(np.arange(3, dtype=np.uint8))
    del made
    assert waits == [[True]]
    assert allocated.held() == [False]


def test_nothing_is_waited_for_where_all_copies_are_done():
    made, _, waits = landing()
    made.outgoing(np.arange(3, dtype=np.uint8))
    made.land(made.event(lambda: False))
    del made
    assert not waits
