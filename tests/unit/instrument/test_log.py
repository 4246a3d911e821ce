"""Logger names and levels."""

import logging

import pytest

from xladev import instrument
from xladev.errors import OptionError


@pytest.fixture
def root():
    root = logging.getLogger("xladev")
    before = (root.level, root.handlers[:], root.propagate)
    root.handlers = []  # other tests may have left some
    root.propagate = True  # or pytest adds its own, once the test begins
    yield root
    root.level, root.handlers, root.propagate = before


def test_every_logger_lies_below_xladev():
    assert all(name.startswith("xladev.") for name in instrument.LOGGERS)
    assert instrument.logger("dump").name in instrument.LOGGERS


def test_environment_sets_the_level(root, monkeypatch):
    monkeypatch.setenv("XLADEV_LOG", "debug")
    instrument.configure_logging()
    instrument.configure_logging("info")
    assert root.level == logging.INFO
    assert len(root.handlers) == 1


def test_unknown_level_is_an_error(root):
    with pytest.raises(OptionError, match="LOUD"):
        instrument.configure_logging("loud")


def test_no_handler_is_given_what_drives_a_terminal(root, caplog):
    instrument.logger("runtime").warning("%s failed: %s", "x\x1b]0;owned\x07", ["\u202e"])
    instrument.logger("runtime").warning("%d of %d", 1, 2)
    assert [r.getMessage() for r in caplog.records] == [
        "x\\x1b]0;owned\\x07 failed: ['\\u202e']",
        "1 of 2",
    ]
    assert caplog.records[1].args == (1, 2)
