"""One timeline of all processes of a job: their clocks aligned, their rows side by side."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

from xladev.errors import ProcessError
from xladev.runtime.distributed.clocks import clock_offsets
from xladev.runtime.distributed.job import Job
from xladev.runtime.distributed.messages import run_tag
from xladev.runtime.distributed.transport import Data, Exchange

Json = dict[str, Any]

_NAME = b"timelines"
_PIDS, _TIDS, _IDS = 1000, 1 << 20, 1 << 40
"""How far apart the numbers of processes, of rows, and of arrows are."""
_MOST_NBYTES = 1 << 31


def gather_timelines(job: Job, document: Json) -> Json | None:
    """The document of all processes in process 0; None in others. All call it.

    Args:
        job: whose processes.
        document: of this process, as of `Timeline.to_json`.

    Raises:
        ProcessError: a process does not come, or sends no timeline.
    """
    run = run_tag(_NAME, job.next_run(_NAME))
    offsets = clock_offsets(job, run)
    channel = job.transport.channel(_NAME, range(job.count))
    exchange = Exchange(run, "timelines")
    if job.index:
        data = zlib.compress(json.dumps(document, default=str).encode(), 1)
        channel.exchange(exchange, {0: data}, [])
        return None
    arrived = channel.exchange(exchange, {}, range(1, job.count))
    documents = [document, *(_read(arrived[p], p) for p in range(1, job.count))]
    return merged(documents, offsets)


def _read(data: Data, process: int) -> Json:
    try:
        found: Json = json.loads(zlib.decompressobj().decompress(data, _MOST_NBYTES))
    except (ValueError, zlib.error) as error:
        raise ProcessError(f"process {process} sent no timeline", why=str(error)) from error
    return found


def merged(documents: Sequence[Json], offsets: Sequence[tuple[int, int]]) -> Json:
    """One document.

    Args:
        documents: of processes, in their order.
        offsets: what to add to each one's clock to have that of the first, and how far that may be
            off, in nanoseconds.
    """
    start = documents[0]["otherData"]["start_perf_counter_ns"]
    events: list[Json] = []
    for process, (each, (offset, _)) in enumerate(zip(documents, offsets, strict=True)):
        shift = (each["otherData"]["start_perf_counter_ns"] + offset - start) / 1e3
        pid = process * _PIDS + documents[0]["otherData"]["pid"] - each["otherData"]["pid"]
        events += (_moved(event, process, pid, shift) for event in each["traceEvents"])
    earliest = min((e["ts"] for e in events if "ts" in e), default=0.0)
    for event in events:
        if "ts" in event:
            event["ts"] = round(event["ts"] - min(earliest, 0.0), 3)
    events.sort(key=lambda e: (e["ph"] != "M", e.get("ts", 0.0), -e.get("dur", 0.0)))
    facts = {
        **documents[0]["otherData"],
        "dropped": sum(each["otherData"]["dropped"] for each in documents),
        "processes": [
            {"pid": each["otherData"]["pid"], "clock_offset_ns": offset, "clock_error_ns": error}
            for each, (offset, error) in zip(documents, offsets, strict=True)
        ],
    }
    return {**documents[0], "traceEvents": events, "otherData": facts}


def _moved(event: Json, process: int, pid: int, shift_us: float) -> Json:
    """An event with numbers of its own among all processes, at the first one's time."""
    made = {**event, "pid": pid + event["pid"]}
    if made.get("tid"):
        made["tid"] += process * _TIDS
    if "ts" in made:
        made["ts"] += shift_us
    if "id" in made:
        made["id"] += process * _IDS
    if made["ph"] == "M" and made["name"] == "process_name":
        made["args"] = {"name": f"process {process}: {made['args']['name']}"}
    if made["ph"] == "M" and made["name"] == "thread_sort_index":
        made["args"] = {"sort_index": made["tid"]}
    if made["ph"] == "M" and made["name"] == "process_sort_index":
        made["args"] = {"sort_index": process * _PIDS + made["args"]["sort_index"]}
    return made
