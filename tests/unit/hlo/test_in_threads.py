"""Work shared among threads: each item once, errors raised, nothing without threads."""

import threading

import pytest

from xladev.hlo.in_threads import in_threads


@pytest.mark.parametrize("most", [None, 1, 2, 50])
def test_each_item_is_worked_on_once(most: int | None) -> None:
    done: list[int] = []
    in_threads(done.append, range(100), most)
    assert sorted(done) == list(range(100))
    in_threads(done.append, [], most)
    assert len(done) == 100


def test_several_threads_work_at_a_time() -> None:
    met = threading.Barrier(2, timeout=60)
    in_threads(lambda _: met.wait(), range(2), 2)


def test_the_first_error_is_raised_and_ends_the_work() -> None:
    done: list[int] = []

    def work(item: int) -> None:
        if item == 3:
            raise KeyError(item)
        done.append(item)

    with pytest.raises(KeyError):
        in_threads(work, range(1000), 1)
    assert done == [0, 1, 2]
    with pytest.raises(KeyError):
        in_threads(work, range(1000), 2)
    assert len(done) < 1000


def test_where_no_thread_can_be_started_the_caller_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done: list[int] = []
    in_threads(done.append, range(5), 4)
    assert done == [0, 1, 2, 3, 4]
