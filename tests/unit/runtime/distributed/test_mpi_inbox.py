"""What is taken from the receive that is posted: order, sources, bytes."""

import pytest

from tests.tools import local_mpi
from xladev.runtime.distributed.mpi_inbox import MpiInbox

_MOST = 8192


@pytest.fixture
def job():
    here, *others = local_mpi.communicators(3)
    return MpiInbox(here, local_mpi, 5, _MOST), others


def test_nothing_has_come(job):
    assert job[0].take() is None


def test_messages_of_all_peers_one_after_another(job):
    inbox, others = job
    for other in others:
        other.Isend([bytes([other.rank]) * 3, local_mpi.BYTE], 0, 5)
    assert [inbox.take() for _ in range(2)] == [(1, b"\1\1\1"), (2, b"\2\2\2")]
    assert inbox.take() is None


def test_what_was_taken_stays_as_it_is(job):
    inbox, (other, _) = job
    kept = []
    for number in range(3):
        other.Isend([bytes([number]) * _MOST, local_mpi.BYTE], 0, 5)
        kept.append(inbox.take()[1])
    assert kept == [bytes([number]) * _MOST for number in range(3)]


def test_nothing_is_received_after_its_end(job):
    inbox, (other, _) = job
    inbox.close()
    other.Isend([b"abc", local_mpi.BYTE], 0, 5)
    with pytest.raises(AssertionError, match="ended"):
        inbox.take()
