"""Sinks for dumps, trace events, counters, decisions, logs; each costs one test while it is off."""

from xladev.instrument.counters import collect_counters, counter, counters
from xladev.instrument.decisions import Decision, collect_decisions, decision
from xladev.instrument.dump import dump, dumping, dumping_to
from xladev.instrument.log import LOGGERS, configure_logging, logger
from xladev.instrument.trace import Trace, TraceEvent, trace_event, trace_scope, tracing
from xladev.instrument.watching import watchers_address

__all__ = [
    "LOGGERS",
    "Decision",
    "Trace",
    "TraceEvent",
    "collect_counters",
    "collect_decisions",
    "configure_logging",
    "counter",
    "counters",
    "decision",
    "dump",
    "dumping",
    "dumping_to",
    "logger",
    "trace_event",
    "trace_scope",
    "tracing",
    "watchers_address",
]
