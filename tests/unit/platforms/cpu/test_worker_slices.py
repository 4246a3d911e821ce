"""Which kernel a helping thread worked on, by the time."""

from __future__ import annotations

import numpy as np

import xladev.platforms.cpu.rows as rows_of
from xladev.compiler.plan.operations import TracedOperation
from xladev.instrument import TraceEvent
from xladev.platforms.cpu.trace_points import BEGIN, COPY, END, HELP, HELPED, PART, PART_ENDED
from xladev.platforms.cpu.worker_slices import help_events, helper_tracks

CALLER, HELPER, OTHER = 11, 22, 33
PROGRAM = 0x1000


def kernel(name: str, start: int, end: int) -> TraceEvent:
    args = {"hlo_op": name, "hlo_module": "m"}
    return TraceEvent(name, "kernel", start, end - start, "cpu:0/stream (MainThread)", args)


def helped(*marks: tuple[int, int, int]) -> list[tuple[str, str, int, int]]:
    """Of two kernels: names, rows and times of slices, of (step, time, thread) marks."""
    given = np.array([(0, *mark) for mark in marks], np.int64)
    kernels = [kernel("a", 100, 200), kernel("b", 200, 400)]
    events = help_events(given, helper_tracks(given), kernels)
    return [(e.name, e.track, e.start_ns, e.start_ns + e.duration_ns) for e in events]


def test_a_helper_has_a_slice_for_each_kernel_that_it_worked_on() -> None:
    marks = [(HELP, 110, HELPER), (HELPED, 190, HELPER), (HELP, 250, HELPER), (HELPED, 390, HELPER)]
    assert helped(*marks, (HELP, 300, OTHER), (HELPED, 350, OTHER)) == [
        ("a", "cpu:0/helper 1", 110, 190),
        ("b", "cpu:0/helper 1", 250, 390),
        ("b", "cpu:0/helper 2", 300, 350),
    ]


def test_help_without_a_beginning_or_without_a_kernel_is_left_out() -> None:
    assert helped((HELPED, 150, HELPER), (HELP, 450, HELPER), (HELPED, 460, HELPER)) == []


class Program:
    name = "m"
    device = "cpu:0"
    operations = (TracedOperation("dot.1", "dot", "", "", 8, 0, 96, ()),)


def test_rows_become_programs_kernels_copies_and_help() -> None:
    table = np.array(
        [
            (PROGRAM, BEGIN, 100, CALLER),
            (0, HELP, 120, HELPER),
            (0, HELPED, 180, HELPER),
            (PROGRAM, 0, 200, CALLER),
            (PROGRAM, COPY, 210, CALLER),
            (PROGRAM, END, 215, CALLER),
            (PROGRAM + 8, BEGIN, 300, CALLER),  # of a program that nobody knows
            (PROGRAM + 8, END, 310, CALLER),
        ],
        np.int64,
    )
    events = list(rows_of.events_of(table, {PROGRAM: [(0, Program())]}, {}))
    assert [(e.category, e.name, e.start_ns, e.duration_ns) for e in events] == [
        ("kernel", "dot.1", 100, 100),
        ("copy", "copy", 200, 10),
        ("cluster", "m", 100, 115),
        ("help", "dot.1", 120, 60),
    ]


def test_a_program_that_another_one_calls_takes_no_time_of_its_kernels() -> None:
    inner = PROGRAM + 64
    table = np.array(
        [
            (PROGRAM, BEGIN, 100, CALLER),
            (inner, BEGIN, 110, CALLER),
            (inner, END, 150, CALLER),
            (PROGRAM, 0, 160, CALLER),
            (PROGRAM, END, 161, CALLER),
        ],
        np.int64,
    )
    known = {PROGRAM: [(0, Program())], inner: [(0, Program())]}
    events = list(rows_of.events_of(table, known, {}))
    assert [(e.category, e.start_ns, e.duration_ns) for e in events] == [
        ("cluster", 110, 40),
        ("kernel", 150, 10),
        ("cluster", 100, 61),
    ]


def test_ticks_are_put_on_the_clock_by_two_moments() -> None:
    ticks = np.array([1000, 1500, 2000], np.int64)
    times = rows_of.in_nanoseconds(ticks, (1000, 50_000), (2000, 50_500))
    assert times.tolist() == [50_000, 50_250, 50_500]


def test_a_part_of_a_fork_is_no_help_and_its_kernels_are_on_the_row_of_its_thread() -> None:
    table = np.array(
        [
            (PROGRAM, BEGIN, 100, CALLER),
            (PROGRAM, 0, 150, CALLER),
            (0, HELP, 155, HELPER),
            (PROGRAM, PART, 160, CALLER),
            (PROGRAM, PART, 165, HELPER),
            (PROGRAM, 0, 200, CALLER),
            (PROGRAM, 0, 250, HELPER),
            (PROGRAM, PART_ENDED, 251, HELPER),
            (0, HELPED, 255, HELPER),
            (PROGRAM, PART_ENDED, 260, CALLER),
            (PROGRAM, 0, 280, CALLER),
            (PROGRAM, END, 300, CALLER),
        ],
        np.int64,
    )
    events = list(rows_of.events_of(table, {PROGRAM: [(0, Program())]}, {}))
    found = [(e.category, e.track.partition("/")[2], e.start_ns, e.duration_ns) for e in events]
    caller = f"stream (thread {CALLER:#x})"
    assert found == [
        ("kernel", caller, 100, 50),
        ("kernel", caller, 160, 40),
        ("kernel", caller, 260, 20),
        ("cluster", caller, 100, 200),
        ("kernel", "helper 1", 165, 85),
    ]
