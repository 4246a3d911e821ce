"""The start of a job: who is let in, who is refused, and what each side is told."""

import os
import socket
import time

import pytest

from tests.tools.transports import in_threads
from xladev.errors import ProcessError
from xladev.runtime.distributed import handshake
from xladev.runtime.distributed.listener import Listener
from xladev.runtime.distributed.meeting import (
    connect,
    fetch_table,
    gather_table,
    hello_of,
    split_address,
)
from xladev.runtime.distributed.sockets import connect_all

_SECRET = b"s"


@pytest.fixture
def listener():
    made = Listener("127.0.0.1", 0, _SECRET, 0, 3, "")
    yield made
    made.close()


def soon(seconds=15.0):
    return time.monotonic() + seconds


def test_all_meet_and_connect():
    before = len(os.listdir("/proc/self/fd"))
    first = Listener("127.0.0.1", 0, _SECRET, 0, 3, "")
    address = first.address

    def process(index):
        listener = first if index == 0 else Listener("127.0.0.1", 0, _SECRET, index, 3, "")
        if index == 0:
            table = gather_table(listener, 3, address, _SECRET, soon())
        else:
            hello = hello_of(index, 3, "", "meeting", listener.address)
            table = fetch_table(address, hello, _SECRET, soon())
        transport = connect_all(listener, table, index, "", _SECRET, soon(), 5.0)
        listener.close()
        return transport

    transports = in_threads([lambda i=i: process(i) for i in range(3)])
    assert [(t.rank, t.size) for t in transports] == [(0, 3), (1, 3), (2, 3)]
    for transport in transports:
        transport.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_taken_port_is_said(listener):
    _, port = split_address(listener.address)
    with pytest.raises(ProcessError, match=f"cannot listen at 127.0.0.1:{port}") as caught:
        Listener("127.0.0.1", port, _SECRET, 0, 3, "")
    assert "in use" in caught.value.why


def test_it_is_bound_to_its_interface_alone(listener):
    _, port = split_address(listener.address)
    with socket.socket() as other, pytest.raises(OSError, match="refused"):
        other.connect(("127.0.0.2", port))


def test_a_wrong_secret_is_said_to_both(listener):
    with pytest.raises(ProcessError) as caught:
        fetch_table(listener.address, hello_of(1, 3, "", "meeting", "x"), b"wrong", soon())
    assert "XLADEV_SECRET" in caught.value.hint
    with pytest.raises(ProcessError, match=r"processes \[1, 2\] did not come in time") as caught:
        gather_table(listener, 3, "x", _SECRET, soon(0.5))
    assert "another secret" in caught.value.why


def test_an_impostor_learns_nothing(listener):
    """Who does not know the secret is told nothing after the nonce."""
    with connect(split_address(listener.address), soon(), "it") as connection:
        connection.sendall(handshake.MAGIC + bytes(32) + bytes(32) + b"\2\0\0\0{}")
        data = b""
        while piece := connection.recv(1000):
            data += piece
    assert len(data) == len(handshake.MAGIC) + 32


@pytest.mark.parametrize("data", [b"", b"GET / HTTP/1.0\r\n\r\n" + bytes(100), os.urandom(1000)])
def test_garbage_on_the_port_is_noted_and_ends_nothing(listener, data):
    with socket.create_connection(split_address(listener.address)) as stranger:
        stranger.sendall(data)
    jobs = [
        lambda: gather_table(listener, 3, "x0", _SECRET, soon()),
        *(
            lambda i=i: fetch_table(
                listener.address, hello_of(i, 3, "", "meeting", f"x{i}"), _SECRET, soon()
            )
            for i in (1, 2)
        ),
    ]
    assert in_threads(jobs) == [["x0", "x1", "x2"]] * 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": "0.0.9"}, r"a process runs xladev 0\.0\.9, another one"),
        ({"count": 2}, "of a job of 2 processes, this one of 3"),
        ({"job": "other"}, "of a job of 3 processes"),
        ({"index": 0}, "says that it is number 0"),
        ({"index": 7}, "says that it is number 7"),
        ({"index": "1"}, "says that it is number 1"),
    ],
)
def test_another_job_or_version_is_said_to_both(listener, change, message):
    hello = {**hello_of(1, 3, "", "meeting", "x"), **change}
    with pytest.raises(ProcessError, match=message):
        fetch_table(listener.address, hello, _SECRET, soon())
    with pytest.raises(ProcessError, match=message):
        gather_table(listener, 3, "x", _SECRET, soon())


def test_a_process_that_is_never_there_is_named():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ProcessError, match=r"process 0 .* cannot be reached"):
        fetch_table(address, hello_of(1, 2, "", "meeting"), _SECRET, soon(0.3))


@pytest.mark.parametrize("text", ["", "host", "host:", ":80", "host:x", "host:70000"])
def test_addresses(text):
    with pytest.raises(ProcessError, match="is no address"):
        split_address(text)


def test_closing_ends_greetings_that_are_under_way():
    before = len(os.listdir("/proc/self/fd"))
    made = Listener("127.0.0.1", 0, _SECRET, 0, 3, "")
    with socket.create_connection(split_address(made.address)) as silent:
        silent.recv(1)
        made.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_who_comes_after_the_start_failed_is_told_why(listener):
    first, second, third = in_threads([
        lambda: gather_table(listener, 3, "x0", _SECRET, soon()),
        lambda: fetch_table(
            listener.address,
            {**hello_of(1, 3, "", "meeting", "x1"), "version": "0.0.9"}, _SECRET, soon(),
        ),
        lambda: (
            time.sleep(0.5),
            fetch_table(listener.address, hello_of(2, 3, "", "meeting", "x2"), _SECRET, soon()),
        ),
    ])  # fmt: skip
    for error in (first, second, third):
        assert "runs xladev 0.0.9" in str(error)


def test_those_who_wait_are_told_who_did_not_come(listener):
    jobs = [
        lambda: gather_table(listener, 3, "x0", _SECRET, soon(1.0)),
        lambda: fetch_table(
            listener.address, hello_of(1, 3, "", "meeting", "x1"), _SECRET, soon(30.0)
        ),
    ]
    first, second = in_threads(jobs)
    assert first.what == "processes [2] did not come in time"
    assert second.what == "the job could not start"
    assert "processes [2] did not come in time" in second.why


def test_another_program_at_the_port_is_an_error_of_a_job():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(ProcessError, match=r"process 0 .* does not answer"):
            fetch_table(address, hello_of(1, 2, "", "meeting"), _SECRET, soon(0.5))
