"""DefinitionEvent: poisoning, waiting, failures that nobody reads, plugins' broken events."""

import gc
import logging
import sys
import threading

import pytest

from tests.unit.runtime.null_device import NullEvent
from xladev.errors import ExecutionError, PluginError
from xladev.runtime.event import READY, CompletedEvent, Event
from xladev.runtime.launch import definition_event
from xladev.runtime.launch.definition_event import PEER_FAILED, DefinitionEvent, ExecutionFailure


def failed(what="it broke"):
    return ExecutionFailure(ExecutionError(what), "null:0")


def reach(event, error=None):
    event.failure = error
    event.reached.set()


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.ERROR, "xladev.runtime")
    return caplog


def test_nothing_recorded_is_ready_without_error():
    event = DefinitionEvent()
    assert event.is_ready()
    assert event.error() is None
    event.check()


def test_readiness_and_error_come_from_the_platform():
    recorded = NullEvent()
    event = DefinitionEvent("null:0", recorded)
    assert not event.is_ready()
    assert event.error() is None
    assert not event.wait(0)
    with pytest.raises(ExecutionError, match="not ready after 0 s"):
        event.check(0)
    reach(recorded, ExecutionError("it broke"))
    assert event.wait()
    with pytest.raises(ExecutionError, match="it broke") as info:
        event.check()
    assert info.value.where == "null:0"


def test_a_failure_poisons_everything_downstream_with_the_same_error():
    first = NullEvent()
    a = DefinitionEvent("null:0", first)
    b = DefinitionEvent("null:0", NullEvent(), [a])
    c = DefinitionEvent("", None, [b])
    reach(first, ExecutionError("root cause"))
    reach(b.recorded)
    assert c.error() is a.error() is b.error()
    assert c.error().what == "root cause"


def test_a_ready_upstream_is_let_go_of():
    upstream = DefinitionEvent("null:0", READY)
    assert DefinitionEvent("null:0", NullEvent(), [upstream]).upstream == ()


def test_own_event_alone_is_not_enough():
    slow = NullEvent()
    event = DefinitionEvent("null:1", READY, [DefinitionEvent("null:0", slow)])
    assert not event.is_ready()
    reach(slow)
    assert event.is_ready()


@pytest.mark.parametrize("ask", [DefinitionEvent.wait, DefinitionEvent.is_ready])
def test_a_long_chain_is_no_deep_recursion(ask):
    recorded = [NullEvent() for _ in range(3000)]
    first = last = DefinitionEvent("null:0", recorded[0])
    for event in recorded[1:]:
        last = DefinitionEvent("null:0", event, [last])
    assert not last.is_ready()
    assert not last.wait(0)
    for event in recorded[1:]:
        reach(event)
    assert not last.is_ready()
    reach(recorded[0], ExecutionError("root cause"))
    assert ask(last)
    assert last.error() is first.error()


def test_root_cause_is_preferred_to_a_peers_echo():
    echo = ExecutionFailure(ExecutionError("given up", code=PEER_FAILED), "null:0")
    root = failed("root cause")
    events = [DefinitionEvent("null:0", failure=f) for f in (echo, root)]
    assert DefinitionEvent(upstream=events).error().what == "root cause"


def test_an_unread_failure_is_logged_once_when_dropped(log):
    failure = failed()
    events = [DefinitionEvent("null:0", failure=failure) for _ in range(3)]
    del failure
    assert not log.records
    events.clear()
    gc.collect()
    assert len(log.records) == 1
    assert "it broke" in log.text


def test_a_read_failure_is_not_logged(log):
    event = DefinitionEvent("null:0", failure=failed())
    assert event.error().what == "it broke"
    del event
    gc.collect()
    assert not log.records


def test_looking_at_the_failure_is_not_reading_it(log):
    event = DefinitionEvent("null:0", failure=failed())
    assert event.failure().error.what == "it broke"
    del event
    gc.collect()
    assert len(log.records) == 1


