"""The recorder of marks, where programs are unloaded at any moment."""

from __future__ import annotations

import threading

from xladev.platforms.cpu.recorder import Recorder, TracedProgram


def test_a_program_may_be_unloaded_by_a_thread_that_is_in_the_recorder() -> None:
    recorder = Recorder()
    recorder.add_program(64, TracedProgram("p", "cpu:0", b""))

    def collected() -> None:
        with recorder._lock:
            recorder.remove_program(64)

    thread = threading.Thread(target=collected, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive(), "it waits for a lock that it holds itself"
    assert recorder._programs == {}
