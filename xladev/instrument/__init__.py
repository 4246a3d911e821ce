"""Sinks for dumps, trace events, counters, decisions, logs; each costs one test while it is off."""

from xladev.instrument.counters import collect_counters, counter, counters
from xladev.instrument.decisions import (
    Decision,
    collect_decisions,
    decision,
    is_deciding,
    without_decisions,
)
from xladev.instrument.dump import dump, dump_group, dumping, dumping_to
from xladev.instrument.log import LOGGERS, configure_logging, logger
from xladev.instrument.signals import is_interruption, pass_interruption
from xladev.instrument.trace import (
    Trace,
    TraceEvent,
    TraceSource,
    add_trace_source,
    is_tracing,
    next_flow,
    trace_counter,
    trace_event,
    trace_later,
    trace_scope,
    tracing,
)
from xladev.instrument.watching import watchers_address

__all__ = [
    "LOGGERS",
    "Decision",
    "Trace",
    "TraceEvent",
    "TraceSource",
    "add_trace_source",
    "collect_counters",
    "collect_decisions",
    "configure_logging",
    "counter",
    "counters",
    "decision",
    "dump",
    "dump_group",
    "dumping",
    "dumping_to",
    "is_deciding",
    "is_interruption",
    "is_tracing",
    "logger",
    "next_flow",
    "pass_interruption",
    "trace_counter",
    "trace_event",
    "trace_later",
    "trace_scope",
    "tracing",
    "watchers_address",
    "without_decisions",
]