def test_on_ready_calls_back_with_the_error():
    recorded, called, errors = NullEvent(), threading.Event(), []

    def callback(error):
        errors.append(error)
        called.set()

    DefinitionEvent("null:0", recorded).on_ready(callback)
    assert not errors
    reach(recorded, ExecutionError("it broke"))
    assert called.wait(10)
    assert errors[0].what == "it broke"


def test_on_ready_calls_at_once_if_ready():
    seen = []
    CompletedEvent().on_ready(seen.append)
    assert seen == [None]


def test_many_callbacks_and_one_that_raises(caplog):
    events = [NullEvent() for _ in range(20)]
    left = threading.Semaphore(0)

    def bad(error):
        left.release()
        raise ValueError("the user's")

    for i, event in enumerate(events):
        event.on_ready(bad if i == 3 else lambda error: left.release())
    for event in reversed(events):
        reach(event)
    for _ in events:
        assert left.acquire(timeout=10)


class BrokenEvent(Event):
    def __init__(self, function):
        self.function = function

    def is_ready(self):
        return self.answer("is_ready", True)

    def wait(self, timeout_s=None):
        return self.answer("wait", True)

    def error(self):
        return self.answer("error", None)

    def answer(self, function, value):
        if function == self.function:
            raise RuntimeError("driver bug")
        return value


@pytest.mark.parametrize("function", ["is_ready", "error"])
def test_a_plugins_broken_event_is_a_failure_not_a_crash(function):
    event = DefinitionEvent("null:0", BrokenEvent(function))
    assert event.is_ready()
    error = event.error()
    assert isinstance(error, PluginError)
    assert "null:0" in error.what


def test_a_broken_wait_is_a_failure():
    class NeverReady(BrokenEvent):
        def is_ready(self):
            return False

    event = DefinitionEvent("null:0", NeverReady("wait"))
    with pytest.raises(PluginError, match=r"Event\.wait"):
        event.check()


def test_an_error_of_wrong_type_is_a_plugin_error():
    event = DefinitionEvent("null:0", CompletedEvent("a string"))
    with pytest.raises(PluginError, match="returned str"):
        event.check()


def test_a_broken_event_reaches_its_callback():
    class Late(BrokenEvent):
        asked = 0

        def is_ready(self):
            self.asked += 1
            if self.asked > 1:
                raise RuntimeError("driver bug")
            return False

    called, errors = threading.Event(), []
    Late("").on_ready(lambda e: (errors.append(e), called.set()))
    assert called.wait(10)
    assert isinstance(errors[0], PluginError)


def test_long_chains_need_no_recursion():
    event = DefinitionEvent("null:0", failure=failed())
    for _ in range(100_000):
        event = DefinitionEvent("null:0", READY, [event])
    assert event.error().what == "it broke"


def test_readers_do_not_share_a_traceback():
    event = DefinitionEvent("null:0", failure=failed())
    errors = []
    for _ in range(2):
        with pytest.raises(ExecutionError, match="it broke") as info:
            event.check()
        errors.append(info.value)
    assert errors[0] is not errors[1]
    assert event.error().__traceback__ is None


def test_the_traceback_of_a_failure_is_kept_as_text():
    try:
        raise ExecutionError("it broke") from ValueError("driver bug")
    except ExecutionError as e:
        event = DefinitionEvent("null:0", failure=ExecutionFailure(e, "null:0"))
    with pytest.raises(ExecutionError) as info:
        event.check()
    (note,) = info.value.__notes__
    assert "test_the_traceback_of_a_failure_is_kept_as_text" in note
    assert "driver bug" in note


def test_a_failure_that_ctrl_c_ended_on_its_way_says_nothing(log, monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    monkeypatch.setattr(definition_event, "_keep_traceback_as_text", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        failed()
    ExecutionFailure.__new__(ExecutionFailure)
    gc.collect()
    assert told == []
    assert log.records == []


def _interrupted(_):
    raise KeyboardInterrupt
