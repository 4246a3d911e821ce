"""What a job keeps, and how it ends."""

import pytest

from tests.tools.transports import connected
from xladev.errors import ProcessError
from xladev.runtime.distributed.job import Job, enter_job, leave_job
from xladev.runtime.distributed.transport import Exchange


class Kept:
    def __init__(self, name, closed):
        self.name, self.closed = name, closed

    def close(self):
        self.closed.append(self.name)


def test_what_is_kept_is_made_once_and_closed_before_the_connections():
    closed, (transport, _) = [], connected(2)
    job = Job(transport)
    enter_job(job)
    first = job.kept("a", lambda: Kept("a", closed))
    assert job.kept("a", lambda: Kept("another", closed)) is first
    job.kept("b", lambda: Kept("b", closed))
    assert not closed
    leave_job()
    assert closed == ["b", "a"]
    with pytest.raises(ProcessError):
        transport.channel(b"k", [0, 1]).all_gather(Exchange(bytes(8), "x"), b"")


def test_last_work_is_done_before_anything_is_closed():
    closed, (transport, _) = [], connected(2)
    job = Job(transport)
    enter_job(job)

    def make():
        job.before_leaving(lambda: closed.append("work"))
        return Kept("a", closed)

    job.kept("a", make)
    leave_job()
    assert closed == ["work", "a"]


def test_connections_end_when_something_kept_fails():
    (transport, _) = connected(2)

    class Failing:
        def close(self):
            raise ProcessError("no")

    job = Job(transport)
    job.kept("a", Failing)
    with pytest.raises(ProcessError, match="no"):
        job.close()
    with pytest.raises(ProcessError):
        transport.channel(b"k", [0, 1]).all_gather(Exchange(bytes(8), "x"), b"")
