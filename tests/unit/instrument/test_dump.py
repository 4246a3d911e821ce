"""Dumps: numbering, filter, laziness, log lines, errors."""

import logging
import threading

import pytest

from xladev import instrument
from xladev.errors import OptionError, XladevError
from xladev.instrument.dump import reset_dumps


@pytest.fixture
def environment(monkeypatch, tmp_path):
    """Dumps switched on by the environment; yields the folder."""
    folder = tmp_path / "dumps"
    monkeypatch.setenv("XLADEV_DUMP_TO", str(folder))
    reset_dumps()
    yield folder
    monkeypatch.undo()
    reset_dumps()


@pytest.fixture
def off(monkeypatch):
    monkeypatch.delenv("XLADEV_DUMP_TO", raising=False)
    reset_dumps()
    yield
    reset_dumps()


def test_off_calls_nothing(off):
    def content():
        raise AssertionError("made although dumps are off")

    assert instrument.dump("m", "hlo", content) is None
    assert not instrument.dumping()


def test_files_are_numbered_and_logged(environment, caplog):
    with caplog.at_level(logging.INFO, "xladev.dump"):
        instrument.dump("m.before", "hlo", "first")
        instrument.dump("m.after", "hlo", lambda: "second")
        instrument.dump("m", "o", b"\x00")
    names = sorted(p.name for p in environment.iterdir())
    assert names == ["0001.m.before.hlo", "0002.m.after.hlo", "0003.m.o"]
    assert (environment / "0002.m.after.hlo").read_text() == "second"
    assert [r.message.startswith("wrote ") for r in caplog.records] == [True] * 3


def test_filter_keeps_only_what_it_matches(environment, monkeypatch):
    monkeypatch.setenv("XLADEV_DUMP_FILTER", r"after.*\.hlo$")
    reset_dumps()
    assert instrument.dump("m.before", "hlo", "x") is None
    assert instrument.dump("m.after_cse", "dot", "x") is None
    assert instrument.dump("m.after_cse", "hlo", "x").name == "0001.m.after_cse.hlo"


def test_names_cannot_leave_the_folder(environment):
    path = instrument.dump("../../etc/passwd", "a/b", "x")
    assert path.parent == environment
    assert ".." not in path.name.split(".", 1)[1].split("_")[0]


def test_a_second_folder_goes_on_counting(tmp_path):
    for expected in ("0001.m.txt", "0002.m.txt"):
        with instrument.dumping_to(tmp_path):
            assert instrument.dump("m", "txt", "x").name == expected


def test_dumping_to_none_changes_nothing(off):
    with instrument.dumping_to(None):
        assert not instrument.dumping()


def test_bad_filter_and_bad_folder_are_errors(tmp_path):
    with pytest.raises(OptionError, match="no regular expression"), instrument.dumping_to("x", "("):
        pass
    blocker = tmp_path / "file"
    blocker.write_text("")
    with instrument.dumping_to(blocker), pytest.raises(XladevError, match="cannot write dump"):
        instrument.dump("m", "txt", "x")


def test_numbers_are_unique_across_threads(environment):
    threads = [
        threading.Thread(target=lambda: [instrument.dump("m", "txt", "x") for _ in range(20)])
        for _ in range(4)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(list(environment.iterdir())) == 80
